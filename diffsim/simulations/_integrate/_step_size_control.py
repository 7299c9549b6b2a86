"""Step-size control: the one place that decides how adaptive steps are chosen."""

from typing import Any, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._inspection import depends_on_first
from ..._results import equals
from ..._types import PyTree
from .._elapsed_time import controller_since
from .._method import Method, PrescribedSteps, controller_of
from .._simulation import AbstractSimulation
from ._adaptive_step import steps_to_outputs
from ._replay import fits_in_memory, steps_between
from ._run_plan import DiffraxPlan, Plan, Side


#: Of a run: what lasts as long is evaluated at least once.
_PART = 0.01


@runtime_checkable
class BoundsSteps(Protocol):
    """A step-size controller that is given a longest step where time is read."""

    def with_longest_step(self, longest: Array) -> diffrax.AbstractStepSizeController:
        """Itself, with no step that is longer."""
        ...


def with_step_size_control(
    plan: Plan,
    simulation: AbstractSimulation,
    t0: Any,
    elapsed: Array,
    y0: PyTree[Array],
    meter: diffrax.AbstractProgressMeter,
    *,
    to_outputs: bool,
) -> Plan:
    """The plan with the controllers of its sides, for outputs `elapsed` after `t0`.

    A controller of the method, or by default one with tolerances that states of this
    type can meet, is made one of elapsed time. Where the rate reads the time and the
    simulation asks for it, no step is longer than a hundredth of the run. With
    `to_outputs` a step ends at each output, for what asks for it: that is a run by
    Diffrax's loop as well, with a `meter` or too large to keep states of, for its
    interpolants are coarser than the steps. At last, a run whose steps shrink away
    ends.
    """
    method = plan.method
    _check_step(method.step, elapsed.dtype)
    if method.uses_scan:
        return plan
    part = _longest_part(plan, simulation, y0)

    def decided(side: Side | None, times: Array, last: Array) -> DiffraxPlan | None:
        if side is None:
            return None
        assert isinstance(side, DiffraxPlan)
        controller, steps = side.controller, side.max_steps
        if method.adaptive and not isinstance(method.controller, PrescribedSteps):
            controller: Any = controller_of(method, times.dtype)
            if method.controller is not None:
                controller = controller_since(t0, controller, times.dtype)
        assert controller is not None
        if part is not None:
            controller = _with_longest_step(controller, part * _span(last))
        kept = fits_in_memory(y0, 2 * steps_between(side.max_steps))
        kept = kept and isinstance(meter, diffrax.NoProgressMeter)
        ends = _ends_at_outputs(method, controller, kept=kept)
        if to_outputs and times.size > 1 and ends:
            controller = StepToOutputs(controller, times)
            # What outputs add is not the dynamics' doing, so it does not count.
            steps += side.outputs
        controller = with_minimum_step(controller, times.dtype)
        return DiffraxPlan(side.outputs, steps, controller)

    if plan.sides is None:
        traced = decided(plan.traced, elapsed, elapsed)
        return Plan(method, None, plan.halved, traced)
    before, after = plan.sides
    split = 0 if before is None else before.outputs
    before = decided(before, elapsed[:split], elapsed[:1])
    after = decided(after, elapsed[split:], elapsed[-1:])
    return Plan(method, (before, after), plan.halved)


def _longest_part(
    plan: Plan, simulation: AbstractSimulation, y0: PyTree[Array]
) -> float | None:
    """The part of a run that no step skips; None where any length will do.

    Steps that are given, and a `dtmax` that is, stay.
    """
    given = not plan.method.adaptive
    given = given or isinstance(plan.method.controller, PrescribedSteps)
    if given or not simulation.bounds_steps or not _is_driven(simulation, y0):
        return None
    return _PART * 0.5**plan.halved


def _is_driven(simulation: AbstractSimulation, y0: PyTree[Array]) -> bool:
    terms = simulation.terms()
    t = jnp.zeros((), jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype)
    return depends_on_first(lambda t, y: terms.vf(t, y, simulation), t, y0)


def _span(elapsed: Array) -> Array:
    # Held as all that steps are chosen by. A run of no length has no bound.
    span = jax.lax.stop_gradient(jnp.max(jnp.abs(elapsed)))
    return jnp.where(span > 0, span, jnp.inf)


def _with_longest_step(
    controller: diffrax.AbstractStepSizeController, longest: Array
) -> diffrax.AbstractStepSizeController:
    """`controller`, with no step that is longer unless it says of one."""
    if isinstance(controller, diffrax.ClipStepSizeController):
        inner = _with_longest_step(controller.controller, longest)
        return eqx.tree_at(lambda c: c.controller, controller, inner)
    if isinstance(controller, BoundsSteps):
        return controller.with_longest_step(longest)
    if isinstance(controller, diffrax.PIDController) and controller.dtmax is None:
        return eqx.tree_at(
            lambda c: c.dtmax, controller, longest, is_leaf=lambda x: x is None
        )
    return controller


def _ends_at_outputs(
    method: Method, controller: diffrax.AbstractStepSizeController, *, kept: bool
) -> bool:
    """Whether steps are to end at outputs.

    Solvers ask for it that are coarse between their steps, and controllers of their own
    accord. One that the caller has clipped is as the caller wants it.
    """
    asked = getattr(type(method.solver), "ends_steps_at_outputs", False)
    if method.adjoint is None and not kept:
        asked = asked or steps_to_outputs(method.solver)
    chooses = getattr(controller, "has_shortest_step", False)
    asked = asked and (chooses or isinstance(controller, diffrax.PIDController))
    return asked or getattr(controller, "ends_steps_at_outputs", False)


def never_jumps(controller: Any) -> bool:
    """Whether a controller, decided on here, never makes the state jump in time."""
    if isinstance(controller, StepToOutputs | _Guarded):
        return never_jumps(controller.controller)
    steady = isinstance(controller, diffrax.PIDController)
    return steady or getattr(controller, "never_jumps", False)


def _check_step(step: float | int | None, dtype: Any):
    """Refuse a step that is infinite, or nothing, in the type of the state."""
    if step is None:
        return
    info = jnp.finfo(dtype)
    least, most = float(info.tiny), float(info.max)
    if not least <= step <= most:
        raise ValueError(
            f"step must lie between {least:.3g} and {most:.3g}, which {dtype} can "
            f"hold, got {step:g}; take a step in proportion to the times"
        )


#: A step grows by this part of it at most, so that no next one is a sliver.
_STRETCH = 0.01


class StepToOutputs(diffrax.AbstractStepSizeController):
    """A controller's steps, made equal on the way to the next of `times`.

    Diffrax's `ClipStepSizeController` may leave a rest of a rounding's length, over
    which an implicit stage has no slope.
    """

    controller: diffrax.AbstractStepSizeController
    times: Array

    def __init__(self, controller: Any, times: Array):
        self.controller = controller
        # Held: a tangent of the times would pass into the lengths of all later steps,
        # where the controller makes it grow without bound. An output still has its
        # derivative by its own time, that along the step which ends there.
        self.times = jax.lax.stop_gradient(times)

    def wrap(self, direction):
        inner, ends = self.controller.wrap(direction), jnp.sort(direction * self.times)
        return eqx.tree_at(lambda c: (c.controller, c.times), self, (inner, ends))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        end, state = self.controller.init(
            terms, t0, t1, y0, dt0, args, func, error_order
        )
        return self._landed(t0, end), state

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        keep, start, end, jumped, state, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        return keep, start, self._landed(start, end), jumped, state, result

    def _landed(self, start, end):
        """The end of a step that would go from `start` to `end`."""
        place = jnp.sum(self.times <= start)
        output = self.times[jnp.minimum(place, self.times.size - 1)]
        steps = jnp.ceil((output - start) / (end - start) - _STRETCH)
        one_of_them = start + (output - start) / jnp.maximum(steps, 1)
        landed = jnp.where(steps > 1, one_of_them, output)
        return jnp.where(place < self.times.size, landed, end)


#: A step of so many roundings of the time, or fewer, leads nowhere: at a pole of
#: y' = y² steps of two go on for ever. Singles late in a long run do take steps of a
#: few, 0.2 at 1e5.
_ULPS = 4


def with_minimum_step(
    controller: diffrax.AbstractStepSizeController, dtype: Any
) -> diffrax.AbstractStepSizeController:
    """`controller`, given times of this type, and up where its steps shrink away."""
    shrinks = getattr(controller, "has_shortest_step", False)
    if shrinks or isinstance(controller, diffrax.PIDController):
        return _Guarded(controller)
    if isinstance(controller, StepToOutputs | diffrax.ClipStepSizeController):
        inner = with_minimum_step(controller.controller, dtype)
        return eqx.tree_at(lambda c: c.controller, controller, inner)
    if isinstance(controller, diffrax.StepTo):
        # Else the state would be promoted by them.
        return eqx.tree_at(lambda c: c.ts, controller, controller.ts.astype(dtype))
    return controller


class _Guarded(diffrax.AbstractAdaptiveStepSizeController):
    """Ends a run at once that else would reject steps until there are no more.

    Time is counted from the epoch, so that it tells apart what is short near it.
    """

    controller: Any

    def __init__(self, controller: Any):
        self.controller = controller

    # Implicit solvers ask for them; none goes with a controller that has none.
    @property
    def rtol(self):
        return getattr(self.controller, "rtol", 0.0)

    @property
    def atol(self):
        return getattr(self.controller, "atol", 0.0)

    @property
    def norm(self):
        return getattr(self.controller, "norm", None)

    def wrap(self, direction):
        return _Guarded(self.controller.wrap(direction))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        return self.controller.init(terms, t0, t1, y0, dt0, args, func, error_order)

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        keep, start, end, jumped, state, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        # Written so that NaN is too short.
        ulp = jnp.finfo(jnp.result_type(start)).eps * jnp.abs(start)
        ulps = _ULPS if ulp.dtype == jnp.float64 else jnp.where(keep, 1, 2)
        short = ~(end - start > ulps * ulp)
        stuck = diffrax.RESULTS.where(
            short, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful
        )
        fine = equals(result, diffrax.RESULTS.successful)
        result = stuck if fine is True else diffrax.RESULTS.where(fine, stuck, result)
        return keep, start, end, jumped, state, result
