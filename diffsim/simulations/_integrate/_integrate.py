"""Both directions of time, put together."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import RESULTS
from ._diffrax_backend import diffrax_leg
from ._fixed_step_outputs import fixed_leg, traced_leg
from ._fixed_stepper import Stepper
from ._run_plan import DiffraxPlan, RunResult, RunSpec, Side, diffrax_side, landing


def run_both_ways(request: RunSpec) -> RunResult:
    """The outputs before and after the epoch, ascending in time."""
    if request.plan.sides is None:
        return _traced(request)
    before, after = request.plan.sides
    split = 0 if before is None else before.outputs
    legs = []
    if before is not None:
        times = request.elapsed[:split][::-1]
        legs.append(_reversed(_one_way(request, before, times)))
    if after is not None:
        legs.append(_one_way(request, after, request.elapsed[split:]))
    return legs[0] if len(legs) == 1 else _joined(*legs)


def _one_way(request: RunSpec, side: Side, times: Array) -> RunResult:
    method = request.plan.method
    if isinstance(side, DiffraxPlan):
        side, span = landing(side, method, times), (request.begin, times[-1])
        return diffrax_leg(request, side, span=span, times=times)
    adjoint, meter = method.adjoint, request.meter
    assert not isinstance(adjoint, diffrax.AbstractAdjoint)
    given = (request.simulation, method.solver, request.epoch)
    stepper = Stepper(*given, side.step, request.y0)
    return fixed_leg(stepper, request.y0, side, adjoint=adjoint, meter=meter)


def _traced(request: RunSpec) -> RunResult:
    """Every output from both legs; which one counts is known only when it runs."""
    is_past = request.elapsed < 0
    past, future = _traced_way(request, is_past, -1), _traced_way(request, ~is_past, 1)
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
    leg = _joined(past, future)
    return leg._replace(states=states, end=end, end_time=end_time)


def _traced_way(request: RunSpec, here: Array, sign: int) -> RunResult:
    """The outputs that lie `here`, in one direction; the others stay at the epoch."""
    method = request.plan.method
    times = jnp.where(here, request.elapsed, 0)
    if not method.scans:
        # Diffrax wants them in order; whether they are, is known only when it runs.
        order = jnp.argsort(sign * times)
        side = diffrax_side(method, times.size, span=None)
        leg = _one_way(request, side, times[order])
        states = jax.tree.map(lambda a: a[jnp.argsort(order)], leg.states)
        return leg._replace(states=states, ends=_ascending(leg.ends))
    assert method.step is not None and method.max_steps is not None
    step = sign * float(method.step)
    given = (request.simulation, method.solver, request.epoch)
    stepper = Stepper(*given, step, request.y0)
    return traced_leg(stepper, request.y0, sign * times, method.max_steps)


def _reversed(leg: RunResult) -> RunResult:
    states = jax.tree.map(lambda a: a[::-1], leg.states)
    return leg._replace(states=states, ends=_ascending(leg.ends))


def _joined(past: RunResult, future: RunResult) -> RunResult:
    failed = past.result != RESULTS.successful
    return RunResult(
        jax.tree.map(lambda a, b: jnp.concatenate([a, b]), past.states, future.states),
        future.end,
        future.end_time,
        RESULTS.where(failed, past.result, future.result),
        jax.tree.map(jnp.add, past.stats, future.stats),
        _ascending(past.ends, future.ends),
    )


def _ascending(*ends: Array | None) -> Array | None:
    known = [end for end in ends if end is not None]
    if not known:
        return None
    # Diffrax pads a leg that runs backwards with minus infinity.
    every = jnp.concatenate(known)
    return jnp.sort(jnp.where(jnp.isfinite(every), every, jnp.inf))
