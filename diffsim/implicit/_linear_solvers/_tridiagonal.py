"""Tridiagonal matrices."""

from typing import Any

import jax
from jaxtyping import Array

from ..._types import PyTree
from ._banded import multiply_banded, read_bands, solve_tridiagonal, transpose_bands
from ._linear_solver import (
    AbstractLinearSolver,
    Operator,
    Solved,
    direct_solution,
    only_array,
    unless_irregular,
)


class Tridiagonal(AbstractLinearSolver):
    r"""Tridiagonal matrix, for unknowns of shape (..., n):

    $$l_i x_{i-1} + d_i x_i + u_i x_{i+1} = b_i .$$

    ```python
    def bratu(u, strength):  # u'' + λ eᵘ = 0 between walls, in 100 points
        laplacian = jnp.convolve(u, jnp.array([1.0, -2.0, 1.0]), "same")
        return laplacian + strength * jnp.exp(u) / 101**2

    adjoint = implicit.ImplicitAdjoint(implicit.Tridiagonal())
    implicit.root(bratu, jnp.zeros(100), 1.0, adjoint=adjoint)
    ```

    Diffusion in one dimension, for instance; leading axes are systems of their own. The
    diagonals are read off three products with the operator, and each solve is one
    elimination with pivots in O(n), LAPACK's or the GPU library's.
    """

    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        del hint
        array = only_array(y, "Tridiagonal()", "n")
        bands = read_bands(operator, y, array, 1, 1)
        return transpose_bands(bands, 1, 1)[0] if transposed else bands

    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        del operator
        return direct_solution(jax.tree.map(lambda a: solve_tridiagonal(state, a), b))

    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        return self.solve(transpose_bands(state, 1, 1)[0], transposed, b)

    def verify_structure(
        self,
        state: Any,
        operator: Operator,
        y: PyTree[Array],
        *,
        transposed: bool = False,
    ) -> PyTree:
        bands = transpose_bands(state, 1, 1)[0] if transposed else state

        def product(v):
            return jax.tree.map(lambda a: multiply_banded(bands, a), v)

        return unless_irregular(product, state, operator, y)
