"""Sizes of pytrees against what is asked of them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def largest(tree: PyTree[Array]) -> Array:
    """The largest magnitude of any entry."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in jax.tree.leaves(tree)]))


def precision(tree: PyTree[Array]) -> float:
    """The coarsest epsilon of any leaf."""
    return max(float(jnp.finfo(x.dtype).eps) for x in jax.tree.leaves(tree))


def over_tolerance(step, y, rtol: float | None, atol: float | None, *, power: float):
    """`step` over `atol` + `rtol` |y|; None is a power of the precision."""
    default = precision(y) ** power
    relative, absolute = (default if t is None else t for t in (rtol, atol))
    return jax.tree.map(lambda d, a: d / (absolute + relative * jnp.abs(a)), step, y)
