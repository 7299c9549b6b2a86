"""Scaled Cholesky factors of information matrices, F = S RᵀR S."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from .._linalg import matmul
from .._validation import is_traced
from ._trust_region import triangular_root


def scaled_cholesky_factor(rows: Array) -> tuple[Array, Array]:
    """R and S of F = rowsᵀ rows; the columns of R have unit norm, or are 0."""
    norms = column_norms(rows)
    scale = jnp.where(norms > 0, norms, 1)
    return triangular_root(rows / scale), scale


def information_rows(matrix: Array) -> Array:
    """Rows W of a symmetric matrix WᵀW without negative eigenvalues.

    Others raise, and are NaN where they are traced.
    """
    diagonal = jnp.diagonal(matrix)
    unit = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
    scaled = matrix / unit[:, None] / unit[None, :]
    eigenvalues, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(scaled))
    rounding = float(jnp.finfo(matrix.dtype).eps ** 0.8)
    if not is_traced(matrix):
        if not bool(jnp.allclose(scaled, scaled.T, rtol=0, atol=rounding)):
            raise ValueError("matrix must be symmetric, as an information matrix is")
        if not bool(eigenvalues[0] >= -rounding):
            raise ValueError(
                "matrix must be positive semidefinite, as an information matrix is; "
                f"in units of its diagonal it has the eigenvalue {eigenvalues[0]:.3g}"
            )
    symmetric = jnp.max(jnp.abs(scaled - scaled.T)) <= rounding
    fits = symmetric & (eigenvalues[0] >= -rounding)
    rows = eigen_rows(scaled, eigenvalues, vectors, least=0.0)
    return jnp.where(fits, rows, jnp.nan) * unit


def eigen_rows(matrix: Array, eigenvalues: Array, vectors: Array, least: float):
    r"""Rows W of $W^TW = V\Lambda V^T$, of the eigenvalues above `least`.

    The derivative is that of the `matrix` and not of its eigenvectors, which have none
    where eigenvalues are equal: with $W_0$ the value, $E = dM$ and
    $LL^T = 1 + W_0^{-T}EW_0^{-1}$, $W = L^TW_0$ to any order. Where M is singular, what
    E has beside its range follows from the sum of squares that it must stay.
    """
    kept = eigenvalues > max(least, matrix.shape[0] * jnp.finfo(matrix.dtype).eps)
    # Just below zero there is only rounding.
    sizes = jnp.sqrt(jnp.where(eigenvalues > least, eigenvalues, 0))
    rows = sizes[:, None] * vectors.T
    inverse = vectors * jnp.where(kept, 1 / jnp.where(kept, sizes, 1), 0)
    # Zero in value: the rows are a function of it.
    change = (matrix + matrix.T) / 2
    change = change - jax.lax.stop_gradient(change)
    one = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    factor = jnp.linalg.cholesky(one + matmul(matmul(inverse.T, change), inverse))
    beside = matmul(matmul(inverse.T, change), one - matmul(inverse, rows))
    beside = solve_triangular(factor, beside, lower=True)
    return matmul(factor.T, rows) + beside


def column_norms(rows: Array) -> Float[Array, " parameter"]:
    """Euclidean norms, also where the squares are beyond what a float holds."""
    largest = jnp.max(jnp.abs(jax.lax.stop_gradient(rows)), axis=0, initial=0)
    # Any unit gives the same norm, so that the derivative needs none of it.
    unit = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1)
    return unit * jnp.linalg.norm(rows / unit, axis=0)


def estimated_sigma(squares: Array, dof: Array) -> Array:
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
def unit_covariance(
    root: Float[Array, "parameter parameter"],
) -> Float[Array, "parameter parameter"]:
    """(RᵀR)⁻¹, in units of what each parameter alone would be known to.

    Inf is the variance of what no datum determines, with NaN beside it.
    """
    values, directions, null = singular_directions(root)
    touched = _is_open(directions, null)
    eye = jnp.eye(root.shape[0], dtype=root.dtype)
    safe = jnp.where(jnp.any(null), eye, root)
    regular = solve_triangular(safe, eye)
    singular = directions.T / jnp.where(null, jnp.inf, values)
    half = jnp.where(jnp.any(null), singular, regular)
    unknown = jnp.where(eye > 0, jnp.inf, jnp.nan)
    # Whether two parameters share an unknown direction or not: there is no number.
    shared = touched[:, None] & touched[None, :]
    found = jnp.where(shared, unknown, matmul(half, half.T))
    return _differentiable_unless(found, root, jnp.any(null))


@jax.jit
def solve_information(
    root: Float[Array, "parameter parameter"], vector: Float[Array, " parameter"]
) -> tuple[Float[Array, " parameter"], Bool[Array, " parameter"]]:
    """(RᵀR)⁻¹ v, the shortest solution if R is singular, and what that leaves open."""
    values, directions, null = singular_directions(root)
    eye = jnp.eye(root.shape[0], dtype=root.dtype)
    safe = jnp.where(jnp.any(null), eye, root)
    half = solve_triangular(safe, vector, trans=1)
    weights = matmul(directions, vector) / jnp.where(null, jnp.inf, values**2)
    shortest = matmul(directions.T, weights)
    found = jnp.where(jnp.any(null), shortest, solve_triangular(safe, half))
    found = _differentiable_unless(found, root, jnp.any(null))
    return found, _is_open(directions, null)


def _is_open(directions: Array, null: Array) -> Bool[Array, " parameter"]:
    """Which parameters have a part in a direction that no datum determines."""
    some = jnp.abs(directions) > jnp.finfo(directions.dtype).eps ** 0.5
    return jnp.any(null[:, None] & some, axis=0)


@jax.custom_jvp
def _differentiable_unless(x: Array, root: Array, singular: Array) -> Array:
    """`x`, whose derivative by `root` is NaN if `singular`: the rank may change."""
    del root, singular
    return x


@_differentiable_unless.defjvp
def _(primals, tangents):
    (x, root, singular), (dx, droot, _) = primals, tangents
    # By `root` itself as well: what it is replaced by takes no cotangent further.
    open_side = jnp.sum(droot) * jnp.where(singular, jnp.nan, 0)
    return _differentiable_unless(x, root, singular), dx + open_side


# The three below take `unit`, a unit covariance: a variance of 1e-600 is no float, the
# error bar and the correlations of a parameter of 1e-300 are.


@jax.jit
def covariance(unit: Array, scale: Array) -> Float[Array, "parameter parameter"]:
    """F⁻¹ = S⁻¹ (RᵀR)⁻¹ S⁻¹."""
    return unit / scale[:, None] / scale[None, :]


@jax.jit
def standard_deviations(unit: Array, scale: Array) -> Float[Array, " parameter"]:
    """Roots of the diagonal of F⁻¹."""
    return jnp.sqrt(jnp.diagonal(unit)) / scale


@jax.jit
def correlation(unit: Array) -> Float[Array, "parameter parameter"]:
    """Correlation coefficients; NaN beside a variance that is not finite."""
    sd = jnp.sqrt(jnp.diagonal(unit))
    sd = jnp.where(jnp.isfinite(sd), sd, jnp.nan)
    return unit / sd[:, None] / sd[None, :]
