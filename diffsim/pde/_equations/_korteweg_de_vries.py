"""The Korteweg–de Vries equation."""

from typing import Any, ClassVar

from jaxtyping import Array

from ..._types import Numbers
from ..._validation import as_floating
from .._domain import Domain
from .._fourier import FourierBasis
from ._equation import (
    AbstractSpectralEquation,
    add_source_transform,
    optional_coefficient,
)
from ._spectral_convection import convective_term, max_speeds


class KortewegDeVries(AbstractSpectralEquation):
    r"""Korteweg–de Vries equation, in one dimension:

    $$\partial_t u = -a\,u\,\partial_x u - b\,\partial_x^3 u + s$$

    Waves on shallow water. What steepens also disperses, and solitons travel through
    one another unchanged: for a = 6, b = 1 they are
    $2\kappa^2\,\mathrm{sech}^2(\kappa(x - 4\kappa^2 t))$. Mass and $\int u^2$ stay.

    ```python
    def soliton(x):
        return 2 / jnp.cosh(x[0] - 10) ** 2  # κ = 1, of speed 4

    ring = pde.Grid(128, 0.0, 20.0)
    water = pde.Evolution(pde.KortewegDeVries(), soliton, ring)
    run = ds.simulate(water, [0.0, 5.0], ds.Method(integrators.ETDRK4(), step=0.005))
    jnp.max(jnp.abs(jnp.diff(run["u"], axis=0)))  # 8e-5: once around, unchanged
    ```

    **Arguments**

    - `advection`: a, 1 / time where u is a length; `dispersion`: b, length³ / time.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`, x of
        shape (axis, *grid) and u (*grid). None is without.

    **Good values:** six cells a width 1/κ; `ETDRK4`, whose steps are not bounded by the
    dispersion, with steps of 0.25 Δx / max|a u|: a soliton loses 3e-5 of $\int u^2$, or
    of `pde.energy`, in 10⁵ of them. At 0.35 short waves grow in so many steps, at 1
    within a few hundred; `simulate` warns of it.
    """

    advection: Array
    dispersion: Array
    source: Any

    references: ClassVar[tuple[str, ...]] = ("10.1080/14786449508620739",)
    coefficients: ClassVar[tuple[str, ...]] = ("source",)

    def __init__(
        self,
        advection: Numbers = 6.0,
        dispersion: Numbers = 1.0,
        *,
        source: Numbers | Any = None,
    ):
        self.advection = as_floating("advection", advection)
        self.dispersion = as_floating("dispersion", dispersion)
        self.source = optional_coefficient("source", source)

    def channels(self, ndim: int) -> int:
        if ndim != 1:
            raise ValueError(f"KortewegDeVries has one dimension, got {ndim}")
        return 1

    @property
    def nonlinearity_degree(self) -> int:
        return 2

    def symbol(self, modes: FourierBasis) -> Array:
        return -self.dispersion * modes.derivative(0, 3)

    def max_advection_speed(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        return max_speeds(self.advection.astype(u.dtype) * u, domain)

    def energy(self, t: Any, u: Array, domain: Domain) -> Array:
        del t, domain
        return u[0] ** 2 / 2

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        rate = convective_term(-0.5 * self.advection, z, modes)
        return add_source_transform(rate, self.source, t, z, modes)
