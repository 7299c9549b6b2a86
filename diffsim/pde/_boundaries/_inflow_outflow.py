"""Open boundaries: inflow and outflow."""

from typing import Any

import jax.numpy as jnp

from ..._types import Numbers
from ._boundary import (
    AbstractGhostCellBoundary,
    GhostCells,
    constant_extrapolation,
    evaluate_prescribed,
    prescribed_value,
)


class Inflow(AbstractGhostCellBoundary):
    """The state outside is known: what hyperbolic equations take in.

    **Arguments:** `value` as for `Dirichlet`; it is the value of the ghost cells.

    **Limits:** of order one beside the wall, whatever the scheme (convenience); where
    the field is smooth and known, `Dirichlet` has the order of the scheme.
    """

    value: Any

    def __init__(self, value: Numbers | Any):
        self.value = prescribed_value("value", value)

    def ghosts(self, spacing, width, order):
        del order
        return GhostCells(
            jnp.zeros((width, 1), spacing.dtype), jnp.ones(width, spacing.dtype)
        )

    def at(self, t, x):
        return evaluate_prescribed(self.value, t, x)


class Extrapolation(AbstractGhostCellBoundary):
    """On the polynomial through `order` cells: what obeys nothing at the wall."""

    def ghosts(self, spacing, width, order):
        nothing = jnp.zeros(width, spacing.dtype)
        return GhostCells(constant_extrapolation(spacing.dtype, width, order), nothing)

    def at(self, t, x):
        del t
        return jnp.zeros((), x.dtype)


class Outflow(AbstractGhostCellBoundary):
    """The state outside is that of the last cell: what comes leaves, waves included.

    **Limits:** of order one at the wall (mathematics: nothing is known outside).
    """

    def ghosts(self, spacing, width, order):
        del order
        return GhostCells(
            jnp.ones((width, 1), spacing.dtype), jnp.zeros(width, spacing.dtype)
        )

    def at(self, t, x):
        del t
        return jnp.zeros((), x.dtype)
