"""Cell-centered finite volumes: reconstruction, Riemann solvers and operators."""

from ._advection import advection, checked_velocity
from ._central import Central
from ._hll import HLL
from ._hllc import HLLC
from ._limiters import minmod, van_albada, van_leer
from ._muscl import MUSCL
from ._operators import (
    diffusion,
    diffusion_flux_divergence,
    gradient,
    laplacian,
    values_on_faces,
)
from ._reconstruction import AbstractReconstruction, both_sides
from ._riemann_solver import AbstractRiemannSolver, Channels
from ._rusanov import Rusanov
from ._upwind import Upwind
from ._vector_calculus import curl, curl_of, divergence
from ._weno import WENO5


__all__ = [
    "HLL",
    "HLLC",
    "MUSCL",
    "WENO5",
    "AbstractReconstruction",
    "AbstractRiemannSolver",
    "Central",
    "Channels",
    "Rusanov",
    "Upwind",
    "advection",
    "both_sides",
    "checked_velocity",
    "curl",
    "curl_of",
    "diffusion",
    "diffusion_flux_divergence",
    "divergence",
    "gradient",
    "laplacian",
    "minmod",
    "values_on_faces",
    "van_albada",
    "van_leer",
]
