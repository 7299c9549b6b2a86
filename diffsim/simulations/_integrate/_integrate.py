"""Integration before and after the epoch, and part after part where it takes long."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import RESULTS, is_outcome
from ..._types import PyTree
from .._method import Method
from .._trajectory import Trajectory
from ._diffrax_backend import diffrax_outputs
from ._fixed_step_outputs import fixed_step_outputs, traced_time_outputs
from ._fixed_stepper import Stepper
from ._run_plan import (
    DiffraxPlan,
    RunResult,
    RunSpec,
    Side,
)


def integrate(request: RunSpec) -> RunResult:
    """The outputs before and after the epoch, ascending in time."""
    if request.plan.sides is None:
        return _integrate_traced_times(request)
    before, after = request.plan.sides
    split = 0 if before is None else before.outputs
    runs = []
    if before is not None:
        times = request.elapsed[:split][::-1]
        runs.append(_reverse_in_time(_integrate_one_way(request, before, times)))
    if after is not None:
        runs.append(_integrate_one_way(request, after, request.elapsed[split:]))
    return runs[0] if len(runs) == 1 else _concatenate(*runs)


def _integrate_one_way(request: RunSpec, side: Side, times: Array) -> RunResult:
    method = request.plan.method
    if isinstance(side, DiffraxPlan):
        span = (request.begin, times[-1])
        return diffrax_outputs(request, side, span=span, times=times)
    adjoint, meter = method.adjoint, request.meter
    assert not isinstance(adjoint, diffrax.AbstractAdjoint)
    given = (request.simulation, method.solver, request.epoch)
    stepper = Stepper(*given, side.step, request.y0)
    return fixed_step_outputs(stepper, request.y0, side, adjoint=adjoint, meter=meter)


def _integrate_traced_times(request: RunSpec) -> RunResult:
    """Every output in both directions; which one counts is known when it runs."""
    is_past = request.elapsed < 0
    past, future = (
        _integrate_traced_one_way(request, is_past, -1),
        _integrate_traced_one_way(request, ~is_past, 1),
    )
    states = jax.tree.map(
        lambda a, b: jnp.where(is_past.reshape(-1, *[1] * (a.ndim - 1)), a, b),
        past.states,
        future.states,
    )
    onward = jnp.any(request.elapsed > 0)
    end, end_time = jax.tree.map(
        lambda a, b: jnp.where(onward, b, a),
        (past.end, past.end_time),
        (future.end, future.end_time),
    )
    run = _concatenate(past, future)
    return run._replace(states=states, end=end, end_time=end_time)


def _integrate_traced_one_way(request: RunSpec, here: Array, sign: int) -> RunResult:
    """The outputs that lie `here`, in one direction; the others stay at the epoch."""
    method = request.plan.method
    times = jnp.where(here, request.elapsed, 0)
    if request.plan.traced is not None:
        # Diffrax wants them in order; whether they are, is known only when it runs.
        order = jnp.argsort(sign * times)
        run = _integrate_one_way(request, request.plan.traced, times[order])
        states = jax.tree.map(lambda a: a[jnp.argsort(order)], run.states)
        return run._replace(states=states, ends=_concatenate_ends(run.ends))
    assert method.step is not None and method.max_steps is not None
    step = sign * float(method.step)
    given = (request.simulation, method.solver, request.epoch)
    stepper = Stepper(*given, step, request.y0)
    return traced_time_outputs(stepper, request.y0, sign * times, method.max_steps)


def _reverse_in_time(run: RunResult) -> RunResult:
    states = jax.tree.map(lambda a: a[::-1], run.states)
    return run._replace(states=states, ends=_concatenate_ends(run.ends))


def _concatenate(past: RunResult, future: RunResult) -> RunResult:
    failed = past.result != RESULTS.successful
    # A run that failed ends where it did.
    end, end_time = jax.tree.map(
        lambda a, b: jnp.where(failed, a, b),
        (past.end, past.end_time),
        (future.end, future.end_time),
    )
    return RunResult(
        jax.tree.map(lambda a, b: jnp.concatenate([a, b]), past.states, future.states),
        end,
        end_time,
        RESULTS.where(failed, past.result, future.result),
        jax.tree.map(jnp.add, past.stats, future.stats),
        _concatenate_ends(past.ends, future.ends),
    )


def _concatenate_ends(*ends: Array | None) -> Array | None:
    known = [end for end in ends if end is not None]
    if not known:
        return None
    # Diffrax pads a run that goes backwards with minus infinity.
    every = jnp.concatenate(known)
    return jnp.sort(jnp.where(jnp.isfinite(every), every, jnp.inf))


#: Parts after which a person is told how long a run will take, a million steps of the
#: default bound, if that is this many times as long as it has taken.
_PARTS, _TIMES = 16, 4


class Outputs(NamedTuple):
    """Output times, and how long after the epoch they are, which has more digits."""

    times: Any
    elapsed: Any


class Restart(NamedTuple):
    """How long after the epoch a run goes on, and from what."""

    begin: Any
    y: PyTree[Array]


def ran_out(method: Method, trajectory: Trajectory) -> bool:
    """Whether there were too few steps, in a run that can be looked at."""
    result = trajectory.result
    if not method.adaptive or result.is_traced():
        return False
    return is_outcome(result, RESULTS.max_steps_reached)


def continue_run(
    run: Callable[[Outputs, Restart], Trajectory], first: Trajectory, outputs: Outputs
) -> Trajectory:
    """The run that began with `first`, in one direction, to its end.

    All times are elapsed ones. Every part has all of the outputs, those that lie behind
    it at its beginning, so that no other part needs compiling.
    """
    sign = 1 if np.all(outputs.elapsed >= 0) else -1
    parts, warned = [first], False
    while parts[-1].result == RESULTS.max_steps_reached:
        last = parts[-1].final
        begin = np.asarray(last.t)
        ahead = sign * np.maximum(sign * outputs.elapsed, sign * begin)
        parts.append(run(outputs._replace(elapsed=ahead), Restart(begin, last.y)))
        if not warned and len(parts) >= _PARTS:
            warned = _warn_of_long_run(parts, sign * np.max(np.abs(outputs.elapsed)))
    return _concatenate_runs(parts, np.asarray(sign * outputs.elapsed), sign)


def _warn_of_long_run(parts: list[Trajectory], end: float) -> bool:
    """Warn of a run that will take far longer to its `end`; return whether it does."""
    before, now = (float(part.final.t) for part in parts[-2:])
    steps = sum(int(part.stats["num_steps"]) for part in parts)
    # At the rate of the last part, for steps may become shorter and shorter.
    with np.errstate(divide="ignore"):
        ahead = np.float64(abs(end - now)) / abs(now - before)
    total = steps + ahead * int(parts[-1].stats["num_steps"])
    if not total > _TIMES * steps:
        return False
    warnings.warn(
        f"a run has taken {steps} steps to t0 + {now:.6g} on the way to t0 + {end:.6g} "
        f"and goes on; at the rate of the last ones it takes {total:.2g}. Interrupt "
        "it, or bound it by simulate(max_steps=...); larger tolerances, rtol=..., take "
        "fewer steps, and so does an implicit solver where stability makes them short",
        # this function, `continue_run`, `_run_to_the_end`, `simulate`, the caller
        stacklevel=5,
    )
    return True


def _concatenate_runs(
    parts: list[Trajectory], elapsed: np.ndarray, sign: int
) -> Trajectory:
    ends = np.array([sign * np.asarray(part.final.t) for part in parts[:-1]])
    reached = elapsed.astype(ends.dtype)
    which = np.searchsorted(ends, reached, side="left")

    def chosen(*leaves):
        shape = *elapsed.shape, *[1] * (leaves[0].ndim - elapsed.ndim)
        index, found = which.reshape(shape), leaves[-1]
        for n, leaf in enumerate(leaves[:-1]):
            found = jnp.where(index == n, leaf, found)
        return found

    states = jax.tree.map(chosen, *(part.states for part in parts))
    return _concatenate_parts(parts, parts[-1].times, states, parts[-1].result)


def join_past_and_future(
    past: Trajectory, future: Trajectory, times: np.ndarray
) -> Trajectory:
    """One trajectory of its two directions of time."""
    states = jax.tree.map(
        lambda a, b: jnp.concatenate([a, b]), past.states, future.states
    )
    # One that failed says where the run ended.
    fine = past.result == RESULTS.successful
    parts = [past, future] if fine else [future, past]
    return _concatenate_parts(parts, times, states, parts[-1].result)


def _concatenate_parts(parts: list[Trajectory], times, states, result) -> Trajectory:
    """One trajectory of several, the last of which says where the run ended."""
    stats = jax.tree.map(lambda *counts: sum(counts), *(part.stats for part in parts))
    steps = np.sort(np.concatenate([np.asarray(part.steps) for part in parts]))
    found = (times, states, result, stats, parts[-1].final, steps)
    return Trajectory(*found, axes=parts[0].axes)
