"""What is known about a run before it starts: its directions, its steps."""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._checks import is_traced
from ._adjoints import AbstractScanAdjoint, Checkpointed
from ._elapsed_time import controller_since, elapsed_since
from ._explicit import AbstractOneStepSolver
from ._landing import Landing
from ._method import MAX_STEPS, GivenSteps, Method, default_controller
from ._schedule import Schedule, grid_steps


#: A progress meter moves at least this often in a run at fixed steps.
_TICKS = 50


class FixedSide(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by fixed steps.

    See `Schedule` and `grid_steps`; `beyond` is None if every output is on the grid.
    """

    outputs: int = eqx.field(static=True)
    step: float = eqx.field(static=True)
    schedule: Schedule = eqx.field(static=True)
    points: np.ndarray
    beyond: np.ndarray | None


class DiffraxSide(eqx.Module):
    """The outputs on one side of the epoch, nearest first, by `diffrax.diffeqsolve`."""

    outputs: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    controller: diffrax.AbstractStepSizeController


Side = FixedSide | DiffraxSide


class Plan(eqx.Module):
    """How to reach the outputs; `sides` is None where times or epoch are traced.

    `halved` counts how often the longest step was, to see what that does.
    """

    method: Method
    sides: tuple[Side | None, Side | None] | None
    halved: int = eqx.field(static=True, default=0)


def planned(
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
    if isinstance(last, FixedSide):
        end = t0 + last.schedule.steps * last.step
    return Plan(method, (before, after)), end


def _side(method: Method, times: np.ndarray, t0: float, *, watched) -> Side | None:
    if times.size == 0:
        return None
    elapsed = elapsed_since(t0, times)
    if not method.scans:
        _check_not_interpolated(method, times, t0)
        return diffrax_side(method, times.size, span=(t0, float(elapsed[-1])))
    assert method.step is not None
    sign = -1 if elapsed[-1] < 0 else 1
    points, beyond = grid_steps(times, t0, float(method.step))
    pieces = max(_TICKS if watched else 1, _segments(method, int(points[-1])))
    return FixedSide(
        times.size,
        sign * float(method.step),
        Schedule.reaching(points, pieces=pieces),
        points,
        sign * beyond if beyond.any() else None,
    )


def diffrax_side(
    method: Method, outputs: int, *, span: tuple[float, float] | None
) -> DiffraxSide:
    """How `diffeqsolve` reaches the outputs.

    `span` are the epoch and how long after it the run ends, None if times are traced.
    """
    controller, steps = method.controller, method.max_steps or MAX_STEPS
    if isinstance(controller, GivenSteps):
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
    return DiffraxSide(outputs, steps, controller)


def in_precision(plan: Plan, t0: Any, dtype: Any) -> Plan:
    """The plan with a controller of elapsed time, and default tolerances that states of
    this type can meet.
    """
    given = plan.method
    _check_step(given.step, dtype)
    if not given.adaptive or isinstance(given.controller, GivenSteps):
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
        if isinstance(side, DiffraxSide)
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


def landing(side: DiffraxSide, method: Method, times: Array) -> DiffraxSide:
    """The side with a step that ends at each output, for what asks for it.

    Solvers do that are coarse between their steps, and controllers of their own accord.
    One that the caller has clipped is as the caller wants it.
    """
    asked = getattr(type(method.solver), "ends_steps_at_outputs", False)
    asked = asked and isinstance(side.controller, diffrax.PIDController)
    asked = asked or getattr(side.controller, "ends_steps_at_outputs", False)
    if not asked or times.size == 1:
        return side
    controller = Landing(side.controller, times)
    # What outputs add is not the dynamics' doing, so it does not count.
    return DiffraxSide(side.outputs, side.max_steps + side.outputs, controller)


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
    if isinstance(method.controller, GivenSteps):
        raise ValueError("frozen steps need concrete times and a concrete t0")
    if _interpolates_by_a_line(method):
        raise ValueError(
            f"{type(method.solver).__name__} under {type(method.adjoint).__name__} "
            "gives outputs on the grid t0 + n step only, and times that are traced, or "
            "a t0 that is an array, may lie off it; leave adjoint=None"
        )


def _interpolates_by_a_line(method: Method) -> bool:
    """One-step maps have no dense output but a line between their steps."""
    one_step = isinstance(method.solver, AbstractOneStepSolver)
    return one_step and method.step is not None and not method.scans


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
