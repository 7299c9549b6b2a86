"""Minimum-norm solution of singular systems, by their singular values."""

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..._linalg import matmul
from ._linear_solver import (
    AbstractLinearSolver,
    direct_solution,
    matrix_of,
)


class MinimumNorm(AbstractLinearSolver):
    r"""Minimum-norm solution $x = A^+ b$, the shortest of least $|A x - b|$.

    ```python
    matrix = jnp.array([[1.0, 1.0], [2.0, 2.0]])  # of x it determines the sum alone
    solver = implicit.MinimumNorm()
    implicit.linear_solve(matrix, jnp.array([1.0, 2.0]), linear_solver=solver)
    ```

    For equations that leave directions of their unknown undetermined: those directions
    get a derivative of zero, which is a choice, and made only where it is asked for.

    **Arguments**

    - `rtol`: singular values below `rtol` times the largest count as zero; None is n
        times the precision.

    **Limits:** an SVD, some 20 n³ (convenience); where the rank changes there is no
    derivative (mathematics).
    """

    rtol: float | None = None

    def prepare(self, operator, y, hint=None, *, transposed=False):
        matrix = matrix_of(operator, y, transposed=transposed)
        u, s, vt = jnp.linalg.svd(matrix, full_matrices=False)
        rtol = s.size * jnp.finfo(s.dtype).eps if self.rtol is None else self.rtol
        kept = s > rtol * s[0]
        return u, jnp.where(kept, 1 / jnp.where(kept, s, 1), 0), vt

    def solve(self, state, operator, b):
        u, inverse, vt = state
        flat, unravel = ravel_pytree(b)
        return direct_solution(unravel(matmul(vt.T, inverse * matmul(u.T, flat))))

    def solve_transpose(self, state, transposed, b):
        u, inverse, vt = state
        flat, unravel = ravel_pytree(b)
        return direct_solution(unravel(matmul(u, inverse * matmul(vt, flat))))
