"""`AbstractNavierStokes`: incompressible flow in a periodic box."""

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from ..._validation import PositiveParameter, as_floating
from .._fourier import FourierBasis
from ._equation import AbstractSpectralEquation, optional_coefficient


class AbstractNavierStokes(AbstractSpectralEquation):
    r"""Navier–Stokes equations in a periodic box, by vorticity or velocity."""

    viscosity: eqx.AbstractVar[Array]
    forcing: eqx.AbstractVar[Any]
    drag: eqx.AbstractVar[Array]

    coefficients: ClassVar[tuple[str, ...]] = ("forcing",)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        hint = "without friction waves as short as the grid would pile up"
        return (PositiveParameter("viscosity", self.viscosity, hint=hint),)

    @property
    def nonlinearity_degree(self) -> int:
        return 2

    def symbol(self, modes: FourierBasis) -> Array:
        return -self.viscosity * modes.wavenumber_squared - self.drag


def navier_stokes_parameters(
    viscosity: Any, forcing: Any, drag: Any
) -> tuple[Array, Any, Array]:
    """Validate the arguments that both forms take."""
    return (
        as_floating("viscosity", viscosity),
        optional_coefficient("forcing", forcing),
        as_floating("drag", drag),
    )
