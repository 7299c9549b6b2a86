"""Shallow water over any bottom."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import PositiveParameter, as_floating, is_traced, or_default
from ...integrators import SSPRK3
from ...simulations import Method
from .._boundaries import (
    AbstractBoundary,
    Extrapolation,
    Inflow,
    Outflow,
    Periodic,
    ReflectingWall,
)
from .._domain import Domain
from .._finite_volume import (
    HLL,
    MUSCL,
    AbstractReconstruction,
    AbstractRiemannSolver,
    Channels,
    reconstruct_both_sides,
)
from .._grid import components
from .._materialize import materialize
from .._stencils import difference
from .._time_step import CFL
from ._coefficients import (
    add_source,
    coefficient,
    evaluate_coefficient,
    optional_coefficient,
)
from ._conservation_law import (
    AbstractConservationLaw,
    courant_rate_of_law,
    high_order_flux_correction,
    split_channels,
    states_at_faces,
    sum_fluxes,
)


class ShallowWater(AbstractConservationLaw):
    r"""Shallow-water equations in depth h and momentum $h\mathbf v$, over any bottom.

    $$\partial_t\begin{pmatrix} h\\ h\mathbf v\end{pmatrix} + \nabla\cdot
    \begin{pmatrix} h\mathbf v\\ h\mathbf v\mathbf v + \tfrac12 g h^2\end{pmatrix} =
    \begin{pmatrix} 0\\ -g h\,\nabla b\end{pmatrix}$$

    Solved for the level $\eta = h + b$, with the pressure
    $\tfrac12 g(\eta^2 - 2\eta b)$ and the force $-g\eta\nabla b$: a lake at rest over
    any bottom stays at rest to machine precision, in every scheme.

    ```python
    def shelf(t, x):  # the sea bed, which rises towards the right
        return 3 * jax.nn.sigmoid(10 * (x[0] - 5))

    def tsunami(x):
        depth = 4 - shelf(0.0, x) + 0.1 * jnp.exp(-((x[0] - 2) ** 2))
        return jnp.stack([depth, 0 * depth])

    sea = pde.Evolution(
        pde.ShallowWater(9.81, shelf), tsunami, pde.Grid(200, 0.0, 10.0), pde.Outflow()
    )
    run = ds.simulate(sea, [0.0, 1.0])
    run["depth"] + shelf(0.0, sea.grid.centers)  # the level
    ```

    **Arguments**

    - `gravity`: g, length / time².
    - `bottom`: its elevation b, length: a number, a field of the shape of the grid, or
        a function `b(t, x)`, x of shape (axis, *grid).
    - `source`: what is added to the rates: an array that broadcasts to (channel,
        *grid) or a function `s(t, x, u)` that returns one, u of that shape: friction or
        wind, for instance. None is without.
    - `scheme`: interpolates level, velocity and bottom to faces; None is `MUSCL()`.
    - `riemann_solver`: the flux between both sides; None is `HLL()`.

    Channels are h and $h\mathbf v$, along each axis; boundaries are for h and
    $\mathbf v$.

    **Good values:** `ReflectingWall` for a shore, `Outflow` for open water.

    **Raises:** `ValueError` for a gravity that is not positive, and for a start, or a
    wall that holds a depth, that is dry somewhere.

    **Limits:** water everywhere: where it runs dry the run ends in NaN and a RESULTS
    (convenience: no wetting). At `ReflectingWall` the bottom is mirrored, at `Inflow`
    and `Outflow` it goes on flat (convenience). Derivatives at bores: see `MUSCL`.
    """

    gravity: Array
    bottom: Any
    source: Any
    scheme: AbstractReconstruction
    riemann_solver: AbstractRiemannSolver

    references: ClassVar[tuple[str, ...]] = (
        "10.1016/S0021-9991(03)00184-3",
        "10.1016/j.jcp.2005.02.006",
    )
    positive_fields: ClassVar[tuple[str, ...]] = ("depth",)
    coefficients: ClassVar[tuple[str, ...]] = ("bottom", "source")

    def __init__(
        self,
        gravity: Numbers = 9.81,
        bottom: Numbers | Any = 0.0,
        *,
        source: Numbers | Any = None,
        scheme: AbstractReconstruction | None = None,
        riemann_solver: AbstractRiemannSolver | None = None,
    ):
        self.gravity = as_floating("gravity", gravity)
        self.bottom = coefficient("bottom", bottom, ("t", "x"))
        self.source = optional_coefficient("source", source)
        self.scheme = or_default(
            "scheme", scheme, AbstractReconstruction, default=MUSCL()
        )
        self.riemann_solver = or_default(
            "riemann_solver", riemann_solver, AbstractRiemannSolver, default=HLL()
        )

    def positive_parameters(self) -> tuple[PositiveParameter, ...]:
        return (PositiveParameter("gravity", self.gravity),)

    def channels(self, ndim: int) -> int:
        if ndim > 2:
            raise ValueError(f"shallow water is on grids of 1 or 2 axes, got {ndim}")
        return ndim + 1

    def channel_names(self, ndim: int) -> tuple[str, ...]:
        return "depth", *components("momentum", ndim)

    def primitive(self, u: Channels) -> Channels:
        depth, *momentum = u
        return (depth, *(m / depth for m in momentum))

    # On faces the bottom follows behind depth and velocity; it goes nowhere.

    def conserved(self, w: Channels) -> Channels:
        depth, *velocity = w[:-1]
        return (depth, *(depth * v for v in velocity))

    def flux(self, w: Channels, axis: int) -> Channels:
        depth, *velocity, bottom = w
        if len(velocity) != depth.ndim:
            raise ValueError(
                "ShallowWater needs its bottom on faces, of which pde.flux_divergence "
                "knows nothing; take its rate(t, u, domain)"
            )
        discharge = depth * velocity[axis]
        momentum = [discharge * v for v in velocity]
        pressure = self._gravity(depth) * (depth + bottom) * (depth - bottom) / 2
        momentum[axis] = momentum[axis] + pressure
        return (discharge, *momentum)

    def wave_speeds(self, w: Channels, axis: int) -> tuple[Array, Array]:
        waves = jnp.sqrt(self._gravity(w[0]) * w[0])
        return w[1 + axis] - waves, w[1 + axis] + waves

    def odd_channels(self, axis: int) -> tuple[int, ...]:
        return (1 + axis,)

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        spacing, ndim = domain.grid.spacing.astype(u.dtype), domain.grid.ndim
        bottom = self._bottom(t, u, domain)
        scheme = self.scheme
        around = _bottom_domain(domain).face_neighbors(
            bottom, t, width=scheme.width, order=scheme.order
        )
        faces = states_at_faces(self, u, domain, t)
        passing, forces = [], []
        for axis, (views, bottoms) in enumerate(zip(faces, around, strict=True)):
            flux, floor = self._face_fluxes(views, bottoms, axis)
            passing.append(flux)
            slope = 1 / spacing[axis] * difference(floor, axis - ndim)
            forces.append(-self._gravity(u) * (u[0] + bottom) * slope)
        rate = sum_fluxes(passing, spacing) + jnp.stack([0 * bottom, *forces])
        return add_source(rate, self.source, t, domain.grid.centers, u)

    def positive(self, u: Array) -> tuple[Array, ...]:
        return (u[0],)

    def positive_primitive(self, w: Channels) -> Channels:
        return (w[0],)

    def energy(self, t: Any, u: Array, domain: Domain) -> Array:
        depth, *momentum = u
        kinetic = sum(m**2 for m in momentum) / depth
        level = depth + 2 * self._bottom(t, u, domain)
        return (kinetic + self._gravity(u) * depth * level) / 2

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        return courant_rate_of_law(self, self.primitive(tuple(u)), domain)

    def check(self, u: Array, domain: Domain) -> None:
        del domain
        if is_traced(u):
            return
        shallowest = np.min(np.asarray(u)[0])
        if not shallowest > 0:
            raise ValueError(
                "initial must have a positive depth everywhere, got "
                f"{shallowest}; channels are h and h v, and h is the height of the "
                "free surface above the bottom"
            )

    def default_method(self, domain: Domain) -> Method:
        del domain
        return Method(SSPRK3(), controller=CFL())

    def _bottom(self, t: Any, u: Array, domain: Domain) -> Array:
        x = domain.grid.centers.astype(u.dtype)
        bottom = evaluate_coefficient("bottom", self.bottom, t, x)
        return jnp.broadcast_to(bottom, domain.grid.shape)

    def _face_fluxes(
        self, views: list[Array], bottoms: list[Array], axis: int
    ) -> tuple[Channels, Array]:
        """Fluxes through faces, and the bottom below them: one for both sides.

        Of the bottom as of fluxes, what has derivatives as its differences: the force
        is the gradient of the pressure of a lake at rest, term by term.
        """
        scheme = self.scheme
        before, after = reconstruct_both_sides(scheme, bottoms)
        floor = (before + after) / 2
        # Level and velocity, which have no steps over those of the bottom.
        level = [v.at[0].add(b) for v, b in zip(views, bottoms, strict=True)]

        def over_floor(side):
            height, *velocity = split_channels(side)
            return (height - floor, *velocity, floor)

        sides = reconstruct_both_sides(scheme, level)
        left, right = (over_floor(side) for side in materialize(sides))
        flux = materialize(self.riemann_solver.flux(self, left, right, axis))
        cells = [(*split_channels(v), b) for v, b in zip(views, bottoms, strict=True)]
        passing = high_order_flux_correction(self, flux, cells, axis)
        return passing, scheme.high_order_flux_correction(floor, bottoms)

    def _gravity(self, like: Array) -> Array:
        return self.gravity.astype(like.dtype)


def _bottom_domain(domain: Domain) -> Domain:
    """Boundary of the bottom: mirrored where the field is, else extrapolated."""
    boundary = tuple(
        tuple(_bottom_boundary(side) for side in pair) for pair in domain.boundary
    )
    return Domain(domain.grid, boundary)


def _bottom_boundary(side: AbstractBoundary) -> AbstractBoundary:
    if isinstance(side, Periodic | ReflectingWall):
        return side
    return Outflow() if isinstance(side, Inflow | Outflow) else Extrapolation()
