"""`AbstractNavierStokes`: incompressible flow in a periodic box."""

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from ..._validation import PositiveParameter
from .._fourier import FourierBasis
from ._equation import AbstractSpectralEquation


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
