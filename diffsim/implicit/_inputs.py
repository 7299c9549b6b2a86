"""What implicit layers are given, checked."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def floating(name: str, given: PyTree) -> PyTree[Array]:
    given = jax.tree.map(jnp.asarray, given)
    for leaf in jax.tree.leaves(given):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"{name} must hold floating arrays, got dtype {leaf.dtype}; write 1.0 "
                "for 1, and a complex number as its two parts"
            )
    return given


def check_fits(
    name: str, function: Callable, like: str, y: PyTree[Array], args: PyTree
) -> None:
    """That `function(y, args)` has the structure and shapes of y."""
    found = eqx.filter_eval_shape(function, y, args)
    want, have = (_shapes(tree) for tree in (y, found))
    if jax.tree.structure(y) != jax.tree.structure(found) or want != have:
        raise ValueError(
            f"{name} must return as many numbers as {like}, in the same structure: "
            f"got {have}, expected {want}"
        )


def _shapes(tree: PyTree) -> list[tuple[int, ...]]:
    return [x.shape for x in jax.tree.leaves(tree)]
