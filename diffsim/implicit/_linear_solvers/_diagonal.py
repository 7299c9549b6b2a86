"""Diagonal systems: many scalar equations at once."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from ._linear_solver import (
    AbstractLinearSolver,
    Operator,
    Solved,
    direct_solution,
    unless_singular,
)


class Diagonal(AbstractLinearSolver):
    r"""Diagonal matrix, $A_{ij} = 0$ for $i \ne j$: equations of one unknown each.

    ```python
    def balance(y, heating):  # bodies that are heated and radiate, each for itself
        return heating + 0.1 * y - y**4

    heating = jnp.linspace(1.0, 2.0, 1000)
    adjoint = implicit.ImplicitAdjoint(implicit.Diagonal())
    implicit.root(balance, jnp.ones(1000), heating, adjoint=adjoint)
    ```

    The diagonal is $A\,(1, 1, \ldots)$, one product for any number of unknowns, and a
    solve is a division. A zero gives NaN there and leaves the others alone.

    An equation that does depend on another unknown gives NaN.
    """

    def prepare(
        self,
        operator: Operator,
        y: PyTree[Array],
        hint: Any = None,
        *,
        transposed: bool = False,
    ) -> PyTree:
        del hint, transposed
        return jax.tree.map(
            lambda d: 1 / jnp.where(d == 0, jnp.nan, d),
            operator(jax.tree.map(jnp.ones_like, y)),
        )

    def solve(self, state: Any, operator: Operator, b: PyTree[Array]) -> Solved:
        del operator
        return direct_solution(jax.tree.map(jnp.multiply, state, b))

    def solve_transpose(
        self, state: Any, transposed: Operator, b: PyTree[Array]
    ) -> Solved:
        return self.solve(state, transposed, b)

    def verify_structure(
        self,
        state: Any,
        operator: Operator,
        y: PyTree[Array],
        *,
        transposed: bool = False,
    ) -> PyTree:
        return unless_singular(self, state, operator, y, transposed=transposed)
