"""Event detection along adaptive steps."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import RESULTS
from ..._types import PyTree
from ._detection import EventDetector, ahead, zero_crossings
from ._fixed_step import EventLoopState, TruncatedStep, acted
from ._records import StepLog
from ._row_states import of_rows_taken


#: `solve(t, y)`: ends of the steps from t on, padded with infinity, the states there, a
#: result and statistics; no further than the step in which an acting event happens.
Solve = Callable[[Array, PyTree[Array]], tuple[Array, PyTree[Array], Any, Any]]


def adaptive_step_log(
    watch: EventDetector, y0: PyTree[Array], t0: Array, solve: Solve, runs: int
) -> tuple[StepLog, EventLoopState, Any]:
    """The steps of up to `runs` runs, where they lead, and each run's result."""
    no, nothing = jnp.asarray(False), jnp.zeros(len(watch.events), t0.dtype)
    start = EventLoopState(t0, jnp.asarray(0), y0, watch.values(t0, y0), nothing, no)
    if not any(event.modifies_run for event in watch.events):
        ends, states, *about = solve(t0, y0)
        rows, values = _append_log(watch, start, (t0, y0), ends, states)
        ended = _state_at(-1, rows, values)._replace(stopped=jnp.asarray(True))
        return rows, ended, jax.tree.map(lambda a: a[None], about)

    def one(carry, _):
        here, soon = carry
        # From a little behind a reset, where events have their signs again.
        t, y = here.anchor + soon, watch.quick(here.anchor, here.y, soon)
        at_once = zero_crossings(watch.events, here.values, watch.values(t, y))
        idle = here.stopped | jnp.any(watch.modifies_run() & at_once)
        ends, states, *about = _solve_unless(idle, solve, t, y)
        rows, values = _append_log(watch, here, (t, y), ends, states)
        ended = _state_at(-1, rows, values)._replace(stopped=jnp.asarray(True))
        acting = watch.modifies_run() & rows.crossed
        n = jnp.argmax(jnp.any(acting, axis=1))
        begun = _state_at(n, rows, values)
        whole = rows.lengths[n]
        # The first row is that little itself.
        soon = jnp.where(n == 0, soon, ahead(whole))
        found = acted(watch, begun.anchor, begun, whole, soon, acting[n])
        happens = jnp.any(acting)
        there, rows = jax.tree.map(
            lambda a, b: jnp.where(happens, a, b),
            (found.there, _truncate_step(rows, n, found)),
            (ended, rows),
        )
        soon = jnp.where(happens & ~there.stopped, soon, 0)
        return (there, soon), (rows, *about)

    (last, _), (rows, *about) = jax.lax.scan(
        one, (start, jnp.zeros_like(t0)), None, length=runs
    )
    rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), rows)
    return rows, last, about


def _solve_unless(stopped, solve: Solve, t, y):
    """`solve(t, y)`, or what it returns where there is nothing left to do."""
    shapes = eqx.filter_eval_shape(solve, t, y)

    def nothing(t, y):
        del t, y
        ends, *others = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        states, _, stats = others
        return jnp.full_like(ends, jnp.inf), states, RESULTS.successful, stats

    return jax.lax.cond(stopped, nothing, solve, t, y)


def _append_log(
    watch: EventDetector,
    here: EventLoopState,
    begun,
    ends: Array,
    states: PyTree[Array],
):
    """The steps of one run, and the values of the events where they begin."""
    t, y = begun
    count = jnp.sum(jnp.isfinite(ends))
    # Those that were not taken stand at the end.
    taken = jnp.minimum(jnp.arange(ends.size + 2), count + 1)
    times, states = jax.tree.map(
        lambda a, b, c: jnp.concatenate([a[None], b[None], c])[taken],
        (here.anchor, here.y),
        (t, y),
        (ends, states),
    )
    lengths = jnp.append(jnp.diff(times), 0)
    values, counting = of_rows_taken(
        lambda t, y: (watch.values(t, y), watch.counting(t, y)),
        (times, states),
        count + 2,
    )
    values = values.at[0].set(here.values)
    crossed = zero_crossings(watch.events, values, jnp.roll(values, -1, axis=0))
    crossed &= (lengths > 0)[:, None] & counting
    nothing = jnp.zeros_like(values)
    since = nothing.at[0].set(here.since)
    lost = jnp.zeros(lengths.shape, bool)
    return StepLog(times, states, lengths, since, nothing, crossed, lost), values


def _state_at(n, rows: StepLog, values: Array) -> EventLoopState:
    t, y, since = jax.tree.map(lambda a: a[n], (rows.times, rows.states, rows.since))
    return EventLoopState(t, jnp.asarray(0), y, values[n], since, jnp.asarray(False))


def _truncate_step(rows: StepLog, n, found: TruncatedStep) -> StepLog:
    """`rows` up to the event in row n, and standing behind it."""
    index = jnp.arange(rows.lengths.size)
    behind, here = index > n, index == n

    def standing(a, b):
        return jnp.where(behind.reshape(-1, *[1] * (a.ndim - 1)), b, a)

    return StepLog(
        standing(rows.times, found.there.anchor),
        jax.tree.map(standing, rows.states, found.there.y),
        jnp.where(behind, 0, jnp.where(here, found.length, rows.lengths)),
        rows.since,
        jnp.where(here[:, None], found.until, rows.until),
        jnp.where(here[:, None], found.crossed, rows.crossed & ~behind[:, None]),
        here & found.lost,
    )
