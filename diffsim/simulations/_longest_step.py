"""Longest steps, where the dynamics read the time.

What an error estimate does not see it cannot follow: a source that acts between two
evaluations of the rate has not been.
"""

from typing import Any, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ._method import GivenSteps, Method
from ._plan import DiffraxSide, Plan
from ._reads_time import reads_time
from ._simulation import AbstractSimulation


#: Of a run: what lasts as long is evaluated at least once.
_PART = 0.01


@runtime_checkable
class BoundsSteps(Protocol):
    """A step-size controller that is told a longest step where time is read."""

    def with_longest_step(self, longest: Array) -> diffrax.AbstractStepSizeController:
        """Itself, with no step that is longer."""
        ...


def with_longest_step(
    plan: Plan, simulation: AbstractSimulation, elapsed: Array, y0: PyTree[Array]
) -> Plan:
    """The plan with controllers that skip no more than a hundredth of a run.

    For simulations that ask for it and whose rate reads the time; steps that are given,
    and a `dtmax` that is, stay. `elapsed` are the times of outputs since the epoch.
    """
    method = plan.method
    given = not method.adaptive or isinstance(method.controller, GivenSteps)
    if given or not simulation.bounds_steps or not _is_driven(simulation, y0):
        return plan
    part = _PART * 0.5**plan.halved
    method = _bounded(method, part * _span(elapsed))
    if plan.sides is None:
        return Plan(method, None, plan.halved)
    sides = []
    for side, outermost in zip(plan.sides, (elapsed[:1], elapsed[-1:]), strict=True):
        if isinstance(side, DiffraxSide):
            controller = _of(side.controller, part * _span(outermost))
            side = DiffraxSide(side.outputs, side.max_steps, controller)
        sides.append(side)
    return Plan(method, (sides[0], sides[1]), plan.halved)


def _is_driven(simulation: AbstractSimulation, y0: PyTree[Array]) -> bool:
    terms = simulation.terms()
    t = jnp.zeros((), jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype)
    return reads_time(lambda t, y: terms.vf(t, y, simulation), t, y0)


def _span(elapsed: Array) -> Array:
    # Held as all that steps are chosen by. A run of no length has no bound.
    span = jax.lax.stop_gradient(jnp.max(jnp.abs(elapsed)))
    return jnp.where(span > 0, span, jnp.inf)


def _bounded(method: Method, longest: Array) -> Method:
    return eqx.tree_at(lambda m: m.controller, method, _of(method.controller, longest))


def _of(controller: Any, longest: Array) -> Any:
    """`controller`, with no step that is longer unless it says of one."""
    if isinstance(controller, diffrax.ClipStepSizeController):
        inner = _of(controller.controller, longest)
        return eqx.tree_at(lambda c: c.controller, controller, inner)
    if isinstance(controller, BoundsSteps):
        return controller.with_longest_step(longest)
    if isinstance(controller, diffrax.PIDController) and controller.dtmax is None:
        return eqx.tree_at(
            lambda c: c.dtmax, controller, longest, is_leaf=lambda x: x is None
        )
    return controller
