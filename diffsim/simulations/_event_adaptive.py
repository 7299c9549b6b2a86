"""Adaptive steps, looking out for events: a run of Diffrax up to each that acts."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._results import RESULTS
from ._event_steps import Onward, acted
from ._rows import Rows
from ._watch import Watch, ahead, crossings


#: `solve(t, y)`: ends of the steps from t on, padded with infinity, the states there, a
#: result and statistics; no further than the step in which an acting event happens.
Solve = Callable[[Array, PyTree[Array]], tuple[Array, PyTree[Array], Any, Any]]


def adaptive_rows(
    watch: Watch, y0: PyTree[Array], t0: Array, solve: Solve, runs: int
) -> tuple[Rows, Onward, Any]:
    """The steps of up to `runs` runs, where they lead, and each run's result."""

    def one(carry, _):
        here, soon = carry
        # From a little behind a reset, where events have their signs again.
        t, y = here.anchor + soon, watch.quick(here.anchor, here.y, soon)
        ends, states, *about = _unless(here.stopped, solve, t, y)
        rows, values = _rows(watch, here, (t, y), ends, states)
        ended = _at(-1, rows, values)._replace(stopped=jnp.asarray(True))
        if not any(event.acts for event in watch.events):
            return (ended, soon), (rows, *about)
        acting = watch.acts() & rows.crossed
        n = jnp.argmax(jnp.any(acting, axis=1))
        begun = _at(n, rows, values)
        whole = rows.lengths[n]
        length, there, crossed = acted(watch, begun.anchor, begun, whole, acting[n])
        happens = jnp.any(acting)
        there, rows = jax.tree.map(
            lambda a, b: jnp.where(happens, a, b),
            (there, _cut(rows, n, length, crossed, there)),
            (ended, rows),
        )
        soon = jnp.where(happens & ~there.stopped, ahead(whole), 0)
        return (there, soon), (rows, *about)

    no = jnp.asarray(False)
    start = Onward(t0, jnp.asarray(0), y0, watch.values(t0, y0), no, no)
    (last, _), (rows, *about) = jax.lax.scan(
        one, (start, jnp.zeros_like(t0)), None, length=runs
    )
    rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), rows)
    return rows, last, about


def _unless(stopped, solve: Solve, t, y):
    """`solve(t, y)`, or what it returns where there is nothing left to do."""
    shapes = eqx.filter_eval_shape(solve, t, y)

    def nothing(t, y):
        del t, y
        ends, *others = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        states, _, stats = others
        return jnp.full_like(ends, jnp.inf), states, RESULTS.successful, stats

    return jax.lax.cond(stopped, nothing, solve, t, y)


def _rows(watch: Watch, here: Onward, begun, ends: Array, states: PyTree[Array]):
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
    values = jax.vmap(watch.values)(times, states)
    crossed = crossings(watch.events, values, jnp.roll(values, -1, axis=0))
    counts = (lengths > 0) & (jnp.arange(lengths.size) > 0)
    no = jnp.zeros_like(counts)
    return Rows(times, states, lengths, no, crossed & counts[:, None]), values


def _at(n, rows: Rows, values: Array) -> Onward:
    no = jnp.asarray(False)
    y = jax.tree.map(lambda a: a[n], rows.states)
    return Onward(rows.times[n], jnp.asarray(0), y, values[n], no, no)


def _cut(rows: Rows, n, length, crossed, there: Onward) -> Rows:
    """`rows` up to the event in row n, and standing behind it."""
    index = jnp.arange(rows.lengths.size)
    behind, here = index > n, index == n

    def standing(a, b):
        return jnp.where(behind.reshape(-1, *[1] * (a.ndim - 1)), b, a)

    return Rows(
        standing(rows.times, there.anchor),
        jax.tree.map(standing, rows.states, there.y),
        jnp.where(behind, 0, jnp.where(here, length, rows.lengths)),
        rows.fresh,
        jnp.where(here[:, None], crossed, rows.crossed & ~behind[:, None]),
    )
