"""Boundary conditions of cell-centered velocities."""

from typing import Any

import equinox as eqx
from jaxtyping import Array

from .._boundaries import (
    AbstractBoundary,
    Dirichlet,
    Extrapolation,
    Periodic,
    SignedReflection,
)
from .._domain import Domain
from .._grid import Grid
from ._walls import FreeSlip, Side, Sides, is_open, velocity_at


def cell_center_domain(grid: Grid, walls: Sides) -> Domain:
    """The grid, with a boundary for all components at once on every side."""
    pairs = enumerate(walls)
    return Domain(grid, tuple(tuple(_side(s, i, grid) for s in p) for i, p in pairs))


def _side(side: Side, axis: int, grid: Grid) -> AbstractBoundary:
    if isinstance(side, Periodic):
        return side
    if is_open(side):
        return Extrapolation()
    if isinstance(side, FreeSlip):
        return SignedReflection(tuple(i == axis for i in range(grid.ndim)))
    return Dirichlet(eqx.Partial(_velocity, side, axis))


def _velocity(side: Side, axis: int, t: Any, x: Array) -> Array:
    return velocity_at(side, axis, t, x)
