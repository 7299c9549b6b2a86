"""Partial differential equations on Cartesian grids."""

from ._absorbing import (
    absorbing_layer,
)
from ._advection import (
    advection,
)
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
from ._cfl import (
    CFL,
    largest_step,
)
from ._domain import (
    Domain,
)
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
    AbstractConservationLaw,
    AbstractEquation,
    AbstractFiniteVolume,
    AbstractImplicit,
    AbstractReactionDiffusion,
    AbstractSecondOrder,
    AbstractSpectral,
    AbstractSplitStep,
    AdvectionDiffusion,
    AllenCahn,
    Burgers,
    CahnHilliard,
    Diffusion,
    Euler,
    FisherKPP,
    GrayScott,
    KortewegDeVries,
    KuramotoSivashinsky,
    NavierStokes,
    Schrodinger,
    ShallowWater,
    Wave,
    transport,
)
from ._evolution import (
    Evolution,
)
from ._grid import (
    Grid,
)
from ._modes import (
    Modes,
)
from ._operators import (
    diffusion,
    gradient,
    laplacian,
)
from ._riemann import (
    HLL,
    HLLC,
    AbstractRiemann,
    Rusanov,
)
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
from ._spaces import (
    AbstractSpace,
    Cells,
    Fourier,
)
from ._vector import (
    curl,
    divergence,
)


__all__ = [
    "CFL",
    "HLL",
    "HLLC",
    "MUSCL",
    "WENO5",
    "AbstractBoundary",
    "AbstractConservationLaw",
    "AbstractElliptic",
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractImplicit",
    "AbstractReactionDiffusion",
    "AbstractRiemann",
    "AbstractScheme",
    "AbstractSecondOrder",
    "AbstractSpace",
    "AbstractSpectral",
    "AbstractSplitStep",
    "AdvectionDiffusion",
    "AllenCahn",
    "Burgers",
    "CahnHilliard",
    "Cells",
    "Central",
    "Diffusion",
    "Dirichlet",
    "Domain",
    "Elimination",
    "Euler",
    "Evolution",
    "FisherKPP",
    "Fourier",
    "Ghosts",
    "GrayScott",
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
    "Rusanov",
    "Schrodinger",
    "ShallowWater",
    "Transforms",
    "Upwind",
    "Wall",
    "Wave",
    "absorbing_layer",
    "advection",
    "curl",
    "diffusion",
    "divergence",
    "gradient",
    "helmholtz",
    "laplacian",
    "largest_step",
    "minmod",
    "poisson",
    "transport",
    "van_albada",
    "van_leer",
]
