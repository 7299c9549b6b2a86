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
from ._adaptive_step import PackedTerm, Packing, is_small
from ._explicit_step import (
    add_weighted_stages,
    explicit_step,
    is_rolled,
    is_runge_kutta,
    stage_rates,
)


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
    return isinstance(solver, StartsAnew) and solver.starts_anew(terms)


class Replay(NamedTuple):
    """A run to be made again; its state is packed.

    `step(y, start, end)` is the end of one step, `dense(y, start, end)` that and what
    an interpolant asks for, and `between(y, start, end, dense, t)` a state inside it.
    """

    step: Callable[[Array, Array, Array], Array]
    dense: Callable[[Array, Array, Array], tuple[Array, Any]]
    between: Callable[..., PyTree[Array]]
    packing: Packing
    y0: Array
    span: tuple[Array, Array]
    times: Float[Array, " output"] | None


def make_replay(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, span, times=None
) -> Replay:
    """The replay of a run of `terms` from `y0` over `span`, with outputs at `times`."""
    packing = Packing.of(y0)
    step, dense, between = (
        _explicit_replay if is_runge_kutta(solver) else _solver_step
    )(solver, terms, y0, args, packing)
    packed = packing.pack(y0)
    return Replay(step, dense, between, packing, packed, span, times)


def _explicit_replay(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, packing: Packing
):
    """The functions of a `Replay` of an explicit Runge–Kutta solver."""
    rates, rolled = PackedTerm(terms, packing), is_small(y0) and is_rolled(solver)

    def step(y, start, end):
        given = (solver, rates, start, end - start, y, args)
        return explicit_step(*given, rolled=rolled)

    def dense(y, start, end):
        given = (solver, rates, start, end - start, y, args)
        k = stage_rates(*given, used=solver.tableau.num_stages)
        return add_weighted_stages(y, solver.tableau.b_sol, k), k

    def between(y, start, end, found, t):
        y1, k = found
        inside = solver.interpolation_cls(t0=start, t1=end, y0=y, y1=y1, k=k)
        return packing.unpack(inside.evaluate(t))

    return step, dense, between


def _solver_step(
    solver: Any, terms: Any, y0: PyTree[Array], args: Any, packing: Packing
):
    """The functions of a `Replay` of any solver whose steps start anew."""
    del y0

    def dense(y, start, end):
        given = (terms, start, end, packing.unpack(y), args)
        memory = solver.init(*given)
        y1, _, inside, _, _ = solver.step(*given, memory, made_jump=False)
        return packing.pack(y1), inside

    def step(y, start, end):
        return dense(y, start, end)[0]

    def between(y, start, end, found, t):
        del y
        inside = solver.interpolation_cls(t0=start, t1=end, **found[1])
        return inside.evaluate(t)

    return step, dense, between


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
    span = replay.span

    def advance(k, y):
        return replay.step(y, *recorded.step(k, span))

    def to_output(carry, output):
        (k, y), (place, t) = carry, output
        y = jax.lax.fori_loop(k, place, advance, y)
        ends = recorded.step(place, span)
        return (place, y), replay.between(y, *ends, replay.dense(y, *ends), t)

    start = (jnp.zeros_like(recorded.count), replay.y0)
    outputs = (recorded.of_outputs, replay.times)
    (k, y), states = jax.lax.scan(to_output, start, outputs)
    end = jax.lax.fori_loop(k, recorded.count, advance, y)
    return states, replay.packing.unpack(end)


def replay_steps(
    replay: Replay, recorded: Recorded, kind: Literal["lax", "bounded"]
) -> PyTree[Array]:
    """States at the ends of all steps, infinite behind them.

    A loop of kind "lax" has forward mode; one that is "bounded" has every mode, and
    takes as long as all steps up to the bound.
    """
    span, bound = replay.span, recorded.ends.size

    def advance(carry):
        k, y, kept = carry
        y = replay.step(y, *recorded.step(k, span))
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
    return jax.vmap(replay.packing.unpack)(kept)
