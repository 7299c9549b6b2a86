"""Scaled Cholesky factors of information matrices, F = S RᵀR S."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from .._linalg import matmul
from .._validation import is_traced


def value_and_jacobian(
    function: Callable, at: Array, *, chunk: int = 128, mode: str = "auto"
) -> tuple[Array, Array, Any]:
    """`rows, aux = function(at)` and the derivative of the rows, (row, parameter).

    **Arguments:** `chunk`, how many directions travel together, sharing one run of
    `function`; `mode`, "forward", "reverse", or "auto": forward unless there are more
    parameters than rows.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode must be 'auto', 'forward' or 'reverse', got {mode!r}")
    if mode == "auto":
        rows, _ = jax.eval_shape(function, at)
        mode = "reverse" if at.size > rows.size else "forward"
    if mode == "reverse":
        rows, pull, aux = jax.vjp(function, at, has_aux=True)
        jacobian, _ = _in_chunks(lambda w: (pull(w)[0], ()), rows, chunk)
        return rows, jacobian, aux

    def push(direction: Array):
        rows, along, aux = jax.jvp(function, (at,), (direction,), has_aux=True)
        return along, (rows, aux)

    columns, (rows, aux) = _in_chunks(push, at, chunk)
    return rows, columns.T, aux


def _in_chunks(linear: Callable, like: Array, chunk: int) -> tuple[Array, Any]:
    """`linear` along every axis of the space of `like`; its second output just once."""
    batched = jax.vmap(linear, out_axes=(0, None))
    directions = jnp.eye(like.size, dtype=like.dtype)
    if like.size <= chunk:
        return batched(directions)
    count = -(-like.size // chunk)
    padded = jnp.pad(directions, ((0, count * chunk - like.size), (0, 0)))
    blocks, rest = jax.lax.map(batched, padded.reshape(count, chunk, like.size))
    blocks = blocks.reshape(count * chunk, -1)[: like.size]
    return blocks, jax.tree.map(lambda x: x[0], rest)


def slope_share(dtype: Any, slopes: Any) -> Array:
    """The root of the information that a slope counts as where it has none.

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
    # The information does not depend on these units.
    scale = jax.lax.stop_gradient(jnp.where(diagonal > 0, diagonal, 1))
    scaled = hessian / scale[:, None] / scale[None, :]
    # Vectors of equal eigenvalues have no derivative; `eigen_rows` has that of all.
    eigenvalues, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(scaled))
    rounding = float(jnp.finfo(z.dtype).eps ** 0.8)
    sizes = jnp.where(positive, jnp.abs(eigenvalues), jnp.maximum(eigenvalues, 0))
    along = matmul(vectors.T, gradient / scale)
    # Down a straight slope there is no curvature, and a step of one unit: a choice of
    # step, of which no derivative is asked.
    share = slope_share(z.dtype, slopes)
    length = jnp.where(positive, jnp.abs(along), (share * along) ** 2)
    slope = jnp.where(sizes <= rounding, length, 0)
    # The choice of a step, see above.
    sizes = jnp.maximum(sizes, jax.lax.stop_gradient(slope))
    kept = sizes > rounding
    roots = jnp.sqrt(jnp.where(kept, sizes, 1))
    downhill = roots[:, None] * vectors.T * jnp.where(kept, 1, 0)[:, None]
    convex = eigen_rows(scaled, eigenvalues, vectors, least=rounding)
    rows = jnp.where(jnp.all(eigenvalues > rounding), convex, downhill)
    return jnp.where(kept, along / roots, 0), rows * (scale / unit)


def triangular_root(rows: Array) -> Array:
    """The square upper triangle R with RᵀR = rowsᵀ rows, without forming either."""
    root = jnp.linalg.qr(rows, mode="r")
    missing = rows.shape[1] - root.shape[0]
    return jnp.pad(root, ((0, max(missing, 0)), (0, 0)))


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
    # `eigen_rows` has the derivative, of equal eigenvalues as well.
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
