"""The float leaves of a pytree by name, apart from the rest, and back again."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import PyTree
from ..simulations import Trajectory


@dataclasses.dataclass(frozen=True)
class Leaves:
    """Float arrays of a pytree, their names, and the tree for other values of them."""

    names: tuple[str, ...]
    values: list[Array]
    rebuild: Callable[[Sequence[Any]], PyTree]

    @classmethod
    def of(cls, tree: PyTree) -> Self:
        """Names are the attribute access: `bodies.masses`, an index as `layers.0`."""
        floats, rest = eqx.partition(tree, eqx.is_inexact_array)
        named, structure = jax.tree_util.tree_flatten_with_path(floats)
        names = tuple(
            jax.tree_util.keystr(path, simple=True, separator=".") or "input"
            for path, _ in named
        )

        def rebuild(values):
            return eqx.combine(jax.tree.unflatten(structure, values), rest)

        return cls(names, [jnp.asarray(value) for _, value in named], rebuild)


def float_outputs(output: PyTree) -> list[Array]:
    """Floats in what a function returned, as arrays; of a trajectory, its states."""
    if isinstance(output, Trajectory):
        output = output.states
    return [
        jnp.asarray(leaf)
        for leaf in jax.tree.leaves(output)
        if isinstance(leaf, float | complex) or eqx.is_inexact_array(leaf)
    ]


def random_directions(
    values: Sequence[Array], sizes: Sequence[float], seed: int
) -> list[np.ndarray]:
    """Seeded random signs and lengths, every entry between half and all of its size."""
    random = np.random.default_rng(seed)
    return [
        np.asarray(size * random_entries(random, value, 1.0), value.dtype)
        for value, size in zip(values, sizes, strict=True)
    ]


def random_entries(random: np.random.Generator, like: Any, most: float) -> np.ndarray:
    """Entries from a half to `most`, of either sign, or of any phase if complex."""
    shape = np.shape(like)
    entries = random.uniform(0.5, most, shape) * random.choice([-1.0, 1.0], shape)
    if jnp.iscomplexobj(like):
        entries = entries * np.exp(2j * np.pi * random.uniform(size=shape))
    return np.asarray(entries)
