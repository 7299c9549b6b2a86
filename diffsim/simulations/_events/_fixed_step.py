"""Event detection along fixed steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from ._detection import FOUND, EventDetector, ahead, zero_crossings
from ._records import StepLog


class EventLoopState(NamedTuple):
    """Where a run goes on; `values` are those of the events, `since` where they count.

    The grid of fixed steps starts anew at `anchor` after a reset.
    """

    anchor: Array
    n: Array
    y: PyTree[Array]
    values: Array
    since: Array
    stopped: Array


class TruncatedStep(NamedTuple):
    """How long a step was, where the run goes on, and the events on the way.

    `until` is how far behind the end of the step those may be that it has crossed;
    `lost` says that the one that acts was not found.
    """

    length: Array
    there: EventLoopState
    crossed: Array
    until: Array
    lost: Array


def fixed_step_log(
    watch: EventDetector, y0: PyTree[Array], t0: Array, step: Array, steps: int
) -> tuple[StepLog, EventLoopState]:
    """`steps` steps from `t0`, cut short where an event acts, and where they lead."""
    no, soon = jnp.asarray(False), ahead(step)
    nothing = jnp.zeros(len(watch.events), step.dtype)

    def one(here: EventLoopState, _):
        t = here.anchor + here.n.astype(step.dtype) * step
        y = watch.off_grid_state(t, here.y, step)
        after = watch.values(t + step, y)
        crossed = zero_crossings(watch.events, here.values, after) & ~here.stopped
        crossed &= watch.counting(t, here.y)
        there = EventLoopState(here.anchor, here.n + 1, y, after, nothing, no)
        found = TruncatedStep(step, there, crossed, nothing, no)
        if any(event.modifies_run for event in watch.events):
            acting = watch.modifies_run() & crossed
            found = jax.lax.cond(
                jnp.any(acting),
                lambda acting: acted(watch, t, here, step, soon, acting),
                lambda _, plain=found: plain,
                acting,
            )
        length, there, crossed, until, lost = found
        stands = here._replace(stopped=jnp.asarray(True))
        there = jax.tree.map(lambda a, b: jnp.where(here.stopped, a, b), stands, there)
        length = jnp.where(here.stopped, 0, length)
        return there, StepLog(t, here.y, length, here.since, until, crossed, lost)

    start = EventLoopState(t0, jnp.asarray(0), y0, watch.values(t0, y0), nothing, no)
    last, rows = jax.lax.scan(one, start, None, length=steps)
    return rows, last


def acted(
    watch: EventDetector, t, here: EventLoopState, step, soon, acting
) -> TruncatedStep:
    """A step up to the first event that acts, and what follows it.

    Others that happen at the same time, or `soon` after it, are not lost: those that
    act do so in a row of their own, those that are recorded are so here or there.
    """
    events, args = watch.events, watch.args

    def wait(index, there, since):
        window = since, jnp.zeros_like(since)
        return watch.located(index, t, here.y, step, window, there=there)

    waits, outcomes = jax.vmap(wait)(jnp.arange(len(events)), acting, here.since)
    lost = acting & (outcomes != FOUND)
    waits = jnp.where(lost, step, jnp.where(acting, waits, jnp.inf))
    first = jnp.argmin(waits)
    # Nothing infinite where nothing acts, of which NaN would come.
    length = jnp.where(jnp.any(acting), waits[first], 0)
    reached, (at, past) = _evaluate_conditions(
        watch, t, here.y, length, jnp.stack([0 * soon, soon])
    )
    t, y, stopped = t + length, reached, jnp.asarray(False)
    for i, event in enumerate(events):
        stopped |= (first == i) & event.terminal
        if event.reset is not None:
            new = event.reset(watch.epoch.at(t), reached, args)
            y = jax.tree.map(lambda a, b, i=i: jnp.where(first == i, a, b), new, y)
    _, (back, on) = _evaluate_conditions(
        watch, t, y, 0 * soon, jnp.stack([-soon, soon])
    )
    other = jnp.arange(len(events)) != first
    # Seen from behind the reset, an event that is still to come has its old sign.
    coming = other & (back * here.values > 0)
    by_now, by_soon = (zero_crossings(events, here.values, g) for g in (at, past))
    noted = other & ~watch.modifies_run() & (by_now | (by_soon & ~coming))
    coming &= ~noted
    values = jnp.where(coming, back, on)
    since = jnp.where(coming, -soon, soon)
    onward = EventLoopState(t, jnp.asarray(0), y, values, since, stopped)
    until = jnp.where(noted, soon, 0)
    return TruncatedStep(length, onward, ~other | noted, until, lost[first])


def _evaluate_conditions(watch: EventDetector, t, y, length, offsets):
    """The state `length` after y, and the events at `offsets` from there."""

    def look(offset):
        s = length + offset
        there = watch.quick(t, y, s)
        return there, watch.values(t + s, there)

    states, values = jax.vmap(look)(offsets)
    return jax.tree.map(lambda a: a[0], states), values
