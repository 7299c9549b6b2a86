"""A step by Gauss–Radau collocation: eight accelerations, found by iteration."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compensated_sum import add_compensated
from ._radau_tables import RADAU


#: `acceleration(t, x, v)`.
Acceleration = Callable[[Array, Array, Array], Array]

#: Iterations from the extrapolated polynomial of the step before. Each divides the
#: error by a thousand or more where the step is as long as its timescale allows, and
#: extrapolation leaves 1e-6: a third one changes the last digit but three.
_ITERATIONS = 3

#: Iterations with no polynomial to begin with.
_FROM_NOTHING = 7

_POWERS = np.arange(1, 8)


class Guess(NamedTuple):
    """Memory of a step, for the next one.

    None of it changes more than the last digits: `powers` begin the iteration, in units
    of a step of `length`; `x`, `v` are what rounding left of the sums so far.
    """

    powers: Float[Array, "7 *shape"]
    length: Float[Array, ""]
    x: Float[Array, "*shape"]
    v: Float[Array, "*shape"]


class Span(NamedTuple):
    """A step from t over `clock`; h has the sign of time, the clock runs forwards."""

    t: Array
    clock: Array
    h: Array


class Collocation(NamedTuple):
    """A step from (x, v): the acceleration there, and at the nodes less it.

    `change` is what the last two iterations changed, the largest number of each.
    """

    first: Float[Array, "*shape"]
    nodes: Float[Array, "7 *shape"]
    changes: tuple[Array, Array]


def collocate(
    acceleration: Acceleration, span: Span, x: Array, v: Array, guess: Guess
) -> Collocation:
    """The accelerations of a step, from a guess that is nearly right."""
    powers = scaled_powers(guess.powers, span.h / guess.length)
    begin = guess._replace(powers=powers)
    return _iterated(acceleration, span, x, v, begin, _ITERATIONS)


def first_guess(acceleration: Acceleration, span: Span, x: Array, v: Array) -> Guess:
    """The guess where there was no step before."""
    nothing = jnp.zeros_like(x)
    powers = jnp.zeros((_POWERS.size, *x.shape), x.dtype)
    begin = Guess(powers, span.h, nothing, nothing)
    collocation = _iterated(acceleration, span, x, v, begin, _FROM_NOTHING)
    return begin._replace(powers=weighted(RADAU.powers, collocation.nodes))


def _iterated(acceleration, span: Span, x, v, guess: Guess, count: int) -> Collocation:
    h, first = span.h, acceleration(span.t, x, v)
    nodes = along(RADAU.nodes.astype(x.dtype), x.ndim)
    times = span.t + RADAU.nodes.astype(x.dtype) * span.clock
    # Changes, which are rounded once when they are added to where a step begins.
    moved = nodes * (h * v) + (nodes**2 / 2 * (h * h * first) + guess.x)
    sped = nodes * (h * first) + guess.v
    every = jax.vmap(acceleration)

    def iteration(deltas, _):
        xs = x + (moved + h * h * weighted(RADAU.positions[:-1], deltas))
        vs = v + (sped + h * weighted(RADAU.velocities[:-1], deltas))
        new = every(times, xs, vs) - first
        return new, jnp.max(jnp.abs(new - deltas))

    # A loop, which takes as long as its turns written out, and a third to compile.
    deltas = weighted(RADAU.values, guess.powers)
    deltas, changes = jax.lax.scan(iteration, deltas, None, length=count)
    return Collocation(first, deltas, (changes[-2], changes[-1]))


def advanced(
    h: Array, x: Array, v: Array, collocation: Collocation, guess: Guess
) -> tuple[Array, Array, Guess]:
    """The end of a step, and the guess for the next, sums compensated."""
    moved = first_sum(RADAU.positions[-1], collocation.nodes)
    sped = first_sum(RADAU.velocities[-1], collocation.nodes)
    x1, low_x = add_compensated(
        x, guess.x, h * v + h * h * (collocation.first / 2 + moved)
    )
    v1, low_v = add_compensated(v, guess.v, h * (collocation.first + sped))
    powers = weighted(RADAU.shift, weighted(RADAU.powers, collocation.nodes))
    return x1, v1, Guess(powers, h, low_x, low_v)


def scaled_powers(powers: Array, ratio: Array) -> Array:
    """The coefficients of s, in units of a step that is longer by `ratio`."""
    factors = jnp.stack([ratio**k for k in range(1, _POWERS.size + 1)])
    return powers * along(factors, powers.ndim - 1)


def weighted(matrix: np.ndarray, values: Array) -> Array:
    """Sums over the first axis of `values`, by the rows of a matrix.

    Written out, and no product of matrices, which is a call of its own in a loop, as
    since JAX 0.12 a sum over an axis of many tangents is: fifteen took 2.6 times as
    long.
    """
    columns = along(matrix.T.astype(values.dtype), values.ndim - 1)
    total = columns[0] * values[0]
    for column, value in zip(columns[1:], values[1:], strict=True):
        total = total + column * value
    return total


def first_sum(row: np.ndarray, values: Array) -> Array:
    """The sum over the first axis of `values` by one row."""
    return jnp.sum(along(row.astype(values.dtype), values.ndim - 1) * values, axis=0)


def along(column, ndim: int):
    """A column, or several, along an axis before `ndim` others."""
    return column.reshape(*column.shape, *[1] * ndim)


class RadauInterpolation(diffrax.AbstractLocalInterpolation):
    """The polynomial of a step, of degree 9 in time.

    What Diffrax's own loop asks for; runs of the library step to their outputs.
    """

    t0: Any
    t1: Any
    x0: Array
    v0: Array
    h: Array
    accelerations: tuple[Array, Array]

    def evaluate(
        self, t0: Any, t1: Any | None = None, left: bool = True
    ) -> tuple[Array, Array]:
        if t1 is not None:
            there, here = self.evaluate(t1, left=left), self.evaluate(t0, left=left)
            return jax.tree.map(jnp.subtract, there, here)
        first, nodes = self.accelerations
        whole = self.t1 - self.t0
        s = (t0 - self.t0) / jnp.where(whole == 0, 1, whole)
        powers = scaled_powers(weighted(RADAU.powers, nodes), s)
        k = np.arange(1, 8)
        moved = first_sum(1 / ((k + 1) * (k + 2)), powers)
        sped = first_sum(1 / (k + 1), powers)
        h = self.h * s
        x = self.x0 + h * self.v0 + h * h * (first / 2 + moved)
        return x, self.v0 + h * (first + sped)
