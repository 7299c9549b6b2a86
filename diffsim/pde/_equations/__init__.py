"""The equations."""

from ._advection_diffusion import AdvectionDiffusion
from ._allen_cahn import AllenCahn
from ._burgers import Burgers
from ._cahn_hilliard import CahnHilliard
from ._conservation_law import (
    AbstractConservationLaw,
    check_positive_boundary,
    flux_divergence,
)
from ._diffusion import AbstractReactionDiffusion, Diffusion
from ._equation import (
    AbstractEquation,
    AbstractFiniteVolumeEquation,
    AbstractIMEXEquation,
    AbstractSecondOrderInTime,
    AbstractSpectralEquation,
    AbstractSplitStepEquation,
    check_coefficients,
)
from ._euler import Euler
from ._fisher_kpp import FisherKPP
from ._gray_scott import GrayScott
from ._korteweg_de_vries import KortewegDeVries
from ._kuramoto_sivashinsky import KuramotoSivashinsky
from ._navier_stokes_velocity import NavierStokesVelocity
from ._navier_stokes_vorticity import NavierStokesVorticity
from ._schrodinger import Schrodinger
from ._shallow_water import ShallowWater
from ._spectral_convection import AbstractNavierStokes
from ._wave import Wave


__all__ = [
    "AbstractConservationLaw",
    "AbstractEquation",
    "AbstractFiniteVolumeEquation",
    "AbstractIMEXEquation",
    "AbstractNavierStokes",
    "AbstractReactionDiffusion",
    "AbstractSecondOrderInTime",
    "AbstractSpectralEquation",
    "AbstractSplitStepEquation",
    "AdvectionDiffusion",
    "AllenCahn",
    "Burgers",
    "CahnHilliard",
    "Diffusion",
    "Euler",
    "FisherKPP",
    "GrayScott",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "NavierStokesVelocity",
    "NavierStokesVorticity",
    "Schrodinger",
    "ShallowWater",
    "Wave",
    "check_coefficients",
    "check_positive_boundary",
    "flux_divergence",
]
