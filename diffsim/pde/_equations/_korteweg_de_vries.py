"""The Korteweg–de Vries equation."""

from typing import ClassVar

from jaxtyping import Array

from ..._checks import as_floating
from ..._types import Numbers
from ._base import AbstractSpectral
from ._convection import of_squares


class KortewegDeVries(AbstractSpectral):
    r"""$\partial_t u = -a\,u\,\partial_x u - b\,\partial_x^3 u$ in one dimension.

    Waves on shallow water. What steepens also disperses, and solitons travel through
    one another unchanged: for a = 6, b = 1 they are
    $2\kappa^2\,\mathrm{sech}^2(\kappa(x - 4\kappa^2 t))$. Mass and $\int u^2$ stay.

    **Arguments**

    - `advection`: a, 1 / time where u is a length; `dispersion`: b, length³ / time.

    **Good values:** six cells a width 1/κ; `ETDRK4`, whose steps are not bounded by the
    dispersion, with steps of Δx / max|a u|.
    """

    advection: Array
    dispersion: Array

    references: ClassVar[tuple[str, ...]] = ("10.1080/14786449508620739",)

    def __init__(self, advection: Numbers = 6.0, dispersion: Numbers = 1.0):
        self.advection = as_floating("advection", advection)
        self.dispersion = as_floating("dispersion", dispersion)

    def channels(self, ndim):
        if ndim != 1:
            raise ValueError(f"KortewegDeVries has one dimension, got {ndim}")
        return 1

    @property
    def degree(self):
        return 2

    def symbol(self, modes):
        return -self.dispersion * modes.derivative(0, 3)

    def nonlinear(self, t, z, modes):
        del t
        return of_squares(-0.5 * self.advection, z, modes)
