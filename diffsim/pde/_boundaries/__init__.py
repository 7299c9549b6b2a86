"""Boundary conditions."""

from ._boundary import (
    AbstractBoundary,
    AbstractGhostCellBoundary,
    GhostCells,
    Periodic,
    array_or_function,
    boundaries_per_side,
    map_sides,
)
from ._hyperbolic import (
    Extrapolation,
    Inflow,
    Outflow,
    ReflectingWall,
    SignedReflection,
)
from ._robin import AbstractSlopeBoundary, Dirichlet, Neumann, Robin


__all__ = [
    "AbstractBoundary",
    "AbstractGhostCellBoundary",
    "AbstractSlopeBoundary",
    "Dirichlet",
    "Extrapolation",
    "GhostCells",
    "Inflow",
    "Neumann",
    "Outflow",
    "Periodic",
    "ReflectingWall",
    "Robin",
    "SignedReflection",
    "array_or_function",
    "boundaries_per_side",
    "map_sides",
]
