"""`DataLayout`: how a pytree of data is one vector."""

import contextlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import PyTree
from ..._validation import as_vector


class DataLayout(eqx.Module):
    """Shapes of the data: how pytrees are flattened to one vector of data."""

    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape, dtype=int)) for shape in self.shapes)

    def flat(self, name: str, tree: PyTree[Any]) -> Array:
        """`tree` as one vector; objects unless it is laid out like the data."""
        if jax.tree.structure(tree) != self.structure:
            arrays = [np.broadcast_to(0.0, shape) for shape in self.shapes]
            like = jax.tree.unflatten(self.structure, arrays)
            hint = "; a list is a pytree of as many numbers, and np.asarray(...) makes "
            hint += "one array of it"
            lists = isinstance(tree, list | tuple) or isinstance(like, list | tuple)
            raise ValueError(
                f"{name} must be a pytree like the data, {_in_words(like)}, got "
                f"{_in_words(tree)}{hint if lists else ''}"
            )
        leaves = jax.tree.leaves(tree)
        for leaf, shape in zip(leaves, self.shapes, strict=True):
            if np.shape(leaf) != shape:
                raise ValueError(
                    f"{name} must have the shape of the data, {shape}, got "
                    f"{np.shape(leaf)}"
                )
        return as_vector(leaves)

    def broadcast(self, name: str, tree: PyTree[Any]) -> Array:
        """Like `flat`, but leaves broadcast, and one number stands for all data."""
        leaves, structure = jax.tree.flatten(tree)
        if jax.tree_util.treedef_is_leaf(structure) and np.shape(leaves[0]) == ():
            tree = jax.tree.unflatten(self.structure, leaves * len(self.shapes))
        if jax.tree.structure(tree) == self.structure:
            pairs = zip(jax.tree.leaves(tree), self.shapes, strict=True)
            with contextlib.suppress(ValueError):
                return as_vector(
                    [jnp.broadcast_to(jnp.asarray(x), s) for x, s in pairs]
                )
        return self.flat(name, tree)

    def rows(self, indices: Array) -> Array:
        """Flat positions of rows of data that are one array."""
        (shape,) = self.shapes
        width = int(np.prod(shape[1:], dtype=int))
        return (indices[:, None] * width + jnp.arange(width)).reshape(-1)

    def unflatten(self, vector: Array) -> PyTree[Array]:
        """A vector of data as a pytree like the data."""
        sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        pieces = jnp.split(vector, np.cumsum(sizes)[:-1])
        leaves = [x.reshape(s) for x, s in zip(pieces, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


def data_layout(tree: PyTree[Any]) -> DataLayout:
    """The layout of data, or of a prediction where there are none."""
    leaves, structure = jax.tree.flatten(tree)
    return DataLayout(structure, tuple(np.shape(leaf) for leaf in leaves))


def _in_words(tree: PyTree[Any]) -> str:
    """Return the words for a tree, of a deeper one its structure."""
    if tree is None:
        return "None"
    structure = jax.tree.structure(tree)
    if jax.tree_util.treedef_is_leaf(structure):
        return "one array" if np.ndim(tree) else "one number"
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return f"a dict with the keys {sorted(tree)}"
    if type(tree) not in (list, tuple) or not jax.tree_util.all_leaves(tree):
        return str(structure)
    numbers = all(np.ndim(leaf) == 0 for leaf in tree)
    count, kind = len(tree), "number" if numbers else "array"
    return f"a {type(tree).__name__} of {count} {kind}{'s' if count != 1 else ''}"
