"""Integration before and after the epoch, joined."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import RESULTS
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
