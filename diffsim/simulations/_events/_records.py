"""Event records and outputs, interpolated from the step log."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..._types import PyTree
from ._detection import FOUND, LOST, EventDetector, stop_gradient_unless
from ._event import EventRecord


class StepLog(NamedTuple):
    """The steps of a run: where each began, how long it was, what happened in it.

    Rows behind the end have length zero and stand at the end. An event is looked for
    from `since` behind the beginning of a row to `until` behind its end, both 0 but
    where another one acts: after a reset `since` is a little behind it for what has
    just been, and a little before it for what may be at the same time. `lost`
    says that what acts in a row was not found.
    """

    times: Float[Array, " row"]
    states: PyTree[Array]
    lengths: Float[Array, " row"]
    since: Float[Array, "row event"]
    until: Float[Array, "row event"]
    crossed: Bool[Array, "row event"]
    lost: Bool[Array, " row"]


def step_containing(rows: StepLog, times: Array) -> Int[Array, " time"]:
    """The numbers of the last steps begun by each of `times`."""
    # Which row it is jumps with the time and has no derivative; what is in it has.
    starts, until = jax.lax.stop_gradient((rows.times, times))
    return jnp.maximum(jnp.searchsorted(starts, until, side="right") - 1, 0)


class _OffGridSteps(NamedTuple):
    """Side steps to be taken: from y at t over s, one each along the leading axis."""

    t: Array
    y: PyTree[Array]
    s: Array


class Interpolated(NamedTuple):
    """States at the outputs, events, and when the last step began and from where.

    `lost` says that an event was seen and not found.
    """

    states: PyTree[Array]
    events: tuple[EventRecord, ...]
    lost: Array
    last_time: Array
    last_state: PyTree[Array]


def interpolate_outputs(
    rows: StepLog,
    watch: EventDetector,
    times: Array,
    end: Array,
    look: Callable,
    states_at: Callable[[Array], PyTree[Array]],
) -> Interpolated:
    """The states at `times`, and by `look` the events up to the time `end`.

    All by off-grid steps from the rows before them, in one loop: a step takes long to
    compile, and of a batch of small states three times as long as one after another.
    `states_at` are the states at the beginnings of rows of these numbers.
    """
    numbers = step_containing(rows, times)
    there, index, at = _rows_of_events(rows, watch)
    begun = states_at(jnp.concatenate([numbers, at]))
    outputs, begun = (
        jax.tree.map(lambda a, part=part: a[part], begun)
        for part in (slice(times.size), slice(times.size, None))
    )
    waits, outcomes = _off_grid_steps(rows, watch, begun, (there, index, at))
    starts = rows.times[numbers]
    both = (_OffGridSteps(starts, outputs, times - starts), waits)
    every = jax.tree.map(lambda *parts: jnp.concatenate(parts), *both)
    found = jax.lax.map(lambda x: watch.quick(*x), every)
    states, found = (
        jax.tree.map(lambda a, part=part: a[part], found)
        for part in (slice(times.size), slice(times.size, None))
    )
    when = waits.t + waits.s
    seen = jax.vmap(look)(when, found)
    good = there & (outcomes == FOUND) & (when <= end)
    lost = jnp.any(there & (outcomes == LOST) & (waits.t <= end))
    when, seen = jax.tree.map(lambda a: _select(good, a, _padding(a)), (when, seen))
    bounds = np.cumsum([0, *(event.limit for event in watch.events)])
    events = tuple(
        jax.tree.map(lambda a, i=i, j=j: a[i:j], (when, seen, good))
        for i, j in itertools.pairwise(bounds)
    )
    return Interpolated(
        states,
        tuple(_without_gaps(*one) for one in events),
        lost,
        starts[-1],
        jax.tree.map(lambda a: a[-1], outputs),
    )


#: Of the places for all events, one after another, each padded to its limit: which
#: events there are, their numbers, and the rows in which they happen.
_Places = tuple[Bool[Array, " place"], np.ndarray, Int[Array, " place"]]


def _rows_of_events(rows: StepLog, watch: EventDetector) -> _Places:
    limits = np.array([event.limit for event in watch.events])
    index = np.repeat(np.arange(limits.size), limits)
    place = np.concatenate([np.arange(limit) for limit in limits])
    there = jnp.sum(rows.crossed, axis=0)[index] > place
    # The first rows in which it happens. Sorting takes ten times as long as this, which
    # XLA knows of singles alone; `nonzero` and running counts take long to compile.
    size = rows.lengths.size
    kind = np.float32 if size < 2**24 else np.float64
    numbers = jnp.where(rows.crossed, -np.arange(size, dtype=kind)[:, None], -jnp.inf)
    first, _ = jax.lax.top_k(numbers.T, min(int(limits.max()), size))
    at = first.at[index, place].get(mode="clip")
    return there, index, jnp.where(there, -at, 0).astype(int)


def _off_grid_steps(
    rows: StepLog, watch: EventDetector, begun: PyTree[Array], places: _Places
) -> tuple[_OffGridSteps, Array]:
    """The off-grid steps to events from the states `begun`, and what became of each."""
    there, index, at = places
    rows = jax.tree.map(lambda a: a[at], rows._replace(states=()))
    # A step ends with the event that acts in it.
    waits, outcomes = rows.lengths, jnp.where(rows.lost, LOST, FOUND)
    if not all(event.modifies_run for event in watch.events):
        acts = watch.modifies_run()[index]
        sought = there & ~acts

        def wait(index, there, row, y):
            t, _, length, since, until, *_ = row
            window = since[index], until[index]
            return watch.located(index, t, y, length, window, there=there)

        given = jnp.asarray(index), sought, rows, begun
        found, known = jax.lax.map(lambda x: wait(*x), given)
        waits, outcomes = (
            jnp.where(acts, a, b) for a, b in ((waits, found), (outcomes, known))
        )
    waits = _OffGridSteps(rows.times, begun, waits)
    held = jax.vmap(stop_gradient_unless)(waits, there & (outcomes == FOUND))
    return held, outcomes


def _without_gaps(times: Array, states: PyTree[Array], good: Array) -> EventRecord:
    """The record of an event; what changed its sign at a jump stands at the end."""
    order = jnp.argsort(~good, stable=True)
    times, states = jax.tree.map(lambda a: a[order], (times, states))
    return EventRecord(times, states, jnp.sum(good))


def _padding(a: Array) -> float | bool | int:
    """Return the padding where nothing happened, in the type of `a`."""
    if jnp.issubdtype(a.dtype, jnp.inexact):
        return jnp.nan
    if a.dtype == bool:
        return False
    info = jnp.iinfo(a.dtype)
    return info.min if info.min < 0 else info.max


def _select(good: Array, a: Array, other) -> Array:
    return jnp.where(good.reshape(-1, *[1] * (a.ndim - 1)), a, other)
