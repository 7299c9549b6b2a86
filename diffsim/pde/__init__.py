"""Partial differential equations on Cartesian grids."""

from ._advection import advection
from ._boundaries import (
    AbstractBoundary,
    Dirichlet,
    Ghosts,
    Inflow,
    Neumann,
    Outflow,
    Periodic,
    Robin,
    Wall,
)
from ._cfl import CFL, largest_step
from ._domain import Domain
from ._equations import (
    AbstractConservationLaw,
    AbstractEquation,
    AbstractFiniteVolume,
    AdvectionDiffusion,
    Burgers,
    Diffusion,
    Euler,
    ShallowWater,
    transport,
)
from ._evolution import Evolution
from ._grid import Grid
from ._operators import diffusion, gradient, laplacian
from ._riemann import HLL, HLLC, AbstractRiemann, Rusanov
from ._schemes import (
    MUSCL,
    WENO5,
    AbstractScheme,
    Central,
    Upwind,
    minmod,
    van_albada,
    van_leer,
)
from ._vector import curl, divergence


__all__ = [
    "CFL",
    "HLL",
    "HLLC",
    "MUSCL",
    "WENO5",
    "AbstractBoundary",
    "AbstractConservationLaw",
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractRiemann",
    "AbstractScheme",
    "AdvectionDiffusion",
    "Burgers",
    "Central",
    "Diffusion",
    "Dirichlet",
    "Domain",
    "Euler",
    "Evolution",
    "Ghosts",
    "Grid",
    "Inflow",
    "Neumann",
    "Outflow",
    "Periodic",
    "Robin",
    "Rusanov",
    "ShallowWater",
    "Upwind",
    "Wall",
    "advection",
    "curl",
    "diffusion",
    "divergence",
    "gradient",
    "laplacian",
    "largest_step",
    "minmod",
    "transport",
    "van_albada",
    "van_leer",
]
