r"""An adaptive run made again along the steps that it took, for its derivatives.

A controller's steps are held in derivatives, so that those of a run are those of the
map $y_{k+1} = \Phi(y_k;\, t_k, t_{k+1}, \theta)$ over the recorded $t_k$. That takes a
loop of as many turns as there were steps; nothing is masked up to a bound.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

# For loops that write into large arrays, which `lax.while_loop` copies under `vmap`.
from equinox import internal as loops
from jaxtyping import Array, Float, Int

from ..._jaxpr._inspection import reach
from ..._jaxpr._tracing import closure_convert
from ..._types import PyTree
from ._plan import steps_between
from ._step import AbstractStep, Span, StepState, make_step, steps_to_outputs


class Replay(NamedTuple):
    """A run to be made again; all states are packed.

    States at outputs inside of a step are by a step of their own or, if it
    `interpolates`, by the solver's interpolant; every step starts anew then.
    """

    solver_step: AbstractStep
    interpolates: bool
    y0: Array
    span: tuple[Array, Array]
    times: Float[Array, " output"] | None

    def begin(self, y: Array, start: Array, end: Array) -> StepState:
        """Where a chain of steps sets out, the first from `start` to `end`."""
        if self.interpolates:
            return StepState(y)
        return self.solver_step.start_packed(Span(start, None, end), y)

    def step(self, at: StepState, start: Array, end: Array) -> tuple[StepState, Any]:
        """The end of a step, and what an interpolant asks for."""
        step, span = self.solver_step, Span(start, None, end)
        if not self.interpolates:
            return step.advance(at, span), ()
        attempt = step.attempt(step.start_packed(span, at.y), span)
        return StepState(attempt.state.y), attempt.dense

    def between(self, start: Array, end: Array, dense: Any, t: Array) -> PyTree[Array]:
        """The state at t, inside of a step."""
        interpolant = self.solver_step.solver.interpolation_cls
        return interpolant(t0=start, t1=end, **dense).evaluate(t)


def make_replay(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, span, times=None
) -> Replay:
    """The replay of a run of `terms` from `y0` over `span`, with outputs at `times`."""
    step = make_step(solver, terms, args, y0, "replay")
    return Replay(step, not steps_to_outputs(solver), step.pack(y0), span, times)


class Recording(NamedTuple):
    """The ends of the accepted steps, and the states after every so many of them."""

    ends: Float[Array, " bound"]
    kept: PyTree[Array]


class Recorded(NamedTuple):
    """The ends of the steps, padded, how many there are, and those of the outputs."""

    ends: Float[Array, " bound"]
    count: Int[Array, ""]
    of_outputs: Int[Array, " output"] | None

    @classmethod
    def of(
        cls, ends: Array, span: tuple[Array, Array], times: Array | None
    ) -> "Recorded":
        """Return the steps that ended at `ends`, in either direction of time."""
        # Held: how many steps there were, and which has an output, is no function to
        # differentiate. What moves with the span and the times is put in by `step`.
        ends, begin, end, times = jax.lax.stop_gradient((ends, *span, times))
        taken = jnp.isfinite(ends)
        # A run of no length takes none; its outputs lie in one of no length.
        count = jnp.maximum(jnp.sum(taken), 1)
        if times is None:
            return cls(ends, count, None)
        sign = jnp.where(end < begin, -1, 1)
        # An output lies in the first step that does not end before it.
        ahead = jnp.where(taken, sign * ends, jnp.inf)
        places = jnp.searchsorted(ahead, sign * times, side="left")
        return cls(ends, count, jnp.minimum(places, count - 1))

    def step(self, k: Array, span: tuple[Array, Array]) -> tuple[Array, Array]:
        """Where step `k` starts and ends: at the ends of the span as these move."""
        begin, end = span
        start, here = self.ends[jnp.maximum(k - 1, 0)], self.ends[k]
        start = jnp.where(k == 0, begin, start)
        return start, jnp.where(self.is_last(k, span), end, here)

    def is_last(self, k: Array, span: tuple[Array, Array]) -> Array:
        """Whether step `k` ends where the run does."""
        here = self.ends[k]
        return (here == span[1]) | ~jnp.isfinite(here)


def replay_outputs(
    replay: Replay, recorded: Recorded
) -> tuple[PyTree[Array], PyTree[Array]]:
    """States at the outputs and at the end, by loops that have forward mode."""
    assert recorded.of_outputs is not None
    assert replay.times is not None
    span = replay.span
    # The end is one output more, which spares code of its own.
    places = jnp.append(recorded.of_outputs, recorded.count - 1)
    times = jnp.append(replay.times, recorded.step(recorded.count - 1, span)[1])

    def output_or_step(carry):
        """A step to the next output, where that lies inside step k, or step k."""
        k, output, at, states = carry
        here = places[jnp.minimum(output, places.size - 1)] == k
        start, end = recorded.step(k, span)
        if not replay.interpolates:
            there, _ = replay.step(at, start, jnp.where(here, times[output], end))
            state = there.y
        else:
            there, dense = replay.step(at, start, end)
            state = replay.between(start, end, dense, times[output])
            state = replay.solver_step.pack(state)
        # Written again and again until its output is over.
        states = states.at[output].set(state)
        at = jax.tree.map(lambda a, b: jnp.where(here, a, b), at, there)
        return jnp.where(here, k, k + 1), output + here, at, states

    zero = jnp.zeros_like(recorded.count)
    at = replay.begin(replay.y0, *recorded.step(zero, span))
    states = jnp.zeros((places.size, *at.y.shape), at.y.dtype)
    *_, states = loops.while_loop(
        lambda carry: carry[1] < places.size,
        output_or_step,
        (zero, jnp.zeros_like(zero), at, states),
        max_steps=places.size + recorded.ends.size,
        buffers=lambda carry: carry[3],
        kind="lax",
    )
    unpack = replay.solver_step.unpack
    return jax.vmap(unpack)(states[:-1]), unpack(states[-1])


def replay_steps(
    replay: Replay, recorded: Recorded, kind: Literal["lax", "bounded"]
) -> PyTree[Array]:
    """States at the ends of all steps, infinite behind them.

    A loop of kind "lax" has forward mode; one that is "bounded" has every mode, and
    takes as long as all steps up to the bound.
    """
    return jax.vmap(replay.solver_step.unpack)(_every_state(replay, recorded, kind))


def replay_all_steps(
    replay: Replay, recorded: Recorded
) -> tuple[PyTree[Array], PyTree[Array]]:
    """States at the outputs and at the end, by a loop that has every mode."""
    after = _every_state(replay, recorded, "bounded")
    before = jnp.concatenate([replay.y0[None], after])

    def at_output(output):
        place, t = output
        start, end = recorded.step(place, replay.span)
        at = replay.begin(before[place], start, end)
        if not replay.interpolates:
            return replay.solver_step.unpack(replay.step(at, start, t)[0].y)
        return replay.between(start, end, replay.step(at, start, end)[1], t)

    states = jax.lax.map(at_output, (recorded.of_outputs, replay.times))
    return states, replay.solver_step.unpack(before[recorded.count])


def _every_state(replay: Replay, recorded: Recorded, kind: Any) -> Array:
    span, bound = replay.span, recorded.ends.size

    def advance(carry):
        k, y, kept = carry
        ends = recorded.step(k, span)
        y = replay.step(replay.begin(y, *ends), *ends)[0].y
        return k + 1, y, kept.at[k].set(y)

    y = replay.y0
    kept = jnp.full((bound, *y.shape), jnp.inf, y.dtype)
    *_, kept = loops.while_loop(
        lambda carry: carry[0] < recorded.count,
        advance,
        (jnp.zeros_like(recorded.count), y, kept),
        max_steps=bound,
        buffers=lambda carry: carry[2],
        kind=kind,
    )
    return kept


class _Known(NamedTuple):
    """The arrays of a replay: those that its functions close over, and the rest."""

    consts: Any
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
    opened: list[Any] = []

    def closure_converted(*moving):
        replay = build(*moving)
        functions, consts = _Functions.of(replay)
        opened[:] = [functions, replay.solver_step.pack]
        return _Known(consts, replay.y0, replay.span, replay.times)

    jaxpr, shapes = jax.make_jaxpr(closure_converted, return_shape=True)(*moving)
    marks = reach(jaxpr.jaxpr, [True] * len(moving))
    marks = [
        mark and jnp.issubdtype(shape.dtype, jnp.inexact)
        for mark, shape in zip(marks, jax.tree.leaves(shapes), strict=True)
    ]
    moves: _Known = jax.tree.unflatten(jax.tree.structure(shapes), marks)

    def split(*moving):
        known = closure_converted(*moving)
        some, rest = eqx.partition(known.consts, moves.consts)
        return known._replace(consts=some), rest

    known, pull, rest = jax.vjp(split, *moving, has_aux=True)
    functions, pack = opened
    states, end = bars
    recorded = Recorded.of(recording.ends, known.span, known.times)
    packed = functions.between is None
    states = jax.vmap(pack)(states) if packed else states
    run = _Run(functions, rest, known, recorded, states, moves)
    kept = jnp.concatenate([known.y0[None], jax.vmap(pack)(recording.kept)])
    if known.times is None:
        return list(pull(_every_step_vjp(run, kept, states)))
    return list(pull(_backward_scan(run, kept, pack(end))))


class _Functions(NamedTuple):
    """Those of a `Replay`, each of the arrays first that it closes over."""

    begin: Callable[..., StepState]
    step: Callable[..., tuple[StepState, Any]]
    between: Callable[..., PyTree[Array]] | None

    @classmethod
    def of(cls, replay: Replay) -> tuple["_Functions", Any]:
        """The functions, and the arrays of each."""
        start = replay.y0, *replay.span
        begin, first = closure_convert(replay.begin, *start)
        at = jax.eval_shape(replay.begin, *start)
        step, second = closure_convert(replay.step, at, *replay.span)
        if replay.times is None or not replay.interpolates:
            return cls(begin, step, None), (first, second, [])
        _, dense = jax.eval_shape(replay.step, at, *replay.span)
        inside = *replay.span, dense, replay.span[0]
        between, third = closure_convert(replay.between, *inside)
        return cls(begin, step, between), (first, second, third)


class _Run(NamedTuple):
    """A replay as all steps on the way back are taken with it."""

    functions: _Functions
    #: What the functions close over and does not move.
    rest: Any
    known: _Known
    recorded: Recorded
    #: Cotangents of the states at the outputs, packed where those are steps.
    states: PyTree[Array]
    #: Which of the rest move.
    moves: _Known

    def begin(self, consts: Any, y: Array, k: Array) -> StepState:
        """Where a chain of steps sets out before step `k`."""
        # By what memory it is guessed is no matter of the step's ends.
        ends = jax.lax.stop_gradient(self.recorded.step(k, self.known.span))
        return self.functions.begin(eqx.combine(consts, self.rest)[0], y, *ends)

    def step(self, consts: Any, at: StepState, *ends: Array) -> tuple[StepState, Any]:
        """The end of a step, and what an interpolant asks for."""
        return self.functions.step(eqx.combine(consts, self.rest)[1], at, *ends)

    def between(self, consts: Any, *inside: Any) -> PyTree[Array]:
        """The state inside a step."""
        assert self.functions.between is not None
        return self.functions.between(eqx.combine(consts, self.rest)[2], *inside)


class _Back(NamedTuple):
    """On the way back: cotangents, and the number of the next output."""

    at: StepState
    known: _Known
    output: Array


def _backward_scan(run: _Run, kept: Array, end: Array) -> _Known:
    """Cotangents of all that a replay is made of, from those of its states."""
    recorded, known = run.recorded, run.known
    size = steps_between(recorded.ends.size)
    segments = -(-recorded.count // size)

    def segment(j, carry):
        y, known, output = carry
        place = segments - 1 - j
        first = place * size
        count = jnp.minimum(size, recorded.count - first)
        begin, inside = _states_in_segment(run, kept[place], first, count, size)

        def one(j, back):
            at = jax.tree.map(lambda a: a[count - 1 - j], inside)
            by_steps = run.functions.between is None
            vjp = _steps_vjp if by_steps else _step_vjp
            return vjp(run, first + count - 1 - j, at, back)

        back = _Back(_behind(y, begin), known, output)
        back = jax.lax.fori_loop(0, count, one, back)
        return (*_begin_vjp(run, first, kept[place], back), back.output)

    assert known.times is not None
    last = jnp.asarray(known.times.size - 1, recorded.count.dtype)
    back = (end, jax.tree.map(jnp.zeros_like, known), last)
    y, known, _ = jax.lax.fori_loop(0, segments, segment, back)
    return known._replace(y0=y)


def _every_step_vjp(run: _Run, kept: Array, bars: Array) -> _Known:
    """Cotangents of a replay, from those of the states behind all of its steps."""
    count = run.recorded.count

    def one(j, carry):
        y, known = carry
        k = count - 1 - j
        at = run.begin(run.known.consts, kept[k], k)
        back = _Back(_behind(y + bars[k], at), known, jnp.zeros_like(count))
        return _begin_vjp(run, k, kept[k], _step_vjp(run, k, at, back))

    start = jax.tree.map(jnp.zeros_like, (kept[0], run.known))
    y, known = jax.lax.fori_loop(0, count, one, start)
    return known._replace(y0=y)


def _behind(y: Array, like: StepState) -> StepState:
    """Cotangents behind the last step of a chain, whose memory nobody reads."""
    return StepState(y, jax.tree.map(jnp.zeros_like, like.memory))


def _begin_vjp(run: _Run, k: Array, y: Array, back: _Back) -> tuple[Array, _Known]:
    """Cotangents of the state from which a chain of steps set out, and of the rest."""
    _, pull = jax.vjp(lambda c, y: run.begin(c, y, k), run.known.consts, y)
    consts, y_bar = pull(back.at)
    consts = jax.tree.map(jnp.add, back.known.consts, consts)
    return y_bar, back.known._replace(consts=consts)


def _states_in_segment(
    run: _Run, y: Array, first: Array, count: Array, size: int
) -> tuple[StepState, StepState]:
    """Where a segment sets out, and where every step of it does."""
    consts, span = run.known.consts, run.known.span

    def one(j, carry):
        at, inside = carry
        inside = jax.tree.map(
            lambda a, b: jax.lax.dynamic_update_index_in_dim(b, a, j, 0), at, inside
        )
        return run.step(consts, at, *run.recorded.step(first + j, span))[0], inside

    begin = run.begin(consts, y, first)
    room = jax.tree.map(lambda a: jnp.zeros((size, *a.shape), a.dtype), begin)
    return begin, jax.lax.fori_loop(0, count, one, (begin, room))[1]


def _steps_vjp(run: _Run, k: Array, at: StepState, back: _Back) -> _Back:
    """Cotangents before step `k`, from those behind it and of the outputs inside of it.

    Those are by steps of their own, so that one loop serves both.
    """
    recorded, known = run.recorded, run.known
    places, times = recorded.of_outputs, known.times
    assert places is not None
    assert times is not None
    start, end = recorded.step(k, known.span)
    timed = any(run.moves.span) or bool(run.moves.times)

    def one(carry):
        at_bar, back, _ = carry
        output = jnp.maximum(back.output, 0)
        here = (back.output >= 0) & (places[output] == k)
        ends = start, jnp.where(here, times[output], end)
        moving = ends if timed else ()
        behind = jax.tree.map(
            lambda a, b: jnp.where(here, a, b),
            _behind(run.states[output], at),
            back.at,
        )

        def step(consts, at, *moving):
            return run.step(consts, at, *(moving or ends))[0]

        consts, more, *of_ends = jax.vjp(step, known.consts, at, *moving)[1](behind)
        at_bar = jax.tree.map(jnp.add, at_bar, more)
        consts = jax.tree.map(jnp.add, back.known.consts, consts)
        moved = back.known._replace(consts=consts)
        if timed:
            moved = _ends_vjp(run, k, moved, jnp.where(here, output, -1), of_ends)
        return at_bar, _Back(back.at, moved, back.output - here), ~here

    nothing = jax.tree.map(jnp.zeros_like, at)
    at_bar, back, _ = jax.lax.while_loop(
        lambda carry: ~carry[2], one, (nothing, back, jnp.asarray(False))
    )
    return back._replace(at=at_bar)


def _ends_vjp(run: _Run, k: Array, known: _Known, output: Array, ends) -> _Known:
    """Add cotangents of the ends of step `k`, or of one to an output if that is one."""
    start, end = ends
    here, (begin, last) = output >= 0, known.span
    times = known.times
    if run.moves.times:
        assert times is not None
        times = times.at[jnp.maximum(output, 0)].add(jnp.where(here, end, 0))
    is_last = run.recorded.is_last(k, run.known.span)
    last = last + jnp.where(is_last & ~here, end, 0)
    begin = begin + jnp.where(k == 0, start, 0)
    return known._replace(span=(begin, last), times=times)


def _step_vjp(run: _Run, k: Array, at: StepState, back: _Back) -> _Back:
    """Cotangents before step `k`, which sets out `at`, from those behind it."""
    known, recorded = run.known, run.recorded
    span = recorded.step(k, known.span)
    timed = any(run.moves.span)

    def step(consts, at, *ends):
        return run.step(consts, at, *(ends or span))

    ends = span if timed else ()
    (_, dense), pull = jax.vjp(step, known.consts, at, *ends)
    output, bars, times = _outputs_vjp(run, k, (known.consts, dense, *ends), back)
    consts, dense_bar, *end_bars = bars
    more, at_bar, *ends_more = pull((back.at, dense_bar))
    consts = jax.tree.map(jnp.add, consts, more)
    consts = jax.tree.map(jnp.add, back.known.consts, consts)
    known = back.known._replace(consts=consts, times=times)
    if timed:
        start, end = (a + b for a, b in zip(end_bars, ends_more, strict=True))
        is_last = recorded.is_last(k, run.known.span)
        begin = back.known.span[0] + jnp.where(k == 0, start, 0)
        known = known._replace(
            span=(begin, back.known.span[1] + jnp.where(is_last, end, 0))
        )
    return _Back(at_bar, known, output)


def _outputs_vjp(run: _Run, k: Array, inside: Any, back: _Back):
    """Cotangents of what outputs inside step `k` are made of, and of their times."""
    of_outputs, bars = run.recorded.of_outputs, jax.tree.map(jnp.zeros_like, inside)
    if of_outputs is None or run.known.times is None:
        return back.output, bars, None
    every, span = run.known.times, run.recorded.step(k, run.known.span)

    def between(t, consts, dense, *ends):
        return run.between(consts, *(ends or span), dense, t)

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
