"""Scaled roots of information matrices: F = S RᵀR S, R triangular, S diagonal."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from .._products import product
from ._trust_region import triangular_root


def scaled_root(rows: Array) -> tuple[Array, Array]:
    """R and S of F = rowsᵀ rows; the columns of R have unit norm, or are 0."""
    norms = jnp.linalg.norm(rows, axis=0)
    scale = jnp.where(norms > 0, norms, 1)
    return triangular_root(rows / scale), scale


def scatter(squares: Array, dof: Array) -> Array:
    """√(RSS/dof): an unknown sigma; NaN without a degree of freedom to tell it."""
    return jnp.where(dof > 0, jnp.sqrt(squares / jnp.where(dof > 0, dof, 1)), jnp.nan)


@jax.jit
def singular_directions(root: Array) -> tuple[Array, Array, Bool[Array, " direction"]]:
    """Singular values of R, ascending, their directions as rows, and which count as 0.

    Columns have unit norm, so that a singular value is the factor by which a direction
    is known worse than its parameters alone. Rounding in a prediction reaches it as a
    few hundred ulp, hence the 0.8.
    """
    # To judge by, not to differentiate: where two values are equal, their directions
    # have no derivative, and NaN would reach the error bars.
    _, values, directions = jnp.linalg.svd(jax.lax.stop_gradient(root))
    least = jnp.finfo(root.dtype).eps ** 0.8 * jnp.maximum(values[0], 1)
    return values[::-1], directions[::-1], values[::-1] <= least


@jax.jit
def covariance(
    root: Float[Array, "parameter parameter"], scale: Float[Array, " parameter"]
) -> Float[Array, "parameter parameter"]:
    """F⁻¹ from R⁻¹; inf for the variance of what no datum determines, NaN beside it."""
    n = scale.size
    values, directions, null = singular_directions(root)
    touched = jnp.any(
        null[:, None] & (jnp.abs(directions) > jnp.finfo(root.dtype).eps ** 0.5), axis=0
    )
    eye = jnp.eye(n, dtype=root.dtype)
    safe = jnp.where(jnp.any(null), eye, root)
    regular = solve_triangular(safe, eye)
    singular = directions.T / jnp.where(null, jnp.inf, values)
    half = jnp.where(jnp.any(null), singular, regular) / scale[:, None]
    unknown = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, jnp.nan)
    # Whether two parameters share an unknown direction or not: there is no number.
    shared = touched[:, None] & touched[None, :]
    found = jnp.where(shared, unknown, product(half, half.T))
    return _differentiable_unless(found, jnp.any(null))


@jax.custom_jvp
def _differentiable_unless(x: Array, singular: Array) -> Array:
    """`x`, whose derivative is NaN if `singular`: the rank may change beside it."""
    del singular
    return x


@_differentiable_unless.defjvp
def _(primals, tangents):
    (x, singular), (dx, _) = primals, tangents
    return _differentiable_unless(x, singular), dx * jnp.where(singular, jnp.nan, 1)


@jax.jit
def correlation(covariance: Array) -> Array:
    """Correlation coefficients; NaN beside a variance that is not finite."""
    sd = jnp.sqrt(jnp.diagonal(covariance))
    sd = jnp.where(jnp.isfinite(sd), sd, jnp.nan)
    return covariance / sd[:, None] / sd[None, :]
