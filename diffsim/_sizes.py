"""Sizes of pytrees."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def largest(tree: PyTree[Array]) -> Array:
    """The largest magnitude of any entry."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in jax.tree.leaves(tree)]))


def precision(tree: PyTree[Array]) -> float:
    """The coarsest epsilon of any leaf."""
    return max(float(jnp.finfo(x.dtype).eps) for x in jax.tree.leaves(tree))
