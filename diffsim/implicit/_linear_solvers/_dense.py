"""Dense systems: one LU factorization for tangents and adjoints."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.lax.linalg import lu as lu_of, triangular_solve
from jaxtyping import Array, Float

from ... import _tuning
from ..._linalg import matmul
from ._linear_solver import (
    AbstractLinearSolver,
    direct_solution,
    matrix_of,
)


class Dense(AbstractLinearSolver):
    r"""LU factorization $P R A = LU$, one for all tangents and adjoints at a solution.

    ```python
    def balance(y, theta):  # of 50 numbers, each coupled to all
        return y + theta * jnp.mean(y) ** 3 - jnp.arange(50.0)

    adjoint = implicit.ImplicitAdjoint(implicit.Dense())
    implicit.root(balance, jnp.ones(50), 0.1, adjoint=adjoint)
    ```

    $R$ scales the rows to one. The matrix is made by $n$ products with the operator,
    the factors cost $\tfrac23 n^3$ and each solve $2n^2$.

    **Good values:** up to a thousand unknowns.

    **Limits:** an N × N array (mathematics); a matrix that is singular to machine
    precision is answered with NaN, and `MinimumNorm` is for those (mathematics).
    """

    def prepare(self, operator, y, hint=None, *, transposed=False):
        return factorize(matrix_of(operator, y, transposed=transposed))

    def solve(self, state, operator, b):
        flat, unravel = ravel_pytree(b)
        return direct_solution(unravel(solve_factorized(state, flat)))

    def solve_transpose(self, state, transposed, b):
        flat, unravel = ravel_pytree(b)
        return direct_solution(unravel(solve_factorized(state, flat, transposed=True)))


def factorize(matrix: Array) -> tuple[Array, ...]:
    """Row scales, LU and order of a batch of matrices, all NaN where one is singular.

    A pivot is compared with the largest entry above it: whatever the units of rows and
    columns, a pivot below rounding there is zero.
    """
    size = matrix.shape[-1]
    if size <= _tuning.ROWS_IN_CLOSED_FORM:
        return (_inverse(matrix),)
    # Held, for no answer depends on scales, and the derivative of a maximum is not a
    # number where it is computed anew and rounded in another way.
    held = jax.lax.stop_gradient(matrix)
    rows = 1 / jnp.max(jnp.abs(held), axis=-1, keepdims=True)
    lu, _, order = lu_of(matrix * rows)
    upper = jnp.abs(jnp.triu(lu))
    least = size * jnp.finfo(lu.dtype).eps * jnp.max(upper, axis=-2)
    regular = jnp.all(
        jnp.diagonal(upper, axis1=-2, axis2=-1) > least, axis=-1, keepdims=True
    )[..., None]
    return rows, jnp.where(regular, lu, jnp.nan), order


def solve_factorized(
    state: tuple[Array, ...], b: Array, *, transposed: bool = False
) -> Array:
    """A⁻¹ b or A⁻ᵀ b for the matrix that `factorize` was given; b may have columns."""
    if len(state) == 1:
        (inverted,) = state
        inverted = jnp.swapaxes(inverted, -1, -2) if transposed else inverted
        if b.ndim == inverted.ndim:
            return matmul(inverted, b)
        return jnp.sum(inverted * b[..., None, :], axis=-1)
    rows, lu, order = state
    if b.ndim < lu.ndim:
        return solve_factorized(state, b[..., None], transposed=transposed)[..., 0]
    upper = partial(triangular_solve, lu, left_side=True, lower=False)
    lower = partial(
        triangular_solve, lu, left_side=True, lower=True, unit_diagonal=True
    )
    order = order[..., None]
    if transposed:
        x = lower(upper(b, transpose_a=True), transpose_a=True)
        back = jnp.put_along_axis(jnp.zeros_like(x), order, x, axis=-2, inplace=False)
        return rows * back
    return upper(lower(jnp.take_along_axis(rows * b, order, axis=-2)))


def _inverse(matrix: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    """Inverse by Gauss and Jordan with the largest pivots, NaN of a singular matrix.

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
