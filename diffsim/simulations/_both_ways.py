"""Both directions of time, put together."""

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._results import RESULTS
from ._fixed_steps import fixed_leg
from ._leg import Leg
from ._plan import DiffraxSide, Plan, Side, diffrax_side, landing
from ._simulation import AbstractSimulation
from ._stepper import Stepper
from ._through_diffrax import diffrax_leg
from ._traced_times import traced_leg


class Request(NamedTuple):
    """A run: what, how, from where, to which times."""

    simulation: AbstractSimulation
    plan: Plan
    t0: Array
    times: Array
    y0: PyTree[Array]
    meter: diffrax.AbstractProgressMeter


def run_both_ways(request: Request) -> Leg:
    """The outputs before and after the epoch, ascending in time."""
    if request.plan.sides is None:
        return _traced(request)
    before, after = request.plan.sides
    split = 0 if before is None else before.outputs
    legs = []
    if before is not None:
        legs.append(_reversed(_one_way(request, before, request.times[:split][::-1])))
    if after is not None:
        legs.append(_one_way(request, after, request.times[split:]))
    return legs[0] if len(legs) == 1 else _joined(*legs)


def _one_way(request: Request, side: Side, times: Array) -> Leg:
    simulation, plan, t0, _, y0, meter = request
    method = plan.method
    if isinstance(side, DiffraxSide):
        side, span = landing(side, method, times), (t0, times[-1])
        return diffrax_leg(
            simulation, method, side, y0, span=span, times=times, meter=meter
        )
    assert not isinstance(method.adjoint, diffrax.AbstractAdjoint)
    stepper = Stepper(simulation, method.solver, t0, side.step)
    return fixed_leg(stepper, y0, side, adjoint=method.adjoint, meter=meter)


def _traced(request: Request) -> Leg:
    """Every output from both legs; which one counts is known only when it runs."""
    is_past = request.times < request.t0
    past, future = _traced_way(request, is_past, -1), _traced_way(request, ~is_past, 1)
    states = jax.tree.map(
        lambda a, b: jnp.where(is_past.reshape(-1, *[1] * (a.ndim - 1)), a, b),
        past.states,
        future.states,
    )
    onward = jnp.any(request.times > request.t0)
    end, end_time = jax.tree.map(
        lambda a, b: jnp.where(onward, b, a),
        (past.end, past.end_time),
        (future.end, future.end_time),
    )
    leg = _joined(past, future)
    return leg._replace(states=states, end=end, end_time=end_time)


def _traced_way(request: Request, here: Array, sign: int) -> Leg:
    """The outputs that lie `here`, in one direction; the others stay at the epoch."""
    method, t0 = request.plan.method, request.t0
    times = jnp.where(here, request.times, t0)
    if not method.scans:
        # Diffrax wants them in order; whether they are, is known only when it runs.
        order = jnp.argsort(sign * times)
        side = diffrax_side(method, times.size, span=None)
        leg = _one_way(request, side, times[order])
        states = jax.tree.map(lambda a: a[jnp.argsort(order)], leg.states)
        return leg._replace(states=states, ends=_ascending(leg.ends))
    assert method.step is not None and method.max_steps is not None
    stepper = Stepper(request.simulation, method.solver, t0, sign * float(method.step))
    return traced_leg(stepper, request.y0, sign * (times - t0), method.max_steps)


def _reversed(leg: Leg) -> Leg:
    states = jax.tree.map(lambda a: a[::-1], leg.states)
    return leg._replace(states=states, ends=_ascending(leg.ends))


def _joined(past: Leg, future: Leg) -> Leg:
    failed = past.result != RESULTS.successful
    return Leg(
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
