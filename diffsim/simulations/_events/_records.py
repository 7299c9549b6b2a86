"""Event records and outputs, interpolated from the step log."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..._types import PyTree
from ._detection import EventDetector, stop_gradient_unless
from ._event import EventRecord


class StepLog(NamedTuple):
    """The steps of a run: where each began, how long it was, what happened in it.

    Rows behind the end have length zero and stand at the end. An event is looked for
    from `since` behind the beginning of a row to `until` behind its end, both 0 but
    where another one acts: after a reset `since` is a little behind it for what has
    just been, and a little before it for what may be at the same time.
    """

    times: Float[Array, " row"]
    states: PyTree[Array]
    lengths: Float[Array, " row"]
    since: Float[Array, "row event"]
    until: Float[Array, "row event"]
    crossed: Bool[Array, "row event"]


def step_containing(rows: StepLog, times: Array) -> tuple[Array, PyTree[Array]]:
    """When the last step begun by each of `times` began, and the state there."""
    # Which row it is jumps with the time and has no derivative; what is in it has.
    starts, until = jax.lax.stop_gradient((rows.times, times))
    at = jnp.maximum(jnp.searchsorted(starts, until, side="right") - 1, 0)
    return rows.times[at], jax.tree.map(lambda a: a[at], rows.states)


class _OffGridSteps(NamedTuple):
    """Side steps to be taken: from y at t over s, one each along the leading axis."""

    t: Array
    y: PyTree[Array]
    s: Array


def interpolate_outputs(
    rows: StepLog, watch: EventDetector, times: Array, end: Array, look: Callable
) -> tuple[PyTree[Array], tuple[EventRecord, ...]]:
    """The states at `times`, and by `look` the events up to the time `end`.

    All by off-grid steps from the rows before them, in one batch: a step takes long to
    compile.
    """
    starts, states = step_containing(rows, times)
    located = np.array([event.locate for event in watch.events])
    there, waits = _off_grid_steps(rows, watch, np.flatnonzero(located))
    both = (_OffGridSteps(starts, states, times - starts), waits)
    every = jax.tree.map(lambda *parts: jnp.concatenate(parts), *both)
    found = jax.vmap(watch.quick)(*every)
    at, states = (
        jax.tree.map(lambda a, part=part: a[part], found)
        for part in (slice(times.size), slice(times.size, None))
    )
    when = waits.t + waits.s
    seen = jax.vmap(look)(when, states)
    good = there & (when <= end)
    when, seen = jax.tree.map(lambda a: _select(good, a, _padding(a)), (when, seen))
    bounds = np.cumsum([0, *(event.limit for event in watch.events if event.locate)])
    events = iter(
        [
            jax.tree.map(lambda a, i=i, j=j: a[i:j], (when, seen, good))
            for i, j in itertools.pairwise(bounds)
        ]
    )
    records = [
        next(events) if yes else _steps_of_event(rows, watch, i, end, look)
        for i, yes in enumerate(located)
    ]
    return at, tuple(EventRecord(t, y, jnp.sum(ok)) for t, y, ok in records)


def _steps_of_event(
    rows: StepLog, watch: EventDetector, index: int, end: Array, look: Callable
) -> tuple[Array, PyTree, Bool[Array, " place"]]:
    """Of an event that is not located: the ends of its steps, what `look` makes of the
    states there, and which there are.
    """
    there, _, at = _rows_of_events(rows, watch, np.array([index]))
    # A step ends where the next row begins.
    both = jnp.stack([at, jnp.minimum(at + 1, rows.lengths.size - 1)], axis=1)
    times, states = jax.tree.map(lambda a: a[both], (rows.times, rows.states))
    good = there & (times[:, 0] <= end)
    seen = times, jax.vmap(jax.vmap(look))(times, states)
    times, states = jax.tree.map(lambda a: _select(good, a, _padding(a)), seen)
    return times, states, good


def _rows_of_events(
    rows: StepLog, watch: EventDetector, which: np.ndarray
) -> tuple[Bool[Array, " place"], np.ndarray, Array]:
    """Of the events `which` one after another, each padded to its limit: which there
    are, the numbers of the events, and the rows in which they happen.
    """
    limits = [watch.events[i].limit for i in which]
    index = np.repeat(which, limits)
    places = [np.arange(limit) for limit in limits]
    place = np.concatenate([*places, np.zeros(0, int)])
    # How many have happened up to each row; the rows in which that number rises. To
    # sort the rows takes ten times as long.
    counts = jnp.cumsum(rows.crossed.astype(jnp.int32), axis=0)
    there = counts[-1, index] > place

    def row(i, count):
        return jnp.searchsorted(counts[:, i], count, method="scan_unrolled")

    parts = [row(i, 1 + np.arange(n)) for i, n in zip(which, limits, strict=True)]
    at = jnp.concatenate([*parts, jnp.zeros(0, jnp.int32)]).astype(jnp.int32)
    return there, index, jnp.where(there, at, 0)


def _off_grid_steps(
    rows: StepLog, watch: EventDetector, which: np.ndarray
) -> tuple[Bool[Array, " place"], _OffGridSteps]:
    """Of the events `which`, as `_rows_of_events`: which there are, and the off-grid
    steps to them.
    """
    there, index, at = _rows_of_events(rows, watch, which)
    rows = jax.tree.map(lambda a: a[at], rows)
    # A step ends with the event that acts in it.
    waits = rows.lengths
    if not all(watch.events[i].modifies_run for i in which):
        acts = watch.modifies_run()[index]
        sought = there & ~acts

        def wait(index, there, row):
            t, y, length, since, until, _ = row
            window = since[index], until[index]
            return watch.located(index, t, y, length, window, there=there)

        waits = jnp.where(acts, waits, jax.vmap(wait)(index, sought, rows))
    waits = _OffGridSteps(rows.times, rows.states, waits)
    return there, jax.vmap(stop_gradient_unless)(waits, there)


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
