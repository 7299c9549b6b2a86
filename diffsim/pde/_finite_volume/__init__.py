"""Cell-centered finite volumes: reconstruction, Riemann solvers and operators."""

from ._advection import advection, validate_velocity
from ._limiters import below_zero, minmod, van_albada, van_leer
from ._muscl import MUSCL
from ._operators import (
    FACE_MEANS,
    curl,
    curl_of,
    diffusion,
    diffusion_flux_divergence,
    diffusion_term_of_order,
    diffusive_courant_rate,
    divergence,
    gradient,
    laplacian,
    shapes_on_faces,
    values_on_faces,
)
from ._reconstruction import AbstractReconstruction, reconstruct_both_sides
from ._riemann_solver import HLL, HLLC, AbstractRiemannSolver, Channels, Rusanov
from ._upwind_central import Central, Upwind
from ._weno import WENO5


__all__ = [
    "FACE_MEANS",
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
    "below_zero",
    "curl",
    "curl_of",
    "diffusion",
    "diffusion_flux_divergence",
    "diffusion_term_of_order",
    "diffusive_courant_rate",
    "divergence",
    "gradient",
    "laplacian",
    "minmod",
    "reconstruct_both_sides",
    "shapes_on_faces",
    "validate_velocity",
    "values_on_faces",
    "van_albada",
    "van_leer",
]
