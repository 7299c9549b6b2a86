"""The equations."""

from ._advection_diffusion import AdvectionDiffusion
from ._allen_cahn import AllenCahn
from ._base import (
    AbstractEquation,
    AbstractFiniteVolume,
    AbstractImplicit,
    AbstractSpectral,
)
from ._burgers import Burgers
from ._conservation import AbstractConservationLaw, transport
from ._diffusion import Diffusion
from ._euler import Euler
from ._fisher_kpp import FisherKPP
from ._gray_scott import GrayScott
from ._korteweg_de_vries import KortewegDeVries
from ._kuramoto_sivashinsky import KuramotoSivashinsky
from ._navier_stokes import NavierStokes
from ._reaction_diffusion import AbstractReactionDiffusion
from ._shallow_water import ShallowWater


__all__ = [
    "AbstractConservationLaw",
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractImplicit",
    "AbstractReactionDiffusion",
    "AbstractSpectral",
    "AdvectionDiffusion",
    "AllenCahn",
    "Burgers",
    "Diffusion",
    "Euler",
    "FisherKPP",
    "GrayScott",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "NavierStokes",
    "ShallowWater",
    "transport",
]
