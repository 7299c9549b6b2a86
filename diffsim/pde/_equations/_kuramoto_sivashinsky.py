"""The Kuramoto–Sivashinsky equation."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._parameter_selection import cast
from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating
from .._domain import Domain
from .._fourier import FourierBasis
from ._equation import (
    AbstractSpectralEquation,
    add_source_transform,
    optional_coefficient,
)
from ._spectral_convection import convective_term, max_speeds


class KuramotoSivashinsky(AbstractSpectralEquation):
    r"""Kuramoto–Sivashinsky equation:

    $$\partial_t u = -u\,\partial_x u - a\,\partial_x^2 u - b\,\partial_x^4 u + s$$

    Flame fronts, and chaos in one dimension: waves longer than $2\pi\sqrt{b/a}$ grow
    at $a k^2 - b k^4$, hand on to shorter ones, and those decay. With `potential` the
    height of the front,
    $\partial_t u = -\tfrac12|\nabla u|^2 - a\nabla^2 u - b\nabla^4 u + s$, in any
    number of dimensions; its mean falls where s does not lift it.

    ```python
    ring = pde.Grid(128, 0.0, 64.0)
    start = jnp.cos(2 * np.pi * ring.centers / 64)
    flame = pde.Evolution(pde.KuramotoSivashinsky(), start, ring)
    method = ds.Method(integrators.ETDRK4(), step=0.25)
    ds.simulate(flame, jnp.linspace(0.0, 200.0, 101), method)["u"]  # (time, x): chaos
    ```

    **Arguments**

    - `second_order_coefficient`: a, length² / time; `fourth_order_coefficient`: b,
        length⁴ / time.
    - `potential`: whether u is the height and not its slope.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`, x of
        shape (axis, *grid) and u (*grid). None is without.

    **Good values:** lengths of 60 and more (a = b = 1) for chaos, as below some
    starts settle into waves; two cells a unit of length, `ETDRK4` with steps of 0.05
    to 0.25; Lyapunov time 20.

    **Raises:** `ValueError` for a negative b.
    """

    second_order_coefficient: Array
    fourth_order_coefficient: Array
    potential: bool = eqx.field(static=True)
    source: Any

    references: ClassVar[tuple[str, ...]] = (
        "10.1143/PTP.55.356",
        "10.1016/0094-5765(77)90096-0",
    )
    coefficients: ClassVar[tuple[str, ...]] = ("source",)

    def __init__(
        self,
        second_order_coefficient: Numbers = 1.0,
        fourth_order_coefficient: Numbers = 1.0,
        *,
        potential: bool = False,
        source: Numbers | Any = None,
    ):
        self.second_order_coefficient = as_floating(
            "second_order_coefficient", second_order_coefficient
        )
        self.fourth_order_coefficient = as_floating(
            "fourth_order_coefficient", fourth_order_coefficient
        )
        self.potential = potential
        self.source = optional_coefficient("source", source)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        hint = "negative ones make the shortest waves grow without bound"
        return (
            PositiveParameter(
                "fourth_order_coefficient", self.fourth_order_coefficient, True, hint
            ),
        )

    def channels(self, ndim: int) -> int:
        if ndim > 1 and not self.potential:
            raise ValueError(
                "KuramotoSivashinsky with potential=False has one dimension, got "
                f"{ndim}; take KuramotoSivashinsky(potential=True)"
            )
        return 1

    @property
    def nonlinearity_degree(self) -> int:
        return 2

    def symbol(self, modes: FourierBasis) -> Array:
        k2 = modes.wavenumber_squared
        return (
            self.second_order_coefficient * k2 - self.fourth_order_coefficient * k2**2
        )

    def max_advection_speed(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        if self.potential:
            modes = FourierBasis(cast(domain.grid, u.dtype))
            u = modes.ifft(modes.gradient(modes.fft(u))[:, 0])
        return max_speeds(u, domain)

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        if self.potential:
            slopes = modes.ifft(modes.gradient(z))
            rate = -0.5 * modes.fft(jnp.sum(slopes**2, axis=0))
        else:
            rate = convective_term(-0.5, z, modes)
        return add_source_transform(rate, self.source, t, z, modes)
