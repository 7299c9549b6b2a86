"""The fastest growth beside a steady state, by a few products with the Jacobian."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from ..._linalg import matmul, max_norm
from ..._types import PyTree


#: Vectors of the Krylov space. Preconditioned, all but a few waves are alike.
_SIZE = 24

#: Squarings of a propagator, after which nothing but what grows fastest is left of it.
_SQUARINGS = 40

#: Terms of its series, over a time in which nothing grows to more than e.
_TERMS = 20

#: Share of a growing wave that may lie outside of the Krylov space.
_OUTSIDE = 0.1


class Growth(NamedTuple):
    """The largest rate of growth beside a state, and the wave that has it."""

    rate: Float[Array, ""]
    wave: PyTree[Array]
    is_growing: Bool[Array, ""]


def fastest_growth(
    inverse: Callable, operator: Callable, like: PyTree[Array]
) -> Growth:
    """Growth by the Jacobian `operator`, preconditioned by `inverse`.

    By Arnoldi's method for the product of both, which knows smooth waves after a few
    steps, and the Jacobian between its vectors (Rayleigh and Ritz). What the vectors
    do not hold to a tenth counts as unknown, and not as growing.
    """
    flat, unravel = ravel_pytree(like)

    def apply(function: Callable, v: Array) -> Array:
        return ravel_pytree(function(unravel(v)))[0]

    def step(basis, j):
        product = apply(operator, basis[j])
        w = apply(inverse, product)
        size = jnp.linalg.norm(w)
        for _ in range(2):
            w = w - matmul(matmul(basis, w), basis)
        length = jnp.linalg.norm(w)
        new = length > jnp.finfo(w.dtype).eps ** 0.75 * size
        w = jnp.where(new, w / jnp.where(new, length, 1), 0)
        return basis.at[j + 1].set(w), product

    start = apply(inverse, _irregular(flat))
    first = start / jnp.linalg.norm(start)
    basis = jnp.zeros((_SIZE + 1, flat.size), flat.dtype).at[0].set(first)
    basis, products = jax.lax.scan(step, basis, jnp.arange(_SIZE))
    basis = basis[:-1]
    between = matmul(basis, products.T)
    rate, weights = _rightmost(between)
    wave, change = matmul(weights, basis), matmul(matmul(between, weights), basis)
    outside = matmul(weights, products) - change
    # `map` applies one after the other, so that the inverse is compiled once.
    both = jax.lax.map(lambda v: apply(inverse, v), jnp.stack([change, outside]))
    size, left = jnp.linalg.norm(both, axis=1)
    is_held = left <= _OUTSIDE * size
    # A shift or a mean that is kept does not grow, but for rounding.
    moves = size > jnp.finfo(flat.dtype).eps ** 0.5
    return Growth(rate, unravel(wave / max_norm(wave)), is_held & moves & (rate > 0))


def _rightmost(matrix: Array) -> tuple[Array, Array]:
    """The largest real part of all eigenvalues, and a vector that grows by it.

    By squaring its exponential, which every device can.
    """
    time = 1 / jnp.linalg.norm(matrix)
    eye = jnp.eye(len(matrix), dtype=matrix.dtype)
    terms = jax.lax.fori_loop(
        0, _TERMS, lambda k, p: eye + matmul(time * matrix, p) / (_TERMS - k), eye
    )
    start = terms, jnp.zeros((), matrix.dtype)

    def squared(_, carry):
        power, rate = carry
        size = jnp.linalg.norm(power)
        power = power / size
        return matmul(power, power), 2 * (rate + jnp.log(size))

    power, logarithm = jax.lax.fori_loop(0, _SQUARINGS, squared, start)
    rate = (logarithm + jnp.log(jnp.linalg.norm(power))) / (time * 2**_SQUARINGS)
    longest = jnp.argmax(jnp.sum(power**2, axis=0))
    column = power[:, longest]
    return rate, column / jnp.linalg.norm(column)


def _irregular(flat: Array) -> Array:
    """A vector that no wave is orthogonal to."""
    return 1 + jnp.sin(jnp.arange(1.0, flat.size + 1) ** 2).astype(flat.dtype)
