r"""An adaptive run made again along the steps that it took, for its derivatives.

A controller's steps are held in derivatives, so that those of a run are those of the
map $y_{k+1} = \Phi(y_k;\, t_k, t_{k+1}, \theta)$ over the recorded $t_k$. That takes a
loop of as many turns as there were steps; nothing is masked up to a bound.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

# For loops that write into large arrays, which `lax.while_loop` copies under `vmap`.
from equinox import internal as loops
from jaxtyping import Array, Float, Int

from ..._types import PyTree
from .._terms._term_checks import is_ode_term
from ._adaptive_step import PackedTerm, Packing, is_small, memory_is_a_guess
from ._explicit_step import explicit_step, is_rolled, is_runge_kutta


@runtime_checkable
class StartsAnew(Protocol):
    """A solver that may take a step from its state alone as well as in a run."""

    def starts_anew(self, terms: Any) -> bool:
        """Whether it does with these dynamics."""
        ...


def is_replayable(solver: Any, terms: Any) -> bool:
    """Whether a run is a chain of maps that recorded ends of steps make known."""
    if is_runge_kutta(solver):
        return is_ode_term(terms)
    if memory_is_a_guess(solver):
        return True
    return isinstance(solver, StartsAnew) and solver.starts_anew(terms)


class At(NamedTuple):
    """A packed state, and what the step that led to it leaves to the next one."""

    y: Array
    memory: Any


class Replay(NamedTuple):
    """A run to be made again; its state is packed.

    `begin(y, start, end)` is where a chain of steps sets out, `step(at, start, end)`
    the end of one step and what an interpolant asks for, and `between(at, start, end,
    dense, t)` a state inside it; None where that is by a step of its own.
    """

    begin: Callable[[Array, Array, Array], At]
    step: Callable[[At, Array, Array], tuple[At, Any]]
    between: Callable[..., PyTree[Array]] | None
    packing: Packing
    y0: Array
    span: tuple[Array, Array]
    times: Float[Array, " output"] | None


def make_replay(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, span, times=None
) -> Replay:
    """The replay of a run of `terms` from `y0` over `span`, with outputs at `times`."""
    packing = Packing.of(y0)
    kind = _chained_steps if memory_is_a_guess(solver) else _steps_anew
    kind = _explicit_steps if is_runge_kutta(solver) else kind
    functions = kind(solver, terms, y0, args, packing)
    return Replay(*functions, packing, packing.pack(y0), span, times)


def _without_memory(y: Array, start: Array, end: Array) -> At:
    del start, end
    return At(y, ())


def _explicit_steps(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, packing: Packing
):
    """The functions of a `Replay` of an explicit Runge–Kutta solver."""
    rates, rolled = PackedTerm(terms, packing), is_small(y0) and is_rolled(solver)

    def step(at, start, end):
        given = (solver, rates, start, end - start, at.y, args)
        return At(explicit_step(*given, rolled=rolled), ()), ()

    return _without_memory, step, None


def _steps_anew(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, packing: Packing
):
    """The functions of a `Replay` of any solver whose steps start anew."""
    del y0

    def step(at, start, end):
        given = (terms, start, end, packing.unpack(at.y), args)
        memory = solver.init(*given)
        y1, _, dense, _, _ = solver.step(*given, memory, made_jump=False)
        return At(packing.pack(y1), ()), dense

    def between(at, start, end, dense, t):
        del at
        inside = solver.interpolation_cls(t0=start, t1=end, **dense)
        return inside.evaluate(t)

    return _without_memory, step, between


def _chained_steps(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, packing: Packing
):
    """The functions of a `Replay` of a solver whose memory is a guess."""
    del y0

    def begin(y, start, end):
        return At(y, solver.init(terms, start, end, packing.unpack(y), args))

    def step(at, start, end):
        given = (terms, start, end, packing.unpack(at.y), args, at.memory)
        y1, _, _, memory, _ = solver.step(*given, made_jump=False)
        return At(packing.pack(y1), memory), ()

    return begin, step, None


#: Bytes that states kept for derivatives may take where all have their place.
_MEMORY = 2**28


def fits_in_memory(y: PyTree[Array], count: int) -> bool:
    """Whether there is room for so many states like this one."""
    return count * sum(leaf.nbytes for leaf in jax.tree.leaves(y)) <= _MEMORY


class Recording(NamedTuple):
    """The ends of the accepted steps, and the states after every so many of them."""

    ends: Float[Array, " bound"]
    kept: PyTree[Array]


def steps_between(bound: int) -> int:
    """After how many steps a state is kept, of so many that are taken at most."""
    return min(math.isqrt(bound) + 1, bound)


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
        if replay.between is None:
            there, _ = replay.step(at, start, jnp.where(here, times[output], end))
            state = there.y
        else:
            there, dense = replay.step(at, start, end)
            state = replay.between(at, start, end, dense, times[output])
            state = replay.packing.pack(state)
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
    unpack = replay.packing.unpack
    return jax.vmap(unpack)(states[:-1]), unpack(states[-1])


def replay_steps(
    replay: Replay, recorded: Recorded, kind: Literal["lax", "bounded"]
) -> PyTree[Array]:
    """States at the ends of all steps, infinite behind them.

    A loop of kind "lax" has forward mode; one that is "bounded" has every mode, and
    takes as long as all steps up to the bound.
    """
    return jax.vmap(replay.packing.unpack)(_every_state(replay, recorded, kind))


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
        if replay.between is None:
            return replay.packing.unpack(replay.step(at, start, t)[0].y)
        return replay.between(at, start, end, replay.step(at, start, end)[1], t)

    states = jax.lax.map(at_output, (recorded.of_outputs, replay.times))
    return states, replay.packing.unpack(before[recorded.count])


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
