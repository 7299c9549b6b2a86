"""Rows that stand for the second derivative of a loss."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._linalg import matmul
from ._information_factor import eigen_rows


def slope_share(dtype: Any, slopes: Any) -> Array:
    """Of a slope, the root of the information that it counts as where it has none.

    Rounding by a row so much longer is as small as the information that it adds; none
    unless `slopes`.
    """
    return jnp.where(slopes, float(jnp.finfo(dtype).eps) ** (1 / 3), 0).astype(dtype)


def curvature_rows(
    loss: Callable[[Array], Array], z: Array, *, positive: Any, slopes: Any = False
) -> tuple[Array, Array]:
    r"""Rows e and A with $A^Te = \nabla\,$loss and $A^TA$ its second derivative.

    Where `positive`, negative eigenvalues count by their size, which makes of a Newton
    step one that goes downhill from a saddle as well (Dauphin et al. 2014,
    arXiv:1406.2572), and down a straight slope there is a step, too. Otherwise they
    count as 0, or with `slopes` as next to nothing, so that the gradient is whole:
    there is no information in such a direction.
    """
    # Any unit and scale give the same AᵀA and Aᵀe: no derivative of theirs is needed.
    unit = jnp.where(z == 0, 1, jnp.abs(jax.lax.stop_gradient(z)))

    def scaled_loss(x: Array) -> Array:
        return loss(x * unit)

    gradient, hessian = (f(scaled_loss)(z / unit) for f in (jax.grad, jax.hessian))
    diagonal = jnp.sqrt(jnp.abs(jnp.diagonal(hessian)))
    scale = jax.lax.stop_gradient(jnp.where(diagonal > 0, diagonal, 1))
    scaled = hessian / scale[:, None] / scale[None, :]
    # Of equal eigenvalues the vectors have no derivative; `eigen_rows` has that of all.
    eigenvalues, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(scaled))
    rounding = float(jnp.finfo(z.dtype).eps ** 0.8)
    sizes = jnp.where(positive, jnp.abs(eigenvalues), jnp.maximum(eigenvalues, 0))
    along = matmul(vectors.T, gradient / scale)
    # Down a straight slope there is no curvature, and a step of one unit: a choice of
    # step, of which no derivative is asked.
    share = slope_share(z.dtype, slopes)
    length = jnp.where(positive, jnp.abs(along), (share * along) ** 2)
    slope = jnp.where(sizes <= rounding, length, 0)
    sizes = jnp.maximum(sizes, jax.lax.stop_gradient(slope))
    kept = sizes > rounding
    roots = jnp.sqrt(jnp.where(kept, sizes, 1))
    downhill = roots[:, None] * vectors.T * jnp.where(kept, 1, 0)[:, None]
    convex = eigen_rows(scaled, eigenvalues, vectors, least=rounding)
    rows = jnp.where(jnp.all(eigenvalues > rounding), convex, downhill)
    return jnp.where(kept, along / roots, 0), rows * (scale / unit)
