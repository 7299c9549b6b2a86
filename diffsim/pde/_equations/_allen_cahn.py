"""The Allen–Cahn equation."""

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


class AllenCahn(AbstractReactionDiffusion):
    r"""Allen–Cahn equation:

    $$\partial_t u = \nabla\cdot(D\,\nabla u) + r\,(u - u^3) + s$$

    Two phases, u = ±1, with interfaces between them of the profile
    $\tanh\bigl(x\sqrt{r/2D}\bigr)$ that shorten at D times their curvature.

    ```python
    square = pde.Grid((48, 48), -0.5, 0.5)

    def disk(x):
        r = jnp.hypot(x[0], x[1])
        return jnp.tanh((0.3 - r) / 0.05)

    phases = pde.Evolution(pde.AllenCahn(1.25e-3), disk, square)
    run = ds.simulate(phases, [0.0, 20.0])
    jnp.diff(pde.integral(run["u"] > 0, square))  # −2π D t = −0.157, nearly
    ```

    **Arguments**

    - `diffusivity`: D, length² / time; `reaction_rate`: r, 1 / time. Each a number, a
        field, or a function of (t, x, u), any `eqx.Module`.
    - `source`: s, u / time, of the same kinds: what favors a phase. None is without.

    **Good values:** eight cells an interface, 4 √(D/r) wide.
    """

    diffusivity: Any
    reaction_rate: Any
    source: Any

    references: ClassVar[tuple[str, ...]] = ("10.1016/0001-6160(79)90196-2",)
    coefficients: ClassVar[tuple[str, ...]] = ("diffusivity", "reaction_rate", "source")

    def __init__(
        self,
        diffusivity: Numbers | Any,
        reaction_rate: Numbers | Any = 1.0,
        *,
        source: Numbers | Any = None,
    ):
        self.diffusivity = coefficient("diffusivity", diffusivity)
        self.reaction_rate = coefficient("reaction_rate", reaction_rate)
        self.source = optional_coefficient("source", source)

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("diffusivity", self.diffusivity)

    @property
    def nonlinearity_degree(self) -> int:
        return 3

    @property
    def diffusivities(self) -> tuple[Any, ...]:
        return (self.diffusivity,)

    def reaction(self, t: Any, x: Array, u: Array) -> Array:
        r = evaluate_coefficient("reaction_rate", self.reaction_rate, t, x, u[0])
        rate = r * (u - u * u * u)
        return add_source(rate, self.source, t, x, u)
