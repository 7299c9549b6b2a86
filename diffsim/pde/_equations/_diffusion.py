"""Diffusion, of heat for instance."""

from typing import Any

from ..._checks import check_positive
from ..._types import Numbers
from ...implicit import CG, AbstractLinear, Krylov, Tridiagonal
from ...integrators import Kvaerno5
from ...simulations import Method
from .._domain import Domain
from .._operators import diffusion
from ._base import AbstractFiniteVolume
from ._coefficients import coefficient, evaluated


class Diffusion(AbstractFiniteVolume):
    r"""$\partial_t u = \nabla\cdot(D\,\nabla u) + s$: what is uneven evens out.

    **Arguments**

    - `diffusivity`: D, length² / time: a number, a field of the shape of the grid, or a
        function `D(t, x, u)` of fields, x of shape (axis, *grid) and u (*grid), for a
        nonlinear one; any `eqx.Module`, a neural network included.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`.

    **Good values:** 20 cells a wavelength, whose decay is then 0.8 % slow.

    **Raises:** `ValueError` for a D that is not positive.

    **Limits:** one channel (convenience). D is averaged onto faces, so that a jump of D
    costs one order there (convenience).
    """

    diffusivity: Any
    source: Any

    def __init__(self, diffusivity: Numbers | Any, source: Numbers | Any = 0.0):
        self.diffusivity = coefficient("diffusivity", diffusivity)
        self.source = coefficient("source", source)
        if not callable(diffusivity):
            hint = "negative ones make a field rougher without bound"
            check_positive("diffusivity", self.diffusivity, hint)

    def channels(self, ndim):
        del ndim
        return 1

    def rate(self, t, u, domain):
        x = domain.grid.centers.astype(u.dtype)
        spread = diffusion(u, evaluated(self.diffusivity, t, x, u[0]), domain, t)
        return spread + evaluated(self.source, t, x, u[0])

    def default_method(self, domain):
        return Method(Kvaerno5(linear=_symmetric(domain)))


def _symmetric(domain: Domain) -> AbstractLinear:
    """What solves with a symmetric matrix that couples neighbours."""
    if domain.grid.ndim == 1 and not domain.periodic(0):
        return Tridiagonal()
    return Krylov(CG())
