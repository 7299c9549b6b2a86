"""A run by Diffrax: the only call to `diffrax.diffeqsolve`."""

from typing import Any

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


STATS = ("num_steps", "num_accepted_steps", "num_rejected_steps")


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
    saved = {
        "states": diffrax.SubSaveAt(ts=times),
        "end": diffrax.SubSaveAt(t1=True),
        "ends": diffrax.SubSaveAt(steps=True, fn=lambda t, y, args: t),
    }
    solution = _solved(
        simulation, method, side, y0, span, diffrax.SaveAt(subs=saved), meter, None
    )
    assert solution.ys is not None
    return Leg(
        solution.ys["states"],
        jax.tree.map(lambda a: a[-1], solution.ys["end"]),
        span[1],
        RESULTS.promote(solution.result),
        {name: solution.stats[name] for name in STATS},
        # Where the steps ended is bookkeeping: the controller chose them.
        jax.lax.stop_gradient(solution.ys["ends"]),
    )


def diffrax_steps(
    simulation: AbstractSimulation,
    method: Method,
    side: DiffraxSide,
    y0: PyTree[Array],
    span: tuple[Array, Array],
    meter: diffrax.AbstractProgressMeter,
    until: diffrax.Event | None,
) -> tuple[Array, PyTree[Any], Any, dict[str, Array]]:
    """Ends of the steps, padded with infinity, states there, result and statistics."""
    solution = _solved(
        simulation, method, side, y0, span, diffrax.SaveAt(steps=True), meter, until
    )
    result = solution.result
    stopped = result == diffrax.RESULTS.event_occurred
    good: Any = diffrax.RESULTS
    result = good.where(stopped, good.successful, result)
    stats = {name: solution.stats[name] for name in STATS}
    assert solution.ts is not None
    return solution.ts, solution.ys, RESULTS.promote(result), stats


def _solved(simulation, method, side, y0, span, saveat, meter, until):
    t0, t1 = span
    # Forward and reverse mode where nobody chose; Diffrax's default does one.
    adjoint = diffrax.DirectAdjoint() if method.adjoint is None else method.adjoint
    assert isinstance(adjoint, diffrax.AbstractAdjoint)
    return diffrax.diffeqsolve(
        simulation.terms(),
        method.solver,
        t0,
        t1,
        None if method.step is None else jnp.where(t1 >= t0, 1, -1) * method.step,
        y0,
        simulation,
        saveat=saveat,
        stepsize_controller=_typed(side.controller, t0.dtype),
        adjoint=adjoint,
        event=until,
        max_steps=side.max_steps,
        throw=False,
        progress_meter=meter,
    )


def _typed(controller: diffrax.AbstractStepSizeController, dtype):
    """Given steps in the type of the state, which they would otherwise promote."""
    if not isinstance(controller, diffrax.StepTo):
        return controller
    return eqx.tree_at(lambda c: c.ts, controller, controller.ts.astype(dtype))
