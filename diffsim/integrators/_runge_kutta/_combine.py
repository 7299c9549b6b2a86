"""Weighted sums of slopes."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree


def shifted(y: PyTree[Array], length: Array, rate: PyTree[Array]) -> PyTree[Array]:
    """y + length · rate, in the type of y."""
    return jax.tree.map(lambda a, b: a + length.astype(a.dtype) * b, y, rate)


def combined(weights: np.ndarray, slopes: Sequence[PyTree[Array]]) -> PyTree[Array]:
    """Σ w k over slopes written out, without those of weight zero."""
    total: Any = jax.tree.map(jnp.zeros_like, slopes[0])
    for weight, slope in zip(weights.tolist(), slopes, strict=False):
        if weight != 0:
            total = jax.tree.map(lambda a, b, w=weight: a + w * b, total, slope)
    return total


def stacked_sum(weights: Array, slopes: PyTree[Array]) -> PyTree[Array]:
    """Σ w k over slopes that are stacked along the first axis."""
    return jax.tree.map(
        lambda k: jnp.tensordot(
            weights.astype(k.dtype), k, axes=1, precision="highest"
        ),
        slopes,
    )


def stacked(like: PyTree[Array], stages: int) -> PyTree[Array]:
    return jax.tree.map(lambda k: jnp.zeros((stages, *k.shape), k.dtype), like)


def placed(slopes: PyTree[Array], index, slope: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda a, k: a.at[index].set(k), slopes, slope)
