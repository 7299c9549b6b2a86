"""Sizes of pytrees."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def largest(tree: PyTree[Array]) -> Array:
    """The largest magnitude of any entry, infinite where one is not a number."""
    # XLA's maximum of 4096 entries and more on a CPU passes over those that are none.
    leaves = [x for x in jax.tree.leaves(tree) if x.size]
    if not leaves:
        return jnp.zeros(())
    sizes = [jnp.where(jnp.isnan(x), jnp.inf, jnp.abs(x)) for x in leaves]
    return jnp.max(jnp.stack([jnp.max(x) for x in sizes]))


def precision(tree: PyTree[Array]) -> float:
    """The coarsest epsilon of any leaf."""
    return max(float(jnp.finfo(x.dtype).eps) for x in jax.tree.leaves(tree))
