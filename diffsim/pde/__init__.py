"""Partial differential equations on Cartesian grids."""

from ._boundaries import (
    AbstractBoundary,
    Dirichlet,
    Ghosts,
    Inflow,
    Neumann,
    Outflow,
    Periodic,
    Robin,
)
from ._domain import Domain
from ._equations import AbstractEquation, Diffusion
from ._evolution import Evolution
from ._grid import Grid
from ._operators import diffusion, gradient, laplacian


__all__ = [
    "AbstractBoundary",
    "AbstractEquation",
    "Diffusion",
    "Dirichlet",
    "Domain",
    "Evolution",
    "Ghosts",
    "Grid",
    "Inflow",
    "Neumann",
    "Outflow",
    "Periodic",
    "Robin",
    "diffusion",
    "gradient",
    "laplacian",
]
