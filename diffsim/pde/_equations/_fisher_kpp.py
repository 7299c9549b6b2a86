"""The equation of Fisher, Kolmogorov, Petrovsky and Piskunov."""

from typing import Any, ClassVar

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


class FisherKPP(AbstractReactionDiffusion):
    r"""Fisher–KPP equation, of populations that grow and spread:

    $$\partial_t u = \nabla\cdot(D\,\nabla u) + r\,u\,(1 - u/K) + s$$

    Fronts run at $2\sqrt{rD}$ or faster, with a width
    of $\sqrt{D/r}$.

    ```python
    line = pde.Grid(300, 0.0, 60.0)
    first = jnp.where(line.centers[0] < 2, 1.0, 0.0)
    law = pde.FisherKPP(1.0, growth_rate=1.0)
    run = ds.simulate(pde.Evolution(law, first, line, pde.Neumann()), [10.0, 20.0])
    jnp.diff(pde.integral(run["u"], line)) / 10  # 1.9: on its way to 2
    ```

    **Arguments**

    - `diffusivity`: D, length² / time; `growth_rate`: r, 1 / time; `carrying_capacity`:
        K, as u. Each a number, a field, or a function of (t, x, u), any `eqx.Module`.
    - `source`: s, u / time, of the same kinds: who comes in, or is hunted. None is
        without.

    **Good values:** five cells a width for a speed that is right to 1 %.
    """

    diffusivity: Any
    growth_rate: Any
    carrying_capacity: Any
    source: Any

    references: ClassVar[tuple[str, ...]] = ("10.1111/j.1469-1809.1937.tb02153.x",)
    coefficients: ClassVar[tuple[str, ...]] = (
        "diffusivity",
        "growth_rate",
        "carrying_capacity",
        "source",
    )

    def __init__(
        self,
        diffusivity: Numbers | Any,
        growth_rate: Numbers | Any = 1.0,
        carrying_capacity: Numbers | Any = 1.0,
        *,
        source: Numbers | Any = None,
    ):
        self.diffusivity = coefficient("diffusivity", diffusivity)
        self.growth_rate = coefficient("growth_rate", growth_rate)
        self.carrying_capacity = coefficient("carrying_capacity", carrying_capacity)
        self.source = optional_coefficient("source", source)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("diffusivity", self.diffusivity)

    @property
    def nonlinearity_degree(self) -> int:
        return 2

    @property
    def diffusivities(self) -> tuple[Any, ...]:
        return (self.diffusivity,)

    def reaction(self, t: Any, x: Array, u: Array) -> Array:
        r = evaluate_coefficient("growth_rate", self.growth_rate, t, x, u[0])
        capacity = self.carrying_capacity
        K = evaluate_coefficient("carrying_capacity", capacity, t, x, u[0])
        return add_source(r * u * (1 - u / K), self.source, t, x, u)
