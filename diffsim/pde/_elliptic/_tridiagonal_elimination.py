"""`TridiagonalElimination`: direct solves along one axis."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree
from ._helmholtz_operator import (
    AbstractPreconditioner,
    HelmholtzOperator,
    PreparedOperator,
    coefficient_on_faces,
    operator_diagonal,
    with_refinement,
)


class TridiagonalElimination(AbstractPreconditioner):
    r"""Tridiagonal elimination: direct, for one axis and any k and α.

    $$-c_{i-1/2}\,u_{i-1} + d_i u_i - c_{i+1/2}\,u_{i+1} = b_i$$

    ```python
    rod = pde.Domain(pde.Grid(100), (pde.Dirichlet(0.0), pde.Dirichlet(1.0)))
    k = jnp.where(rod.grid.centers[0] < 0.5, 1.0, 3.0)  # of two metals
    solver = pde.TridiagonalElimination()
    pde.poisson(jnp.zeros(100), rod, coefficient=k, solver=solver)  # 3/4 in the middle
    ```

    A periodic axis has two more entries, in the corners of the matrix, for which it is
    solved twice (Sherman and Morrison).

    **Limits:** one axis, of at least 3 cells if it is periodic; ghosts that follow from
    the one cell beside them (convenience).
    """

    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        is_short_ring = system.walls[0] is None and system.shape[0] < 3
        if system.ndim != 1 or is_short_ring:
            return (
                f"TridiagonalElimination() solves along one axis, of at least 3 cells "
                f"if that is periodic, got a grid of shape {system.shape}; take "
                "FastDiagonalization() or PreconditionedKrylov()"
            )
        if exact and not system.symmetric:
            return (
                "TridiagonalElimination() needs ghosts that follow from the one cell "
                "beside them; take PreconditionedKrylov()"
            )
        return ""

    def prepare(self, system: HelmholtzOperator) -> PyTree:
        c = coefficient_on_faces(system.faces[0], 0, system.shape)
        middle = operator_diagonal(system)
        if system.sigma is not None:
            # Fields without a mean are solved for with any one cell held at zero.
            middle = middle.at[0].add(jnp.where(system.sigma > 0, middle[0], 0))
        below, above = -c[:-1].at[0].set(0), -c[1:].at[-1].set(0)
        if system.walls[0] is not None:
            return below, middle, above, None
        corner, first = -c[0], middle[0]
        middle = middle.at[0].add(first).at[-1].add(corner**2 / first)
        bands = (below, middle, above)
        column = jnp.zeros_like(middle).at[0].set(-first).at[-1].set(corner)
        row = jnp.zeros_like(middle).at[0].set(1).at[-1].set(-corner / first)
        answer = _tridiagonal(bands, column)
        return *bands, (row, answer / (1 + jnp.sum(row * answer)))

    def solve(
        self,
        prepared: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        x = with_refinement(
            lambda r: self.apply_preconditioner(prepared, r), operator, b, guess
        )
        return x, jnp.asarray(1)

    def apply_preconditioner(self, prepared: PreparedOperator, b: Array) -> Array:
        *bands, corners = prepared.state
        x = _tridiagonal(bands, b)
        if corners is None:
            return x
        row, answer = corners
        return x - answer * jnp.sum(row * x)


def _tridiagonal(bands: Any, b: Array) -> Array:
    below, middle, above = bands
    n = len(b)
    if n < 3:
        # The routine takes 3 rows or more: those of the identity are added to fewer.
        zeros = jnp.zeros(3 - n, b.dtype)
        below, above, b = (jnp.concatenate([a, zeros]) for a in (below, above, b))
        middle = jnp.concatenate([middle, zeros + 1])
    return jax.lax.linalg.tridiagonal_solve(below, middle, above, b[:, None])[:n, 0]
