"""When and where a run failed, for a person who waits for it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS, is_finite
from .._types import PyTree
from ._elapsed_time import Epoch, time_after
from ._events._event import Event
from ._events._event_run import listed
from ._integrate._fixed_steps import GridSteps
from ._integrate._plan import FixedStepPlan, Plan
from ._simulation import AbstractSimulation
from ._trajectory import FinalState, Trajectory


def failure_message(
    simulation: AbstractSimulation,
    plan: Plan,
    trajectory: Trajectory,
    start: FinalState | None,
    events: Any,
) -> str:
    """The sentence of a failure, with when it was and, if the simulation knows, where.

    **Arguments**

    - `start`: where the run began, None for the initial state.
    - `events`: those of `trajectory.events`.
    """
    result = trajectory.result
    sentence = RESULTS[result]
    if result == RESULTS.events_beyond_limit:
        return f"{sentence} {_full_events(listed(events), trajectory)}"
    if result == RESULTS.max_steps_reached:
        t0 = simulation.t0 if start is None else start.t
        return f"{sentence} {_how_far(trajectory, float(t0))}"
    lost = (RESULTS.non_finite, RESULTS.dt_min_reached, simulation.blow_up())
    if plan.sides is None or not any(bool(result == one) for one in lost):
        return sentence
    # Of what is differentiated only the values are wanted, and they are known.
    simulation, start, last = map(_stop_gradient, (simulation, start, trajectory.final))
    fixed = [side for side in plan.sides if isinstance(side, FixedStepPlan)]
    if fixed:
        found = _last_finite(simulation, plan, fixed, start)
        if found is None:
            return sentence
        # A force may close over what is differentiated.
        last = _stop_gradient(found)
    if not bool(is_finite(last.y)):
        return sentence
    where = simulation.locate(last.t, last.y)
    if where is None:
        return f"{sentence} It was at t = {float(last.t):.6g}."
    return f"{where} {sentence}"


def _stop_gradient(tree: PyTree) -> PyTree:
    return jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree
    )


def _full_events(events: tuple[Event, ...], trajectory: Trajectory) -> str:
    """The events of which as many were recorded as `limit` allows."""
    pairs = zip(events, trajectory.events, strict=True)
    full = [
        f"events[{i}] ({_name(event.condition)}, limit={event.limit})"
        for i, (event, found) in enumerate(pairs)
        if int(found.count) >= event.limit
    ]
    return f"Here it was {' or '.join(full)}."


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _how_far(trajectory: Trajectory, t0: float) -> str:
    steps, last = int(trajectory.stats["num_steps"]), float(trajectory.final.t)
    times = trajectory.times
    end = np.min(times) if last < t0 else np.max(times)
    return f"Here {steps} steps led to t = {last:.6g} on the way to {end:.6g}."


def _last_finite(
    simulation: AbstractSimulation, plan: Plan, sides: list, start: FinalState | None
) -> FinalState | None:
    """The run at fixed steps again, up to the last state that is finite."""
    t0 = simulation.t0 if start is None else start.t
    y0 = simulation.initial_state() if start is None else start.y
    for side in reversed(sides):
        found = _trace_back(
            simulation, plan.method.solver, t0, y0, side.step, side.schedule.steps
        )
        n, y, bad = found
        if bad:
            return FinalState(time_after(t0, float(n) * side.step), y)
    return None


@fresh_jit
def _trace_back(simulation, solver, t0, y0, step: float, steps: int):
    """The number of the last step with a finite state, that state, and if it is."""
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype
    grid = GridSteps(simulation, solver, Epoch(t0, dtype), step, y0)

    def goes_on(loop):
        _, n, _, bad = loop
        return ~bad & (n < steps)

    def one(loop):
        carry, n, y, _ = loop
        after = grid.advance(carry, n)
        new = grid.state(after, n + 1)
        bad = ~is_finite(new)
        y = jax.tree.map(lambda a, b: jnp.where(bad, a, b), y, new)
        return after, jnp.where(bad, n, n + 1), y, bad

    first = (grid.start(y0), jnp.asarray(0), y0, jnp.asarray(False))
    _, n, y, bad = jax.lax.while_loop(goes_on, one, first)
    return n, y, bad


#: What physics makes of a state in a run is less.
_GREW = 1e6


def has_grown(trajectory: Trajectory, y0: PyTree[Array]) -> bool:
    """Whether a run ended a million times as large as it began."""
    return _largest(trajectory.final.y) > _GREW * _largest(y0) > 0


def _largest(tree: Any) -> float:
    return max(float(np.max(np.abs(x), initial=0.0)) for x in jax.tree.leaves(tree))
