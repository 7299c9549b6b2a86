"""Boundary conditions."""

from ._boundary import AbstractBoundary, AbstractGhostCellBoundary, GhostCells, Periodic
from ._inflow_outflow import Extrapolation, Inflow, Outflow
from ._per_side import boundaries_per_side
from ._reflecting import ReflectingWall, SignedReflection
from ._robin import Dirichlet, Neumann, Robin


__all__ = [
    "AbstractBoundary",
    "AbstractGhostCellBoundary",
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
    "boundaries_per_side",
]
