"""Partial differential equations on Cartesian grids."""

from ._absorbing import absorbing_layer
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
    AbstractSecondOrder,
    AbstractSpectral,
    AbstractSplitStep,
    CahnHilliard,
    Diffusion,
    KortewegDeVries,
    KuramotoSivashinsky,
    NavierStokes,
    Schrodinger,
    Wave,
)
from ._evolution import Evolution
from ._grid import Grid
from ._modes import Modes
from ._operators import diffusion, gradient, laplacian
from ._spaces import AbstractSpace, Cells, Fourier


__all__ = [
    "AbstractBoundary",
    "AbstractElliptic",
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractSecondOrder",
    "AbstractSpace",
    "AbstractSpectral",
    "AbstractSplitStep",
    "CahnHilliard",
    "Cells",
    "Diffusion",
    "Dirichlet",
    "Domain",
    "Elimination",
    "Evolution",
    "Fourier",
    "Ghosts",
    "Grid",
    "Inflow",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "Modes",
    "Multigrid",
    "NavierStokes",
    "Neumann",
    "Outflow",
    "Periodic",
    "Preconditioned",
    "Robin",
    "Schrodinger",
    "Transforms",
    "Wave",
    "absorbing_layer",
    "diffusion",
    "gradient",
    "helmholtz",
    "laplacian",
    "poisson",
]
