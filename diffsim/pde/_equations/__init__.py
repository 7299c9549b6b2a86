"""The equations."""

from ._allen_cahn import AllenCahn
from ._base import (
    AbstractEquation,
    AbstractFiniteVolume,
    AbstractImplicit,
    AbstractSpectral,
)
from ._diffusion import Diffusion
from ._fisher_kpp import FisherKPP
from ._gray_scott import GrayScott
from ._korteweg_de_vries import KortewegDeVries
from ._kuramoto_sivashinsky import KuramotoSivashinsky
from ._navier_stokes import NavierStokes
from ._reaction_diffusion import AbstractReactionDiffusion


__all__ = [
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractImplicit",
    "AbstractReactionDiffusion",
    "AbstractSpectral",
    "AllenCahn",
    "Diffusion",
    "FisherKPP",
    "GrayScott",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "NavierStokes",
]
