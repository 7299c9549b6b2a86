"""Open boundaries: inflow and outflow."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Numbers
from ._boundary import (
    AbstractGhostCellBoundary,
    GhostCells,
    constant_extrapolation,
    evaluate_prescribed,
    prescribed_value,
)


class Inflow(AbstractGhostCellBoundary):
    """Inflow: the state outside is known, as hyperbolic equations take it in.

    **Arguments:** `value` as for `Dirichlet`; it is the value of the ghost cells.

    **Limits:** of order one beside the boundary, whatever the scheme (convenience);
    where the field is smooth and known, `Dirichlet` has the order of the scheme.
    """

    value: Any

    def __init__(self, value: Numbers | Any):
        self.value = prescribed_value("value", value)

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        del order
        return GhostCells(
            jnp.zeros((width, 1), spacing.dtype), jnp.ones(width, spacing.dtype)
        )

    def at(self, t: Array, x: Array) -> Array:
        return evaluate_prescribed(self.value, t, x)


class Extrapolation(AbstractGhostCellBoundary):
    """Extrapolation by the polynomial through `order` cells, for what obeys nothing."""

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        nothing = jnp.zeros(width, spacing.dtype)
        return GhostCells(constant_extrapolation(spacing.dtype, width, order), nothing)

    def at(self, t: Array, x: Array) -> Array:
        del t
        return jnp.zeros((), x.dtype)


class Outflow(AbstractGhostCellBoundary):
    """Outflow: the state outside is that of the last cell, so that waves leave.

    **Limits:** of order one at the boundary (mathematics: nothing is known outside).
    """

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        del order
        return GhostCells(
            jnp.ones((width, 1), spacing.dtype), jnp.zeros(width, spacing.dtype)
        )

    def at(self, t: Array, x: Array) -> Array:
        del t
        return jnp.zeros((), x.dtype)
