"""The Kuramoto–Sivashinsky equation."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._parameter_selection import cast
from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating
from .._fourier import FourierBasis
from ._coefficients import fed_in_modes, optional
from ._equation import AbstractSpectralEquation
from ._spectral_convection import convective_term, max_speeds


class KuramotoSivashinsky(AbstractSpectralEquation):
    r"""$\partial_t u = -u\,\partial_x u - a\,\partial_x^2 u - b\,\partial_x^4 u + s$.

    Flame fronts, and chaos in one dimension: waves longer than $2\pi\sqrt{b/a}$ grow
    at $a k^2 - b k^4$, hand on to shorter ones, and those decay. With `potential` the
    height of the front,
    $\partial_t u = -\tfrac12|\nabla u|^2 - a\nabla^2 u - b\nabla^4 u + s$, in any
    number of dimensions; its mean falls where s does not lift it.

    **Arguments**

    - `growth`: a, length² / time; `decay`: b, length⁴ / time.
    - `potential`: whether u is the height and not its slope.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`, x of
        shape (axis, *grid) and u (*grid). None is without.

    **Good values:** lengths above 22 (a = b = 1) for chaos, two cells a unit of length,
    `ETDRK4` with steps of 0.05 to 0.25; Lyapunov time 20.

    **Raises:** `ValueError` for a negative b.
    """

    growth: Array
    decay: Array
    potential: bool = eqx.field(static=True)
    source: Any

    references: ClassVar[tuple[str, ...]] = (
        "10.1143/PTP.55.356",
        "10.1016/0094-5765(77)90096-0",
    )
    coefficients: ClassVar[tuple[str, ...]] = ("source",)

    def __init__(
        self,
        growth: Numbers = 1.0,
        decay: Numbers = 1.0,
        *,
        potential: bool = False,
        source: Numbers | Any = None,
    ):
        self.growth = as_floating("growth", growth)
        self.decay = as_floating("decay", decay)
        self.potential = potential
        self.source = optional("source", source)

    def signs(self):
        hint = "negative ones make the shortest waves grow without bound"
        return (PositiveParameter("decay", self.decay, True, hint),)

    def channels(self, ndim):
        if ndim > 1 and not self.potential:
            raise ValueError(
                f"KuramotoSivashinsky of slopes has one dimension, got {ndim}; take "
                "KuramotoSivashinsky(potential=True)"
            )
        return 1

    @property
    def degree(self):
        return 2

    def symbol(self, modes):
        k2 = modes.squared
        return self.growth * k2 - self.decay * k2**2

    def fastest(self, t, u, domain):
        del t
        if self.potential:
            modes = FourierBasis(cast(domain.grid, u.dtype))
            u = modes.backward(modes.gradient(modes.forward(u))[:, 0])
        return max_speeds(u, domain)

    def nonlinear(self, t, z, modes):
        if self.potential:
            slopes = modes.backward(modes.gradient(z))
            rate = -0.5 * modes.forward(jnp.sum(slopes**2, axis=0))
        else:
            rate = convective_term(-0.5, z, modes)
        return fed_in_modes(rate, self.source, t, z, modes)
