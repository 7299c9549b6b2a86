"""The heat equation."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import PositiveParameter
from .._finite_volume import check_face_mean
from ._coefficients import (
    add_source,
    diffusivity_coefficient,
    optional_coefficient,
    positive_diffusivities,
)
from ._reaction_diffusion import AbstractReactionDiffusion


class Diffusion(AbstractReactionDiffusion):
    r"""Heat equation, $\partial_t u = \nabla\cdot(D\,\nabla u) + s$.

    ```python
    rod = pde.Grid(50)
    x = rod.centers[0]
    D = jnp.where(x < 0.5, 0.1, 0.3)  # two metals, and a flame below the first
    law = pde.Diffusion(D, source=lambda t, x, u: jnp.exp(-50 * (x[0] - 0.3) ** 2))
    hot = pde.Evolution(law, jnp.zeros(50), rod, pde.Dirichlet(0.0))
    ds.simulate(hot, [0.5, 1.0])["u"]

    melting = pde.Diffusion(lambda t, x, u: 0.1 + 0.2 * u**2)  # nonlinear
    ```

    **Arguments**

    - `diffusivity`: D, length² / time: a number, a field of the shape of the grid, a
        tuple of fields on the faces across each axis, or a function `D(t, x, u)` of
        fields, x of shape (axis, *grid) and u (*grid), for a nonlinear one; any
        `eqx.Module` called so, such as one with a network.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`. None is
        none, and then solvers that are implicit throughout, `Kvaerno5` say, serve too.
    - `face_mean`: of D in both cells beside a face, as of `pde.diffusion`; None is
        `"harmonic"`, and `"arithmetic"` of a function that reads u.

    **Good values:** 20 cells a wavelength, whose decay is then 0.8 % slow.

    **Raises:** `ValueError` for a D that is not positive.

    **Limits:** one channel (convenience). A jump of D within a cell or at an angle to
    the faces costs one order there (convenience); in Fourier space D is a number. A D
    on a line between boundaries that looks further than the cells beside its own has
    NaN for gradients through implicit steps, which take their matrix for one of three
    bands (convenience: `Heun` and `SSPRK3` have them).
    """

    diffusivity: Any
    source: Any
    face_mean: str | None = eqx.field(static=True)

    coefficients: ClassVar[tuple[str, ...]] = ("diffusivity", "source")

    def __init__(
        self,
        diffusivity: Numbers | Any,
        source: Numbers | Any = None,
        *,
        face_mean: str | None = None,
    ):
        self.diffusivity = diffusivity_coefficient("diffusivity", diffusivity)
        self.source = optional_coefficient("source", source)
        if face_mean is not None:
            check_face_mean(face_mean)
        self.face_mean = face_mean

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("diffusivity", self.diffusivity)

    @property
    def nonlinearity_degree(self) -> int:
        return 1

    @property
    def diffusivities(self) -> tuple[Any, ...]:
        return (self.diffusivity,)

    def reaction(self, t: Any, x: Array, u: Array) -> Array | None:
        if self.source is None:
            return None
        return add_source(jnp.zeros_like(u), self.source, t, x, u)
