"""The equations."""

from ._advection_diffusion import AdvectionDiffusion
from ._base import AbstractEquation, AbstractFiniteVolume
from ._burgers import Burgers
from ._conservation import AbstractConservationLaw, transport
from ._diffusion import Diffusion
from ._euler import Euler
from ._shallow_water import ShallowWater


__all__ = [
    "AbstractConservationLaw",
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AdvectionDiffusion",
    "Burgers",
    "Diffusion",
    "Euler",
    "ShallowWater",
    "transport",
]
