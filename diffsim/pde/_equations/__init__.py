"""The equations."""

from ._base import (
    AbstractEquation,
    AbstractFiniteVolume,
    AbstractSecondOrder,
    AbstractSpectral,
    AbstractSplitStep,
)
from ._cahn_hilliard import CahnHilliard
from ._diffusion import Diffusion
from ._korteweg_de_vries import KortewegDeVries
from ._kuramoto_sivashinsky import KuramotoSivashinsky
from ._navier_stokes import NavierStokes
from ._schrodinger import Schrodinger
from ._wave import Wave


__all__ = [
    "AbstractEquation",
    "AbstractFiniteVolume",
    "AbstractSecondOrder",
    "AbstractSpectral",
    "AbstractSplitStep",
    "CahnHilliard",
    "Diffusion",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "NavierStokes",
    "Schrodinger",
    "Wave",
]
