"""Burgers' equation."""

from typing import Any, ClassVar

from jaxtyping import Array

from ..._types import Numbers
from ..._validation import PositiveParameter, or_default
from .._domain import Domain
from .._finite_volume import (
    WENO5,
    AbstractReconstruction,
    AbstractRiemannSolver,
    Channels,
    Rusanov,
    diffusion_term_of_order,
    diffusive_courant_rate,
)
from ._conservation_law import (
    AbstractConservationLaw,
    courant_rate_of_law,
    flux_divergence,
    with_odd_channels,
)
from ._equation import (
    add_source,
    diffusivity_on_faces,
    optional_coefficient,
    positive_diffusivities,
)


class Burgers(AbstractConservationLaw):
    r"""Burgers' equation:

    $$\partial_t u + \sum_a \partial_a \tfrac12 u^2 = \nabla\cdot(\nu\nabla u) + s$$

    Waves steepen: crests run into troughs after $1/\max|u'|$, and make shocks of a
    width of $4\nu/\Delta u$, or of a few cells where that is less.

    ```python
    def sine(x):
        return jnp.sin(2 * np.pi * x[0])

    wave = pde.Evolution(pde.Burgers(viscosity=0.01), sine, pde.Grid(128))
    run = ds.simulate(wave, [0.1, 0.16, 0.4])  # steepens until t = 1/2π, then a shock
    jnp.min(jnp.diff(run["u"]), axis=1) * 128  # its slope
    ```

    **Arguments**

    - `viscosity`: $\nu$, length² / time: a number, a field of the shape of the grid,
        or a function $\nu$`(t, x, u)`, any `eqx.Module`; None is without, for shocks
        without width.
    - `source`: s, field / time: a number, a field, or a function `s(t, x, u)`, x of
        shape (axis, *grid) and u (*grid): any `eqx.Module`, what a coarse grid misses
        for instance. None is without.
    - `scheme`: interpolates u to faces; None is `WENO5()`.
    - `riemann_solver`: the flux between both sides; None is `Rusanov()`.

    **Good values:** four cells across a shock that is to be resolved.

    **Raises:** `ValueError` for a negative viscosity.

    **Limits:** one channel (convenience). Steps must resolve the spreading over a cell,
    $\Delta x^2/4\nu$ in one dimension (convenience: no implicit part). Where ν varies
    its part is of order 2 (convenience).
    """

    viscosity: Any
    source: Any
    scheme: AbstractReconstruction
    riemann_solver: AbstractRiemannSolver

    references: ClassVar[tuple[str, ...]] = ("10.1016/S0065-2156(08)70100-5",)
    coefficients: ClassVar[tuple[str, ...]] = ("viscosity", "source")

    def __init__(
        self,
        viscosity: Numbers | Any | None = None,
        *,
        source: Numbers | Any = None,
        scheme: AbstractReconstruction | None = None,
        riemann_solver: AbstractRiemannSolver | None = None,
    ):
        self.viscosity = optional_coefficient("viscosity", viscosity)
        self.source = optional_coefficient("source", source)
        self.scheme = or_default(
            "scheme", scheme, AbstractReconstruction, default=WENO5()
        )
        self.riemann_solver = or_default(
            "riemann_solver", riemann_solver, AbstractRiemannSolver, default=Rusanov()
        )

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return positive_diffusivities("viscosity", self.viscosity, zero=True)

    def channels(self, ndim: int) -> int:
        del ndim
        return 1

    def primitive(self, u: Channels) -> Channels:
        return u

    def conserved(self, w: Channels) -> Channels:
        return w

    def flux(self, w: Channels, axis: int) -> Channels:
        del axis
        return (w[0] ** 2 / 2,)

    def wave_speeds(self, w: Channels, axis: int) -> tuple[Array, Array]:
        del axis
        return w[0], w[0]

    def odd_channels(self, axis: int) -> tuple[int, ...]:
        del axis
        return (0,)

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        rate = flux_divergence(self, u, domain, t)
        if self.viscosity is not None:
            order, viscosity = self.scheme.order, self._viscosity_at(t, u, domain)
            mirrored = with_odd_channels(self, domain)
            rate = rate + diffusion_term_of_order(viscosity, order, t, u, mirrored)
        return add_source(rate, self.source, t, domain.grid.centers, u)

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        crossings = courant_rate_of_law(self, tuple(u), domain)
        if self.viscosity is None:
            return crossings
        viscosity = self._viscosity_at(t, u, domain)
        return crossings + diffusive_courant_rate(viscosity, domain, u.dtype)

    def _viscosity_at(self, t: Any, u: Array, domain: Domain) -> list[Array]:
        return diffusivity_on_faces(self.viscosity, None, t, u[0], domain)
