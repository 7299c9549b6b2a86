"""Plan of a run: its directions, outputs, numbers of steps and step size control.

It also decides which loop takes adaptive steps, ours or Diffrax's: `with_loop`.
"""

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ... import _tuning
from ..._jaxpr._inspection import depends_on_first
from ..._results import RESULTS, equals
from ..._types import PyTree
from ..._validation import is_traced
from .._elapsed_time import Epoch, controller_since, elapsed_since
from .._method import MAX_STEPS, Method, PrescribedSteps, controller_of
from .._simulation import AbstractSimulation
from ._checkpointed_adjoint import AbstractScanAdjoint, Checkpointed
from ._segment_schedule import Schedule, grid_steps
from ._splitting_solver import AbstractSplittingSolver
from ._step import is_ode_term, is_runge_kutta, memory_is_a_guess, steps_to_outputs


#: A progress meter moves at least this often in a run at fixed steps.
_TICKS = 50


class FixedStepPlan(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by fixed steps.

    See `Schedule` and `grid_steps`; `remainder` is None if every output is on the grid.
    """

    outputs: int = eqx.field(static=True)
    step: float = eqx.field(static=True)
    schedule: Schedule = eqx.field(static=True)
    points: np.ndarray
    remainder: np.ndarray | None


class AdaptivePlan(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by adaptive steps.

    The `controller` is the method's until `with_step_size_control` decides on it and
    on the rest: whether our loop serves or Diffrax's, whether derivatives go along the
    recorded steps, and after how many steps a state is kept for them, None for never.
    """

    outputs: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    controller: diffrax.AbstractStepSizeController | None
    has_own_loop: bool = eqx.field(static=True, default=False)
    is_replayed: bool = eqx.field(static=True, default=False)
    every: int | None = eqx.field(static=True, default=None)


Side = FixedStepPlan | AdaptivePlan


class Plan(eqx.Module):
    """How to reach the outputs; `sides` is None where times or epoch are traced.

    `halved` counts how often the longest step was, to see what that does. `traced` is
    the way of adaptive steps in either direction where times or epoch are traced.
    """

    method: Method
    sides: tuple[Side | None, Side | None] | None
    halved: int = eqx.field(static=True)
    traced: AdaptivePlan | None = None


def make_plan(
    method: Method, times, t0, *, watched: bool, events: bool, halved: int
) -> tuple[Plan, float | None]:
    """The plan for a run from `t0` to `times` (checked, ascending), and where it ends.

    The end is None if it is known only when the run has been made. `events` need the
    sides wherever they can be known.
    """
    free = not isinstance(t0, float | int) and method.max_steps and not events
    if is_traced(times) or is_traced(t0) or free:
        _check_bounded(method)
        traced = None
        if not method.uses_scan:
            traced = _adaptive_plan(method, np.size(times), span=None)
        return Plan(method, None, halved, traced), None
    times, t0 = np.atleast_1d(times), float(t0)
    elapsed = elapsed_since(t0, times)
    # The epoch belongs to the past where nothing lies after it: the run ends there.
    past = elapsed < 0 if elapsed[-1] > 0 else elapsed <= 0
    before = _side(method, times[past][::-1], t0, watched=watched)
    after = _side(method, times[~past], t0, watched=watched)
    last = before if after is None else after
    end = float(times[0] if after is None else times[-1])
    if isinstance(last, FixedStepPlan):
        end = t0 + last.schedule.steps * last.step
    return Plan(method, (before, after), halved), end


def _side(method: Method, times: np.ndarray, t0: float, *, watched) -> Side | None:
    if times.size == 0:
        return None
    elapsed = elapsed_since(t0, times)
    if not method.uses_scan:
        _check_not_interpolated(method, times, t0)
        return _adaptive_plan(method, times.size, span=(t0, float(elapsed[-1])))
    assert method.step is not None
    sign = -1 if elapsed[-1] < 0 else 1
    points, remainder = grid_steps(times, t0, float(method.step))
    segments = max(_TICKS if watched else 1, _segments(method, int(points[-1])))
    return FixedStepPlan(
        times.size,
        sign * float(method.step),
        Schedule.reaching(points, segments=segments),
        points,
        sign * remainder if remainder.any() else None,
    )


def _adaptive_plan(
    method: Method, outputs: int, *, span: tuple[float, float] | None
) -> AdaptivePlan:
    """How `diffeqsolve` reaches the outputs.

    `span` are the epoch and how long after it the run ends, None if times are traced.
    """
    controller, steps = method.controller, method.max_steps or MAX_STEPS
    if isinstance(controller, PrescribedSteps):
        assert span is not None
        controller = controller.towards(*span)
    elif method.step is not None and isinstance(
        controller, diffrax.ConstantStepSize | None
    ):
        controller = diffrax.ConstantStepSize()
        if span is not None and method.max_steps is None:
            steps = int(np.ceil(abs(span[1]) / method.step)) + 1
    elif isinstance(controller, diffrax.StepTo):
        steps = max(steps, controller.ts.size)
    return AdaptivePlan(outputs, steps, controller)


def _segments(method: Method, steps: int) -> int:
    if not isinstance(method.adjoint, Checkpointed):
        return 1
    chosen = method.adjoint.segments
    return int(np.ceil(np.sqrt(steps))) if chosen is None else chosen


def _check_bounded(method: Method):
    if not method.adaptive and method.max_steps is None:
        raise ValueError(
            "times or t0 are traced, so the number of fixed steps is not known while "
            "compiling; make times with NumPy, or with jax.numpy outside the function "
            "that is traced, and keep t0 a Python float (eqx.filter_jit, filter_grad "
            "and filter_vmap leave it static; jax.jit, grad and vmap do if they are "
            "given parameters, not simulations), or give Method(max_steps=...), the "
            "way where a sweep or jit over t0 traces it, a Python float as well"
        )
    if isinstance(method.adjoint, AbstractScanAdjoint):
        raise ValueError(
            f"{type(method.adjoint).__name__} needs concrete times and a concrete t0; "
            "leave adjoint=None where they are traced"
        )
    if isinstance(method.controller, PrescribedSteps):
        raise ValueError("frozen steps need concrete times and a concrete t0")
    if _interpolates_by_a_line(method):
        raise ValueError(
            f"{type(method.solver).__name__} under {type(method.adjoint).__name__} "
            "gives outputs on the grid t0 + n step only, and times that are traced, or "
            "a t0 that is an array, may lie off it; leave adjoint=None"
        )


def _interpolates_by_a_line(method: Method) -> bool:
    """One-step maps have no dense output but a line between their steps."""
    one_step = isinstance(method.solver, AbstractSplittingSolver)
    return one_step and method.step is not None and not method.uses_scan


def _check_not_interpolated(method: Method, times: np.ndarray, t0: float):
    if not _interpolates_by_a_line(method):
        return
    assert method.step is not None
    remainder = grid_steps(times, t0, float(method.step))[1]
    if remainder.any():
        worst = times[int(np.argmax(remainder != 0))]
        solver, adjoint = type(method.solver).__name__, type(method.adjoint).__name__
        raise ValueError(
            f"times must lie on the grid t0 + n step where {solver} runs under "
            f"{adjoint}, which interpolates by a line, got {worst:.17g}; with an "
            "adjoint of ours, or None, any times will do"
        )


class RunSpec(NamedTuple):
    """A run: what, how, from where, to which times.

    All times inside are those elapsed since the epoch; `y0` holds at `begin`, which is
    zero but where an adaptive run goes on.
    """

    simulation: AbstractSimulation
    plan: Plan
    epoch: Epoch
    elapsed: Array
    begin: Array
    y0: PyTree[Array]
    meter: diffrax.AbstractProgressMeter


class RunResult(NamedTuple):
    """Internal states at the outputs, nearest to the epoch first, and how it ended.

    `ends` are the ends of adaptive steps, padded with infinity; None at fixed steps.
    `reached` are the outputs that lie before an event that ended the run; None is all.
    """

    states: PyTree[Array]
    end: PyTree[Array]
    end_time: Array
    result: RESULTS
    stats: dict[str, Array]
    ends: Array | None
    reached: Array | None = None


def fixed_step_statistics(steps: int | Array) -> dict[str, Array]:
    """Diffrax's statistics for a run whose number of steps is known."""
    counts = {"num_steps": steps, "num_accepted_steps": steps, "num_rejected_steps": 0}
    return {name: jnp.asarray(count) for name, count in counts.items()}


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

    def decided(side: Side | None, times: Array, last: Array) -> AdaptivePlan | None:
        if side is None:
            return None
        assert isinstance(side, AdaptivePlan)
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
        side = AdaptivePlan(side.outputs, steps, controller)
        return with_loop(side, method, simulation.terms(), y0)

    if plan.sides is None:
        traced = decided(plan.traced, elapsed, elapsed)
        return Plan(method, None, plan.halved, traced)
    before, after = plan.sides
    split = 0 if before is None else before.outputs
    before = decided(before, elapsed[:split], elapsed[:1])
    after = decided(after, elapsed[split:], elapsed[-1:])
    return Plan(method, (before, after), plan.halved)


def with_loop(
    side: AdaptivePlan, method: Method, terms: Any, y0: PyTree[Array]
) -> AdaptivePlan:
    """The side with the loop that serves and the way of its derivatives.

    Our loop takes no controllers that jump, no solvers that ask the controller for a
    tolerance, and no more than one term.
    """
    solver, every = method.solver, steps_between(side.max_steps)
    is_replayed = _is_replayable(solver, terms)
    asks = isinstance(solver, diffrax.AbstractImplicitSolver)
    adapts = isinstance(solver, diffrax.AbstractAdaptiveSolver) and not asks
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype
    assert side.controller is not None
    return AdaptivePlan(
        side.outputs,
        side.max_steps,
        _with_minimum_step(side.controller, dtype),
        adapts and _never_jumps(side.controller) and is_ode_term(terms),
        is_replayed,
        every if is_replayed and fits_in_memory(y0, 2 * every) else None,
    )


def fits_in_memory(y: PyTree[Array], count: int) -> bool:
    """Whether there is room for so many states like this one."""
    return count * sum(leaf.nbytes for leaf in jax.tree.leaves(y)) <= _tuning.KEPT_BYTES


def steps_between(bound: int) -> int:
    """After how many steps a state is kept, of so many that are taken at most."""
    return min(math.isqrt(bound) + 1, bound)


@runtime_checkable
class StartsAnew(Protocol):
    """A solver that may take a step from its state alone as well as in a run."""

    def starts_anew(self, terms: Any) -> bool:
        """Whether it does with these dynamics."""
        ...


def _is_replayable(solver: Any, terms: Any) -> bool:
    """Whether a run is a chain of maps that recorded ends of steps make known."""
    if is_runge_kutta(solver):
        return is_ode_term(terms)
    if memory_is_a_guess(solver):
        return True
    return isinstance(solver, StartsAnew) and solver.starts_anew(terms)


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


def _never_jumps(controller: Any) -> bool:
    """Whether a controller never makes the state jump in time."""
    if isinstance(controller, StepToOutputs):
        controller = controller.controller
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


def _with_minimum_step(
    controller: diffrax.AbstractStepSizeController, dtype: Any
) -> diffrax.AbstractStepSizeController:
    """`controller`, given times of this type, and up where its steps shrink away."""
    shrinks = getattr(controller, "has_shortest_step", False)
    if shrinks or isinstance(controller, diffrax.PIDController):
        return _Guarded(controller)
    if isinstance(controller, StepToOutputs | diffrax.ClipStepSizeController):
        inner = _with_minimum_step(controller.controller, dtype)
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
