"""The waves of all axes at once: products with a matrix, or Fourier transforms."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._grid import on_axis, product_along
from ._eigenvectors_1d import eigenvectors_1d, periodic_eigenvalues


#: Of each axis: None if periodic, else what a field is at both walls.
Kinds = Sequence[tuple[str, str] | None]


def eigenvectors(
    kinds: Kinds, walls: Sequence[Any], shape: tuple[int, ...], sizes: Sequence[Array]
) -> tuple[list[Array | None], Array]:
    """Those along each axis, None where periodic, and the eigenvalues of the sum.

    `sizes` are what second differences along each axis are multiplied by.
    """
    matrices, dtype = [], sizes[0].dtype
    total = jnp.zeros((), dtype)
    periodic = [i for i, pair in enumerate(kinds) if pair is None]
    for axis, (pair, n) in enumerate(zip(kinds, shape, strict=True)):
        matrix = None
        if pair is None:
            values = jnp.asarray(
                periodic_eigenvalues(n, real=axis == periodic[-1]), dtype
            )
        else:
            matrix, values = eigenvectors_1d(pair, walls[axis], n, dtype)
        total = total + sizes[axis] * on_axis(values, axis, len(shape))
        matrices.append(matrix)
    return matrices, total


def apply_in_eigenbasis(
    matrices: list[Array | None], x: Array, scaled: Callable[[Array], Array]
) -> Array:
    """Q f(Qᵀ x), of the eigenvectors Q."""
    periodic = [i for i, matrix in enumerate(matrices) if matrix is None]
    for axis, matrix in enumerate(matrices):
        x = x if matrix is None else product_along(axis, matrix, x)
    if periodic:
        lengths = [x.shape[i] for i in periodic]
        z = jnp.fft.rfftn(x, axes=periodic)
        x = jnp.fft.irfftn(scaled(z), lengths, periodic)
    else:
        x = scaled(x)
    for axis, matrix in enumerate(matrices):
        x = x if matrix is None else product_along(axis, matrix.T, x)
    return x
