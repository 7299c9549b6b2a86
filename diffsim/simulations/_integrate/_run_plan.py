"""Plan of a run: its directions, outputs and numbers of steps."""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import RESULTS
from ..._types import PyTree
from ..._validation import is_traced
from .._elapsed_time import Epoch, elapsed_since
from .._method import MAX_STEPS, Method, PrescribedSteps
from .._simulation import AbstractSimulation
from ._checkpointed_adjoint import AbstractScanAdjoint, Checkpointed
from ._explicit_step import AbstractSplittingSolver
from ._segment_schedule import Schedule, grid_steps


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


class DiffraxPlan(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by Diffrax's solvers.

    The `controller` is the method's until `with_step_size_control` decides on it.
    """

    outputs: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    controller: diffrax.AbstractStepSizeController | None


Side = FixedStepPlan | DiffraxPlan


class Plan(eqx.Module):
    """How to reach the outputs; `sides` is None where times or epoch are traced.

    `halved` counts how often the longest step was, to see what that does. `traced` is
    the way of adaptive steps in either direction where times or epoch are traced.
    """

    method: Method
    sides: tuple[Side | None, Side | None] | None
    halved: int = eqx.field(static=True)
    traced: DiffraxPlan | None = None


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
            traced = _diffrax_plan(method, np.size(times), span=None)
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
        return _diffrax_plan(method, times.size, span=(t0, float(elapsed[-1])))
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


def _diffrax_plan(
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
    elif isinstance(controller, diffrax.StepTo):
        steps = max(steps, controller.ts.size)
    return DiffraxPlan(outputs, steps, controller)


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
