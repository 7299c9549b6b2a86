"""Plan of a run: directions, steps and step size control."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import RESULTS
from ..._types import PyTree
from ..._validation import is_traced
from .._elapsed_time import Epoch, controller_since, elapsed_since
from .._method import MAX_STEPS, Method, PrescribedSteps, default_controller
from .._simulation import AbstractSimulation
from .._terms._term_checks import reads_time
from ._checkpointed_adjoint import AbstractScanAdjoint, Checkpointed
from ._explicit_step import AbstractSplittingSolver
from ._segment_schedule import Schedule, grid_steps
from ._step_size_controllers import StepToOutputs


#: A progress meter moves at least this often in a run at fixed steps.
_TICKS = 50


class FixedStepPlan(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by fixed steps.

    See `Schedule` and `grid_steps`; `beyond` is None if every output is on the grid.
    """

    outputs: int = eqx.field(static=True)
    step: float = eqx.field(static=True)
    schedule: Schedule = eqx.field(static=True)
    points: np.ndarray
    beyond: np.ndarray | None


class DiffraxPlan(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by `diffrax.diffeqsolve`."""

    outputs: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    controller: diffrax.AbstractStepSizeController


Side = FixedStepPlan | DiffraxPlan


class Plan(eqx.Module):
    """How to reach the outputs; `sides` is None where times or epoch are traced.

    `halved` counts how often the longest step was, to see what that does.
    """

    method: Method
    sides: tuple[Side | None, Side | None] | None
    halved: int = eqx.field(static=True, default=0)


def make_plan(
    method: Method, times, t0, *, watched: bool, events: bool = False
) -> tuple[Plan, float | None]:
    """The plan for a run from `t0` to `times` (checked, ascending), and where it ends.

    The end is None if it is known only when the run has been made. `events` need the
    sides wherever they can be known.
    """
    free = not isinstance(t0, float | int) and method.max_steps and not events
    if is_traced(times) or is_traced(t0) or free:
        _check_bounded(method)
        return Plan(method, None), None
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
    return Plan(method, (before, after)), end


def _side(method: Method, times: np.ndarray, t0: float, *, watched) -> Side | None:
    if times.size == 0:
        return None
    elapsed = elapsed_since(t0, times)
    if not method.uses_scan:
        _check_not_interpolated(method, times, t0)
        return diffrax_plan(method, times.size, span=(t0, float(elapsed[-1])))
    assert method.step is not None
    sign = -1 if elapsed[-1] < 0 else 1
    points, beyond = grid_steps(times, t0, float(method.step))
    pieces = max(_TICKS if watched else 1, _segments(method, int(points[-1])))
    return FixedStepPlan(
        times.size,
        sign * float(method.step),
        Schedule.reaching(points, pieces=pieces),
        points,
        sign * beyond if beyond.any() else None,
    )


def diffrax_plan(
    method: Method, outputs: int, *, span: tuple[float, float] | None
) -> DiffraxPlan:
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
    elif controller is None:
        controller = default_controller(float)
    elif isinstance(controller, diffrax.StepTo):
        steps = max(steps, controller.ts.size)
    return DiffraxPlan(outputs, steps, controller)


def with_default_tolerances(plan: Plan, t0: Any, dtype: Any) -> Plan:
    """The plan with a controller of elapsed time, and default tolerances that states of
    this type can meet.
    """
    given = plan.method
    _check_step(given.step, dtype)
    if not given.adaptive or isinstance(given.controller, PrescribedSteps):
        return plan
    controller = default_controller(dtype)
    if given.controller is not None:
        controller = controller_since(t0, given.controller, dtype)
    method = Method(
        given.solver,
        given.step,
        controller=controller,
        adjoint=given.adjoint,
        max_steps=given.max_steps,
    )
    if plan.sides is None:
        return Plan(method, None, plan.halved)
    before, after = (
        eqx.tree_at(lambda s: s.controller, side, controller)
        if isinstance(side, DiffraxPlan)
        else side
        for side in plan.sides
    )
    return Plan(method, (before, after), plan.halved)


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


def with_steps_to_outputs(
    side: DiffraxPlan, method: Method, times: Array
) -> DiffraxPlan:
    """The side with a step that ends at each output, for what asks for it.

    Solvers do that are coarse between their steps, and controllers of their own accord.
    One that the caller has clipped is as the caller wants it.
    """
    asked = getattr(type(method.solver), "ends_steps_at_outputs", False)
    asked = asked and isinstance(side.controller, diffrax.PIDController)
    asked = asked or getattr(side.controller, "ends_steps_at_outputs", False)
    if not asked or times.size == 1:
        return side
    controller = StepToOutputs(side.controller, times)
    # What outputs add is not the dynamics' doing, so it does not count.
    return DiffraxPlan(side.outputs, side.max_steps + side.outputs, controller)


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
    beyond = grid_steps(times, t0, float(method.step))[1]
    if beyond.any():
        worst = times[int(np.argmax(beyond != 0))]
        solver, adjoint = type(method.solver).__name__, type(method.adjoint).__name__
        raise ValueError(
            f"times must lie on the grid t0 + n step where {solver} runs under "
            f"{adjoint}, which interpolates by a line, got {worst:.17g}; with an "
            "adjoint of ours, or None, any times will do"
        )


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
    given = not method.adaptive or isinstance(method.controller, PrescribedSteps)
    if given or not simulation.bounds_steps or not _is_driven(simulation, y0):
        return plan
    part = _PART * 0.5**plan.halved
    method = _bounded(method, part * _span(elapsed))
    if plan.sides is None:
        return Plan(method, None, plan.halved)
    sides = []
    for side, outermost in zip(plan.sides, (elapsed[:1], elapsed[-1:]), strict=True):
        if isinstance(side, DiffraxPlan):
            controller = _of(side.controller, part * _span(outermost))
            side = DiffraxPlan(side.outputs, side.max_steps, controller)
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


def _of(controller: Any, longest: Array) -> diffrax.AbstractStepSizeController:
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
