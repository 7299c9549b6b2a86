"""The Cahn–Hilliard equation."""

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from ..._linalg import real_times
from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating
from .._fourier import FourierBasis
from ._equation import (
    AbstractSpectralEquation,
    add_source_transform,
    optional_coefficient,
)


class CahnHilliard(AbstractSpectralEquation):
    r"""Cahn–Hilliard equation of phase separation:

    $$\partial_t u = M\,\nabla^2(u^3 - u - \epsilon^2\nabla^2 u) + s$$

    u is −1 in one phase and 1 in the other. Waves on a mean $\bar u$ grow at
    $M k^2(1 - 3\bar u^2 - \epsilon^2 k^2)$; then there are drops and bands, interfaces
    $\tanh(x/\sqrt2\epsilon)$ between them, and the large ones eat the small ones. The
    mean stays and $\int \tfrac14(u^2 - 1)^2 + \tfrac12\epsilon^2|\nabla u|^2$ falls,
    both without s.

    ```python
    ring = pde.Grid(128, 0.0, 100.0)
    noise = 0.01 * jax.random.normal(jax.random.key(0), (128,))
    alloy = pde.Evolution(pde.CahnHilliard(1.0, interface_width=1.0), noise, ring)
    run = ds.simulate(alloy, [0.0, 200.0], ds.Method(integrators.ETDRK4(), step=0.5))
    run["u"][1]  # bands of −1 and 1, nearly
    pde.integral(run["u"], ring)  # the same at both times
    ```

    **Arguments**

    - `mobility`: M, length² / time; `interface_width`: ε, length.
    - `linearized_about`: the u about which the part that is linear in u is exact; the
        rest of u³ is stepped explicitly. A setting of the method, static: no other
        solution.
    - `source`: s, u / time: a number, a field, or a function `s(t, x, u)`, x of shape
        (axis, *grid) and u (*grid): −σ(u − ū) for blocks that are tied together. None
        is without.

    **Good values:** Δx up to ε/2. `ETDRK4` with steps of ε²/(2M): `linearized_about=0`,
    exact for small waves, loses 4e-5 of coarsening over 400 ε²/M and blows up at 0.7
    ε²/M; `linearized_about=1`, exact for small waves in either phase, loses 4e-4 and is
    stable at any step, with errors of 3e-3 at ε²/M and 7e-2 at 4 ε²/M.

    **Raises:** `ValueError` for a mobility or a width that is not positive.
    """

    mobility: Array
    interface_width: Array
    linearized_about: float = eqx.field(static=True)
    source: Any

    references: ClassVar[tuple[str, ...]] = ("10.1063/1.1744102",)
    coefficients: ClassVar[tuple[str, ...]] = ("source",)

    def __init__(
        self,
        mobility: Numbers,
        interface_width: Numbers,
        *,
        linearized_about: float = 0.0,
        source: Numbers | Any = None,
    ):
        self.mobility = as_floating("mobility", mobility)
        self.interface_width = as_floating("interface_width", interface_width)
        self.linearized_about = float(linearized_about)
        self.source = optional_coefficient("source", source)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return (
            PositiveParameter(
                "mobility", self.mobility, hint="phases would mix without bound"
            ),
            PositiveParameter(
                "interface_width",
                self.interface_width,
                hint="interfaces between phases have one",
            ),
        )

    def channels(self, ndim: int) -> int:
        del ndim
        return 1

    @property
    def nonlinearity_degree(self) -> int:
        return 3

    def symbol(self, modes: FourierBasis) -> Array:
        k2 = modes.wavenumber_squared
        slope = 3 * self.linearized_about**2 - 1
        return -self.mobility * k2 * (slope + self.interface_width**2 * k2)

    def nonlinear(self, t: Any, z: Array, modes: FourierBasis) -> Array:
        u = modes.ifft(z)
        rest = modes.fft(u**3)
        if self.linearized_about:
            rest = rest - 3 * self.linearized_about**2 * z
        rate = real_times(-self.mobility * modes.wavenumber_squared, rest)
        return add_source_transform(rate, self.source, t, z, modes)
