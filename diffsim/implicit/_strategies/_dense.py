"""Dense systems: one LU factorization for tangents and adjoints."""

import jax.numpy as jnp
import jax.scipy.linalg as linalg
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ._base import AbstractLinear, matrix_of, one_step


class Dense(AbstractLinear):
    r"""$P R A = LU$, factored once for all tangents and adjoints at one solution.

    $R$ scales the rows to one. The matrix is made by $n$ products with the operator,
    the factors cost $\tfrac23 n^3$ and each solve $2n^2$.

    **Good values:** up to a thousand unknowns.

    **Limits:** an N × N array (mathematics); a matrix that is singular to rounding is
    answered with NaN, and `LeastNorm` is for those (mathematics).
    """

    def prepared(self, operator, y, hint=None, *, transposed=False):
        del hint
        return factors(matrix_of(operator, y, transposed=transposed))

    def solved(self, state, operator, b):
        del operator
        flat, unravel = ravel_pytree(b)
        return one_step(unravel(solved_by(state, flat)))

    def solved_transposed(self, state, transposed, b):
        del transposed
        flat, unravel = ravel_pytree(b)
        return one_step(unravel(solved_by(state, flat, transposed=True)))


def factors(matrix: Array) -> tuple[Array, ...]:
    """Row scales and LU of a batch of matrices, all NaN where one is singular.

    A pivot is compared with the largest entry above it: whatever the units of rows and
    columns, a pivot below rounding there is zero.
    """
    size = matrix.shape[-1]
    if size == 1:
        # A batch of scalars is one division, not a call of LAPACK for each.
        return (1 / jnp.where(matrix == 0, jnp.nan, matrix),)
    rows = 1 / jnp.max(jnp.abs(matrix), axis=-1, keepdims=True)
    lu, pivots = linalg.lu_factor(matrix * rows)
    upper = jnp.abs(jnp.triu(lu))
    least = size * jnp.finfo(lu.dtype).eps * jnp.max(upper, axis=-2)
    regular = jnp.all(
        jnp.diagonal(upper, axis1=-2, axis2=-1) > least, axis=-1, keepdims=True
    )[..., None]
    return rows, jnp.where(regular, lu, jnp.nan), pivots


def solved_by(state: tuple[Array, ...], b: Array, *, transposed: bool = False) -> Array:
    """A⁻¹ b, or A⁻ᵀ b, for the matrix that `factors` was given; b may have columns."""
    if len(state) == 1:
        (inverse,) = state
        return (inverse if b.ndim == inverse.ndim else inverse[..., 0]) * b
    rows, lu, pivots = state
    rows = rows if b.ndim == lu.ndim else rows[..., 0]
    if transposed:
        return rows * linalg.lu_solve((lu, pivots), b, trans=1)
    return linalg.lu_solve((lu, pivots), rows * b)
