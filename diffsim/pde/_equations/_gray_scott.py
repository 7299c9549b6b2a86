"""The Gray–Scott equations."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import PositiveParameter
from ._diffusion import AbstractReactionDiffusion
from ._equation import (
    add_source,
    coefficient,
    evaluate_coefficient,
    optional_coefficient,
    positive_diffusivities,
)


class GrayScott(AbstractReactionDiffusion):
    r"""Gray–Scott equations:

    $$\partial_t u = \nabla\cdot(D_u\nabla u) - uv^2 + F(1 - u), \quad
      \partial_t v = \nabla\cdot(D_v\nabla v) + uv^2 - (F + k)\,v$$

    A substance u that is fed and v that makes itself of it: spots that divide, stripes
    and waves, by F and k. Two channels, (u, v).

    ```python
    dish = pde.Grid((64, 64), 0.0, 0.6)
    x, y = dish.centers
    drop = jnp.exp(-(((x - 0.3) ** 2 + (y - 0.3) ** 2) / 0.002))
    start = jnp.stack([1 - drop / 2, drop / 4])
    law = pde.GrayScott(feed=0.025, kill=0.06)
    spots = pde.Evolution(law, start, dish, discretization=pde.Fourier())
    method = ds.Method(integrators.ETDRK2(), step=2.0)
    ds.simulate(spots, 1000.0, method)["v"]  # four spots, which divide again
    ```

    **Arguments**

    - `feed`: F; `kill`: k, both 1 / time: numbers, fields, or functions of (t, x, u)
        with u of shape (2, *grid).
    - `diffusivities`: $D_u$ and $D_v$, length² / time.
    - `source`: what is added to the rates: an array that broadcasts to (2, *grid) or a
        function of (t, x, u) that returns one. None is without.

    **Good values:** Pearson's 2e-5 and 1e-5 on a square of 2.5 with 256 cells along it;
    F = 0.04, k = 0.06 makes stripes, F = 0.025, k = 0.06 spots.

    **Limits:** in Fourier space a start that jumps, as Pearson's square does, rings,
    and v is negative beside it at first; smooth it over four cells, or take finite
    volumes (mathematics).
    """

    feed: Any
    kill: Any
    diffusivity_pair: tuple[Any, Any]
    source: Any

    references: ClassVar[tuple[str, ...]] = ("10.1126/science.261.5118.189",)
    coefficients: ClassVar[tuple[str, ...]] = (
        "feed",
        "kill",
        "diffusivities",
        "source",
    )

    def __init__(
        self,
        feed: Numbers | Any,
        kill: Numbers | Any,
        diffusivities: Any = (2e-5, 1e-5),
        *,
        source: Numbers | Any = None,
    ):
        self.feed = coefficient("feed", feed)
        self.kill = coefficient("kill", kill)
        first, second = (coefficient("diffusivities", d) for d in diffusivities)
        self.diffusivity_pair = first, second
        self.source = optional_coefficient("source", source)

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        del ndim
        return "u", "v"

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("diffusivities", self.diffusivity_pair)

    @property
    def nonlinearity_degree(self) -> int:
        return 3

    @property
    def diffusivities(self) -> tuple[Any, Any]:
        return self.diffusivity_pair

    def reaction(self, t: Any, x: Array, u: Array) -> Array:
        feed = evaluate_coefficient("feed", self.feed, t, x, u)
        kill = evaluate_coefficient("kill", self.kill, t, x, u)
        eaten = u[0] * u[1] * u[1]
        rate = jnp.stack([feed * (1 - u[0]) - eaten, eaten - (feed + kill) * u[1]])
        return add_source(rate, self.source, t, x, u)
