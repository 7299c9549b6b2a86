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
from ._elliptic import (
    AbstractElliptic,
    Elimination,
    Multigrid,
    Preconditioned,
    Transforms,
    helmholtz,
    poisson,
)
from ._equations import (
    AbstractEquation,
    AbstractFiniteVolume,
    AbstractSpectral,
    Diffusion,
    KortewegDeVries,
    KuramotoSivashinsky,
    NavierStokes,
)
from ._evolution import Evolution
from ._flow import Ball, FreeSlip, IncompressibleFlow, NoSlip, Obstacle
from ._grid import Grid
from ._modes import Modes
from ._operators import diffusion, gradient, laplacian
from ._spaces import AbstractSpace, Cells, Fourier


__all__ = [
    "AbstractBoundary",
    "AbstractElliptic",
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractSpace",
    "AbstractSpectral",
    "Ball",
    "Cells",
    "Diffusion",
    "Dirichlet",
    "Domain",
    "Elimination",
    "Evolution",
    "Fourier",
    "FreeSlip",
    "Ghosts",
    "Grid",
    "IncompressibleFlow",
    "Inflow",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "Modes",
    "Multigrid",
    "NavierStokes",
    "Neumann",
    "NoSlip",
    "Obstacle",
    "Outflow",
    "Periodic",
    "Preconditioned",
    "Robin",
    "Transforms",
    "diffusion",
    "gradient",
    "helmholtz",
    "laplacian",
    "poisson",
]
