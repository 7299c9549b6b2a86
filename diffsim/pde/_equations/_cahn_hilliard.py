"""The Cahn–Hilliard equation."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array

from ..._checks import as_floating, check_positive
from ..._products import scaled
from ..._types import Numbers
from ._base import AbstractSpectral


class CahnHilliard(AbstractSpectral):
    r"""$\partial_t u = M\,\nabla^2(u^3 - u - \epsilon^2\nabla^2 u)$: a mixture comes
    apart.

    u is −1 in one phase and 1 in the other. Waves on a mean $\bar u$ grow at
    $M k^2(1 - 3\bar u^2 - \epsilon^2 k^2)$; then there are drops and bands with walls
    $\tanh(x/\sqrt2\epsilon)$ between them, and the large ones eat the small ones. The
    mean stays, and $\int \tfrac14(u^2 - 1)^2 + \tfrac12\epsilon^2|\nabla u|^2$ falls.

    **Arguments**

    - `mobility`: M, length² / time; `width`: ε, length.
    - `about`: the u about which the part that is linear in u is exact; the rest of u³
        is stepped explicitly. A setting of the method, static: no other solution.

    **Good values:** Δx up to ε/2. `ETDRK4` with steps of ε²/(2M): `about=0`, exact for
    small waves, loses 4e-5 of coarsening over 400 ε²/M and blows up at 0.7 ε²/M;
    `about=1`, exact for small waves in either phase, loses 4e-4 and is stable at any
    step, with errors of 3e-3 at ε²/M and 7e-2 at 4 ε²/M.

    **Raises:** `ValueError` for a mobility or a width that is not positive.
    """

    mobility: Array
    width: Array
    about: float = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = ("10.1063/1.1744102",)

    def __init__(self, mobility: Numbers, width: Numbers, *, about: float = 0.0):
        self.mobility = as_floating("mobility", mobility)
        self.width = as_floating("width", width)
        check_positive("mobility", self.mobility, "phases would mix without bound")
        check_positive("width", self.width, "walls between phases have one")
        self.about = float(about)

    def channels(self, ndim):
        del ndim
        return 1

    @property
    def degree(self):
        return 3

    def symbol(self, modes):
        k2 = modes.squared
        slope = 3 * self.about**2 - 1
        return -self.mobility * k2 * (slope + self.width**2 * k2)

    def nonlinear(self, t, z, modes):
        del t
        u = modes.backward(z)
        rest = modes.forward(u**3)
        if self.about:
            rest = rest - 3 * self.about**2 * z
        return scaled(-self.mobility * modes.squared, rest)
