"""A run by Diffrax: the only call to `diffrax.diffeqsolve`."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._results import RESULTS
from ._leg import Leg
from ._method import Method
from ._plan import DiffraxSide
from ._simulation import AbstractSimulation


_STATS = ("num_steps", "num_accepted_steps", "num_rejected_steps")


def diffrax_leg(
    simulation: AbstractSimulation,
    method: Method,
    side: DiffraxSide,
    y0: PyTree[Array],
    *,
    span: tuple[Array, Array],
    times: Array,
    meter: diffrax.AbstractProgressMeter,
) -> Leg:
    """States at `times`, which lie in order in the `span` from epoch to end."""
    t0, t1 = span
    saved = {
        "states": diffrax.SubSaveAt(ts=times),
        "end": diffrax.SubSaveAt(t1=True),
        "ends": diffrax.SubSaveAt(steps=True, fn=lambda t, y, args: t),
    }
    # Forward and reverse mode where nobody chose; Diffrax's default does one.
    adjoint = diffrax.DirectAdjoint() if method.adjoint is None else method.adjoint
    assert isinstance(adjoint, diffrax.AbstractAdjoint)
    solution = diffrax.diffeqsolve(
        simulation.terms(),
        method.solver,
        t0,
        t1,
        None if method.step is None else jnp.where(t1 >= t0, 1, -1) * method.step,
        y0,
        simulation,
        saveat=diffrax.SaveAt(subs=saved),
        stepsize_controller=_typed(side.controller, t0.dtype),
        adjoint=adjoint,
        max_steps=side.max_steps,
        throw=False,
        progress_meter=meter,
    )
    assert solution.ys is not None
    return Leg(
        solution.ys["states"],
        jax.tree.map(lambda a: a[-1], solution.ys["end"]),
        t1,
        RESULTS.promote(solution.result),
        {name: solution.stats[name] for name in _STATS},
        # Where the steps ended is bookkeeping: the controller chose them.
        jax.lax.stop_gradient(solution.ys["ends"]),
    )


def _typed(controller: diffrax.AbstractStepSizeController, dtype):
    """Given steps in the type of the state, which they would otherwise promote."""
    if not isinstance(controller, diffrax.StepTo):
        return controller
    return eqx.tree_at(lambda c: c.ts, controller, controller.ts.astype(dtype))
