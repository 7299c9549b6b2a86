"""Norms of pytrees, and matrix products in full precision."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._types import PyTree


def matmul(a: Array, b: Array) -> Array:
    """`a @ b` to the precision of its arguments.

    On a GPU JAX rounds what `@` is given in float32 to TF32, which has three digits.
    """
    return jnp.matmul(a, b, precision="highest")


def real_times(factor: Array, z: Array) -> Array:
    """`factor * z`; without products with zero where only z is complex."""
    if jnp.iscomplexobj(z) and not jnp.iscomplexobj(factor):
        return jax.lax.complex(factor * z.real, factor * z.imag)
    return factor * z


def max_norm(tree: PyTree[Array]) -> Array:
    """The largest magnitude of any entry, infinite where one is not a number."""
    # XLA's maximum of 4096 entries and more on a CPU passes over those that are none.
    leaves = [x for x in jax.tree.leaves(tree) if x.size]
    if not leaves:
        return jnp.zeros(())
    sizes = [jnp.where(jnp.isnan(x), jnp.inf, jnp.abs(x)) for x in leaves]
    return jnp.max(jnp.stack([jnp.max(x) for x in sizes]))


def largest_difference(a: PyTree[Array], b: PyTree[Array]) -> Array:
    """The largest magnitude of any difference, 0 where both are NaN.

    Infinite where one is not a number and the other is.
    """

    def difference(x, y):
        # After a terminal event both are NaN.
        return jnp.where(jnp.isnan(x) & jnp.isnan(y), 0, x - y)

    pairs = (jax.tree.map(_number, jax.tree.leaves(tree)) for tree in (a, b))
    return max_norm(jax.tree.map(difference, *pairs))


def _number(x: Array) -> Array | None:
    """`x`, integers as floats, which have no overflow; None for keys and the like."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    is_countable = jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == bool
    return x.astype(float) if is_countable else None


def machine_epsilon(tree: PyTree[Array]) -> float:
    """The coarsest epsilon of any leaf."""
    types = [x.dtype for x in jax.tree.leaves(tree)] or [jnp.result_type(float)]
    return max(float(jnp.finfo(dtype).eps) for dtype in types)
