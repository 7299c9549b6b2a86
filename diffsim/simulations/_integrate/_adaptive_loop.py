"""Loop over adaptive steps, with dense output.

Diffrax's loop serves all that it can do, and of a small run most is waiting for its
code to be traced, three times, and compiled. This one takes the same steps, by
Diffrax's controllers and interpolants, of half the code.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp

# For loops that write into large arrays, which `lax.while_loop` copies under `vmap`.
from equinox import internal as loops
from jaxtyping import Array, Float

from ..._results import equals
from ..._types import PyTree
from .._elapsed_time import OnClock
from ._step import (
    AbstractStep,
    Span,
    StepState,
    make_step,
    steps_to_outputs,
)


class Stop(NamedTuple):
    """The end of a run: `happened(before, after)` of `values(t, y)` around a step."""

    values: Callable[[Array, PyTree[Array]], Array]
    happened: Callable[[Array, Array], Array]


class AdaptiveRun(NamedTuple):
    """A run over a `span` of elapsed time with outputs at `times` in it, if any.

    - `every`: after how many accepted steps a state is kept; None keeps none.
    - `stop`: what ends the run with the step in which it happens.
    """

    solver: Any
    terms: Any
    controller: diffrax.AbstractStepSizeController
    args: Any
    y0: PyTree[Array]
    span: tuple[Array, Array]
    times: Float[Array, " output"] | None
    step: float | None
    max_steps: int
    every: int | None
    stop: Stop | None = None


class _Buffers(NamedTuple):
    """Arrays that a run writes into, each place once.

    `outputs` are the states there, or what a step to each of them is taken from.
    """

    outputs: PyTree[Array] | None
    ends: Array
    kept: PyTree[Array] | None


class _At(NamedTuple):
    """Where a run is; times run forwards, `end` is that of the step to be tried."""

    t: Array
    end: Array
    state: StepState
    controller: Any
    result: Any
    tried: Array
    accepted: Array
    output: Array
    #: Values of what ends the run, and whether it has happened.
    watched: tuple[Array, Array] | None
    written: _Buffers


def adaptive_run(run: AdaptiveRun) -> tuple[dict[str, Any], Any, dict[str, Array]]:
    """States at outputs and at the end, ends of the steps, result and statistics.

    Without derivatives of its own.
    """
    loop = _Loop.of(run)
    last = loops.while_loop(
        loop.goes_on,
        loop.advance,
        loop.start(),
        max_steps=run.max_steps,
        buffers=lambda at: at.written,
        kind="lax",
    )
    good: Any = diffrax.RESULTS
    result = good.where(loop.goes_on(last), good.max_steps_reached, last.result)
    unpacked = loop.step.unpack
    end = (loop.direction * last.t, unpacked(last.state.y))
    _, ends, kept = last.written
    states = loop.states_at_outputs(last)
    found = {"end": jax.tree.map(lambda a: a[None], end), "ends": ends}
    for name, some in (("states", states), ("kept", kept)):
        if some is not None:
            found[name] = jax.vmap(unpacked)(some)
    stats = {
        "num_steps": last.tried,
        "num_accepted_steps": last.accepted,
        "num_rejected_steps": last.tried - last.accepted,
    }
    return found, result, stats


class _Loop(NamedTuple):
    """A run on a clock that runs forwards."""

    run: AdaptiveRun
    controller: Any
    direction: Array
    terms: OnClock
    step: AbstractStep

    @classmethod
    def of(cls, run: AdaptiveRun) -> "_Loop":
        begin, end = run.span
        direction = jnp.where(begin < end, 1, -1).astype(end.dtype)
        controller = run.controller.wrap(direction)
        terms = OnClock(run.terms, direction)
        step = make_step(
            run.solver, terms, run.args, run.y0, "adaptive", direction=direction
        )
        return cls(run, controller, direction, terms, step)

    def span(self) -> tuple[Array, Array]:
        begin, end = self.run.span
        return self.direction * begin, self.direction * end

    def order(self) -> float | int | Array | None:
        return self.run.solver.error_order(self.terms)

    def start(self) -> _At:
        run, (begin, end) = self.run, self.span()
        step = None if run.step is None else jnp.asarray(run.step, end.dtype)
        # Diffrax works out a first step of an `ODETerm` alone. Of one on a clock that
        # runs forwards, as here and in its own loop, the first step is 0.01.
        given = (self.terms, begin, end, run.y0, step, run.args, run.solver.func)
        first, state = self.controller.init(*given, self.order())
        first, watched = jnp.minimum(first, end), None
        none, good = jnp.asarray(0), diffrax.RESULTS.successful
        here = self.step.start(Span(begin, None, first), run.y0)
        if run.stop is not None:
            watched = run.stop.values(run.span[0], run.y0), jnp.asarray(False)
        return _At(
            begin, first, here, state, good, none, none, none, watched, self.empty(here)
        )

    def steps_to_outputs(self) -> bool:
        """Whether outputs are by steps of their own, as in a replay."""
        run = self.run
        kept = run.every is not None
        return run.times is not None and kept and steps_to_outputs(run.solver)

    def empty(self, start: StepState) -> _Buffers:
        """Room for what is written, infinite as Diffrax leaves it."""
        run, (begin, end) = self.run, self.span()

        def room(size: int, like: PyTree, unknown=lambda a: jnp.asarray(jnp.inf)):
            return jax.tree.map(
                lambda a: jnp.broadcast_to(
                    unknown(a).astype(a.dtype), (size, *a.shape)
                ),
                like,
            )

        def output(a):
            # A run of no length takes no step, and its outputs are where it begins.
            return jnp.where(begin == end, a, jnp.inf)

        outputs = None
        if run.times is not None:
            like = (begin, start) if self.steps_to_outputs() else start.y
            unknown = (lambda a: a) if self.steps_to_outputs() else output
            outputs = room(run.times.size, like, unknown)
        return _Buffers(
            outputs,
            jnp.full(run.max_steps, jnp.inf, end.dtype),
            run.every and room(run.max_steps // run.every, start.y),
        )

    def goes_on(self, at: _At) -> Array:
        ahead = (at.t < self.span()[1]) & (at.result == diffrax.RESULTS.successful)
        return ahead if at.watched is None else ahead & ~at.watched[1]

    def advance(self, at: _At) -> _At:
        """One step, kept or not."""
        unpack, good = self.step.unpack, diffrax.RESULTS.successful
        span = Span(at.t, None, at.end)
        there, error, dense, solved = self.step.attempt(at.state, span)
        error = jax.tree.map(lambda e: jnp.where(jnp.isnan(e), jnp.inf, e), error)
        keep, t, end, _, controller, result = self.controller.adapt_step_size(
            at.t,
            at.end,
            unpack(at.state.y),
            unpack(there.y),
            self.run.args,
            unpack(error),
            self.order(),
            at.controller,
        )
        results: Any = diffrax.RESULTS
        if equals(solved, good) is not True:
            solved = results.where(keep, solved, good)
            result = results.where(solved == good, result, solved)
        accepted = at.accepted + jnp.where(keep, 1, 0)
        there = jax.tree.map(lambda a, b: jnp.where(keep, a, b), there, at.state)
        reached = jnp.minimum(t, self.span()[1])
        output, written = self.write(at, keep, reached, there.y, dense)
        t, end = self.clipped(t, end, keep)
        return _At(
            t,
            end,
            there,
            controller,
            result,
            at.tried + 1,
            accepted,
            output,
            self.watched(at, t, there.y),
            written,
        )

    def watched(
        self, at: _At, t: Array, y: PyTree[Array]
    ) -> tuple[Array, Array] | None:
        """Look for the end behind a step; one that is not kept leaves all as it was."""
        if self.run.stop is None or at.watched is None:
            return None
        before, _ = at.watched
        after = self.run.stop.values(self.direction * t, self.step.unpack(y))
        return after, jnp.any(self.run.stop.happened(before, after))

    def clipped(self, t: Array, end: Array, keep: Array) -> tuple[Array, Array]:
        """Times of the next step, which ends with the run or well before."""
        last = self.span()[1]
        t = jnp.minimum(t, last)
        # What is left by a hundred roundings is taken along.
        near = last - 100 * jnp.finfo(last.dtype).eps * jnp.abs(last)
        clipped = jnp.where(keep, last, t + (last - t) / 2)
        return t, jnp.where(end > near, clipped, end)

    def write(
        self, at: _At, keep: Array, t: Array, y: PyTree[Array], dense: Any
    ) -> tuple[Array, _Buffers]:
        """Write a step to `t` if it is kept; returns the next output's number, too."""
        put: Any = loops.buffer_at_set
        _, ends, kept = at.written
        output, outputs = self.outputs(at, keep, dense)
        new = put(ends, at.accepted, self.direction * t, pred=keep)
        if self.run.every is not None:
            place, every = at.accepted // self.run.every, self.run.every
            full = keep & ((at.accepted + 1) % every == 0)
            kept = jax.tree.map(lambda a, b: put(b, place, a, pred=full), y, kept)
        return output, _Buffers(outputs, new, kept)

    def outputs(
        self, at: _At, keep: Array, dense: dict[str, Any]
    ) -> tuple[Array, PyTree]:
        """Write the outputs inside a step that is kept, or where it begins."""
        if self.run.times is None:
            return at.output, None
        times, size = self.direction * self.run.times, self.run.times.size
        here, between = (at.t, at.state), None
        if not self.steps_to_outputs():
            kind = self.run.solver.interpolation_cls
            between = kind(t0=at.t, t1=at.end, **dense)

        def is_here(carry):
            output, _ = carry
            here = times[jnp.minimum(output, size - 1)] <= at.end
            return keep & (output < size) & here

        def add(carry):
            output, outputs = carry
            new = here if between is None else between.evaluate(times[output])
            outputs = jax.tree.map(lambda a, b: b.at[output].set(a), new, outputs)
            return output + 1, outputs

        return loops.while_loop(
            is_here,
            add,
            (at.output, at.written.outputs),
            max_steps=size,
            buffers=lambda carry: carry[1],
            kind="lax",
        )

    def states_at_outputs(self, last: _At) -> PyTree[Array] | None:
        """The states at the outputs, infinite at those that were not reached."""
        run, outputs = self.run, last.written.outputs
        if not self.steps_to_outputs():
            return outputs
        assert run.times is not None
        begin, end = self.span()

        def state(xs):
            number, time, (t, state) = xs
            y = self.step.inside(state, Span(t, None, time)).y
            reached = (number < last.output) | (begin == end)
            return jax.tree.map(lambda a: jnp.where(reached, a, jnp.inf), y)

        numbers = jnp.arange(run.times.size)
        return jax.lax.map(state, (numbers, self.direction * run.times, outputs))
