"""Inverses of matrices of up to three rows, as code that runs through a whole batch."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


#: Above this LAPACK is faster; below it a call for each matrix costs ten times as much.
SMALL = 3


def inverse(matrix: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """By Gauss and Jordan with the largest pivots, NaN where the matrix is singular.

    Written out entry by entry, each an array over the batch. Rows are scaled to one,
    and a pivot is zero if it is below the rounding of its column.
    """
    n = matrix.shape[-1]
    # Held: the inverse does not depend on it, and a maximum computed anew may be none.
    scale = 1 / jnp.max(jnp.abs(jax.lax.stop_gradient(matrix)), axis=-1)
    scaled = scale[..., None] * matrix
    least = n * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(scaled), axis=-2)
    rows = [
        [scaled[..., i, j] for j in range(n)]
        + [scale[..., i] if i == j else jnp.zeros_like(scale[..., i]) for j in range(n)]
        for i in range(n)
    ]
    for k in range(n):
        rows = _pivot(rows, k)
        pivot = rows[k][k]
        pivot = jnp.where(jnp.abs(pivot) > least[..., k], pivot, jnp.nan)
        rows[k] = [x / pivot for x in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [
                    x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)
                ]
    return jnp.stack([jnp.stack(row[n:], axis=-1) for row in rows], axis=-2)


def _pivot(rows: list[list[Array]], k: int) -> list[list[Array]]:
    """Rows with the largest of column k, from row k on, in row k."""
    rows = list(rows)
    for i in range(k + 1, len(rows)):
        larger = jnp.abs(rows[i][k]) > jnp.abs(rows[k][k])
        pairs = list(zip(rows[k], rows[i], strict=True))
        rows[k] = [jnp.where(larger, b, a) for a, b in pairs]
        rows[i] = [jnp.where(larger, a, b) for a, b in pairs]
    return rows
