"""Reverse mode along the recorded steps of an adaptive run."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._primitives import closure_convert
from ..._types import PyTree
from .._terms._term_checks import apply_through
from ._replay import Recorded, Recording, Replay, steps_between


class _Known(NamedTuple):
    """The arrays of a replay: those that its step closes over, and the rest."""

    consts: list[Array]
    y0: Array
    span: tuple[Array, Array]
    times: Array | None


def replay_vjp(
    build: Callable[..., Replay], moving: Sequence[Array], recording: Recording, bars
) -> list[Array]:
    """Cotangents of what moves, from `bars` of the states at outputs and at the end.

    Without outputs they are of the states at the ends of all steps, which are kept.

    The step is turned into a function of what it reads, which is worked out once: what
    the terms make of the parameters before the loop is pulled back after it. What does
    not depend on `moving` has no cotangent.
    """
    functions: list[Any] = []

    def closure_converted(*moving):
        replay = build(*moving)
        dense, consts = closure_convert(replay.dense, replay.y0, *replay.span)
        functions[:] = [dense, replay]
        return _Known(consts, replay.y0, replay.span, replay.times)

    jaxpr, shapes = jax.make_jaxpr(closure_converted, return_shape=True)(*moving)
    marks = apply_through(jaxpr.jaxpr, [True] * len(moving))
    marks = [
        mark and jnp.issubdtype(shape.dtype, jnp.inexact)
        for mark, shape in zip(marks, jax.tree.leaves(shapes), strict=True)
    ]
    moves: _Known = jax.tree.unflatten(jax.tree.structure(shapes), marks)

    def split(*moving):
        known = closure_converted(*moving)
        some = [c for c, m in zip(known.consts, moves.consts, strict=True) if m]
        rest = [c for c, m in zip(known.consts, moves.consts, strict=True) if not m]
        return known._replace(consts=some), rest

    known, pull, rest = jax.vjp(split, *moving, has_aux=True)
    function, replay = functions

    def dense(consts, y, start, end):
        live, dead = iter(consts), iter(rest)
        every = [next(live) if m else next(dead) for m in moves.consts]
        return function(every, y, start, end)

    states, end = bars
    recorded = Recorded.of(recording.ends, known.span, known.times)
    run = _Run(dense, replay.between, known, recorded, states, moves)
    pack = replay.packing.pack
    kept = jnp.concatenate([known.y0[None], jax.vmap(pack)(recording.kept)])
    if known.times is None:
        return list(pull(_every_step_vjp(run, kept, jax.vmap(pack)(states))))
    return list(pull(_backward_scan(run, kept, pack(end))))


class _Run(NamedTuple):
    """A replay as all steps on the way back are taken with it."""

    dense: Callable[..., tuple[Array, Array]]
    between: Callable[..., PyTree[Array]]
    known: _Known
    recorded: Recorded
    #: Cotangents of the states at the outputs.
    states: PyTree[Array]
    #: Which of the rest move.
    moves: _Known

    def step(self, k: Array, y: Array) -> Array:
        """The state after step `k`."""
        ends = self.recorded.step(k, self.known.span)
        return self.dense(self.known.consts, y, *ends)[0]


class _Back(NamedTuple):
    """On the way back: cotangents, and the number of the next output."""

    y: Array
    known: _Known
    output: Array


def _backward_scan(run: _Run, kept: Array, end: Array) -> _Known:
    """Cotangents of all that a replay is made of, from those of its states."""
    recorded, known = run.recorded, run.known
    size = steps_between(recorded.ends.size)
    segments = -(-recorded.count // size)

    def segment(j, back):
        first = (segments - 1 - j) * size
        count = jnp.minimum(size, recorded.count - first)
        inside = _states_in_segment(run, kept[segments - 1 - j], first, count, size)

        def one(j, back):
            return _step_vjp(run, first + count - 1 - j, inside[count - 1 - j], back)

        return jax.lax.fori_loop(0, count, one, back)

    assert known.times is not None
    last = jnp.asarray(known.times.size - 1, recorded.count.dtype)
    back = _Back(end, jax.tree.map(jnp.zeros_like, known), last)
    back = jax.lax.fori_loop(0, segments, segment, back)
    return back.known._replace(y0=back.y)


def _every_step_vjp(run: _Run, kept: Array, bars: Array) -> _Known:
    """Cotangents of a replay, from those of the states behind all of its steps."""
    count = run.recorded.count

    def one(j, back):
        k = count - 1 - j
        return _step_vjp(run, k, kept[k], back._replace(y=back.y + bars[k]))

    nothing, known = jax.tree.map(jnp.zeros_like, (kept[0], run.known))
    back = _Back(nothing, known, jnp.zeros_like(count))
    back = jax.lax.fori_loop(0, count, one, back)
    return back.known._replace(y0=back.y)


def _states_in_segment(
    run: _Run, y: Array, first: Array, count: Array, size: int
) -> Array:
    """The state before every step of one segment."""

    def one(j, carry):
        y, inside = carry
        inside = jax.lax.dynamic_update_index_in_dim(inside, y, j, 0)
        return run.step(first + j, y), inside

    start = (y, jnp.zeros((size, *y.shape), y.dtype))
    return jax.lax.fori_loop(0, count, one, start)[1]


def _step_vjp(run: _Run, k: Array, y: Array, back: _Back) -> _Back:
    """Cotangents before step `k`, which begins at `y`, from those behind it."""
    known, recorded = run.known, run.recorded
    span = recorded.step(k, known.span)
    timed = any(run.moves.span)

    def dense(consts, y, *ends):
        return run.dense(consts, y, *(ends or span))

    ends = span if timed else ()
    found, pull = jax.vjp(dense, known.consts, y, *ends)
    output, bars, times = _outputs_vjp(run, k, (y, found, *ends), span, back)
    y_bar, (y1_bar, k_bar), *end_bars = bars
    consts, y_more, *ends_more = pull((y1_bar + back.y, k_bar))
    consts = jax.tree.map(jnp.add, back.known.consts, consts)
    known = back.known._replace(consts=consts, times=times)
    if timed:
        start, end = (a + b for a, b in zip(end_bars, ends_more, strict=True))
        is_last = recorded.is_last(k, run.known.span)
        begin = back.known.span[0] + jnp.where(k == 0, start, 0)
        known = known._replace(
            span=(begin, back.known.span[1] + jnp.where(is_last, end, 0))
        )
    return _Back(y_bar + y_more, known, output)


def _outputs_vjp(run: _Run, k: Array, inside: Any, span: Any, back: _Back):
    """Cotangents of what outputs inside step `k` are made of, and of their times."""
    of_outputs, bars = run.recorded.of_outputs, jax.tree.map(jnp.zeros_like, inside)
    if of_outputs is None or run.known.times is None:
        return back.output, bars, None
    every = run.known.times

    def between(t, y, found, *ends):
        return run.between(y, *(ends or span), found, t)

    def is_here(carry):
        output, _, _ = carry
        place = of_outputs[jnp.maximum(output, 0)]
        return (output >= 0) & (place == k)

    def add(carry):
        output, bars, times = carry
        state = jax.tree.map(lambda a: a[output], run.states)
        t, *more = jax.vjp(between, every[output], *inside)[1](state)
        if run.moves.times:
            times = jax.lax.dynamic_update_index_in_dim(times, t, output, 0)
        return output - 1, jax.tree.map(jnp.add, bars, tuple(more)), times

    return jax.lax.while_loop(is_here, add, (back.output, bars, back.known.times))
