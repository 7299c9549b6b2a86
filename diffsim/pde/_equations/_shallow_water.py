"""Shallow water over any bottom."""

from functools import reduce
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._materialize import materialize
from ..._types import Numbers
from ..._validation import (
    PositiveParameter,
    as_floating,
    is_traced,
    not_negative,
    or_default,
    positive,
)
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
    below_zero,
    reconstruct_both_sides,
)
from .._grid import components
from .._stencils import average, difference
from ._conservation_law import (
    LEAST_SHARE,
    AbstractConservationLaw,
    courant_rate_of_law,
    high_order_flux_correction,
    keep_positive,
    split_channels,
    states_at_faces,
    sum_fluxes,
)
from ._equation import (
    add_source,
    coefficient,
    evaluate_coefficient,
    optional_coefficient,
)


#: Weights of the pairs of cells around a face, the inner one first, by their number.
_INTERPOLATION = {
    1: (1 / 2,),
    2: (9 / 16, -1 / 16),
    3: (75 / 128, -25 / 256, 3 / 256),
}


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
    - `dry_depth`: length; cells with less water are land, and their velocity goes to
        zero with the depth.

    Channels are h and $h\mathbf v$, along each axis; boundaries are for h and
    $\mathbf v$.

    Beds may be dry, h = 0. Between cells of which one is dry, or whose bottom steps by
    more than their depth, fluxes are those of order 1 over the higher bottom: depths
    stay positive at steps of `pde.CFL(0.5)`, and a lake with islands is at rest.

    **Good values:** `ReflectingWall` for a quay, `Outflow` for open water; a
    `dry_depth` of 1e-6 of the depths that matter.

    **Raises:** `ValueError` for a gravity or `dry_depth` that is not positive, for a
    negative depth at the start, and for a wall that holds one that is not positive.

    **Limits:** of order 1 at the edge of the water (mathematics). A `source` that
    divides by the depth has to do without it where it is dry (convenience). At
    `ReflectingWall` the bottom is mirrored, at `Inflow` and `Outflow` it goes on flat
    (convenience). Derivatives at bores: see `MUSCL`.
    """

    gravity: Array
    bottom: Any
    source: Any
    scheme: AbstractReconstruction
    riemann_solver: AbstractRiemannSolver
    dry_depth: float = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = (
        "10.1016/S0021-9991(03)00184-3",
        "10.1016/j.jcp.2005.02.006",
        "10.1137/S1064827503431090",
    )
    positive_fields: ClassVar[tuple[str, ...]] = ("depth",)
    positive_channels: ClassVar[tuple[int, ...]] = (0,)
    coefficients: ClassVar[tuple[str, ...]] = ("bottom", "source")

    def __init__(
        self,
        gravity: Numbers = 9.81,
        bottom: Numbers | Any = 0.0,
        *,
        source: Numbers | Any = None,
        scheme: AbstractReconstruction | None = None,
        riemann_solver: AbstractRiemannSolver | None = None,
        dry_depth: float = 1e-6,
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
        hint = "it divides where a bed is dry"
        self.dry_depth = float(positive("dry_depth", dry_depth, hint))

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
        # m/h, and behind the dry depth what goes to zero with h.
        thin = depth < self.dry_depth
        square = jnp.where(thin, (depth**2 + self.dry_depth**2) / 2, depth**2)
        per_depth = jnp.where(depth < -self.dry_depth, jnp.nan, depth / square)
        return (depth, *(m * per_depth for m in momentum))

    # On faces the bottom is a last channel, which does not move.

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
        wet = w[0] > 0
        waves = jnp.sqrt(jnp.where(wet, self._gravity(w[0]) * w[0], 1))
        waves = jnp.where(wet, waves, 0)
        return w[1 + axis] - waves, w[1 + axis] + waves

    def odd_channels(self, axis: int) -> tuple[int, ...]:
        return (1 + axis,)

    def correction_share(
        self, change: Channels, left: Channels, right: Channels, axis: int
    ) -> Array | None:
        """1/(1 + q), as for `Euler`, with gh² in the place of p.

        The bottom is corrected along: nothing of a lake at rest counts.
        """
        g = self._gravity(left[0])
        per_depth = 1 / (left[0] + right[0] + self.dry_depth)
        mass, *momentum, floor = (c * per_depth for c in change)
        level = (left[0] + left[-1] + right[0] + right[-1]) / 2
        momentum[axis] = momentum[axis] + g * level * floor
        velocity = [(a + b) / 2 for a, b in zip(left[1:-1], right[1:-1], strict=True)]
        pushed = [m - v * mass for m, v in zip(momentum, velocity, strict=True)]
        changed = (
            mass**2 * per_depth / g + sum(p**2 for p in pushed) * per_depth**2 / g**2
        )
        borne = 0.01 * (left[0] * per_depth * right[0] * per_depth) ** 2
        borne = borne + float(jnp.finfo(borne.dtype).eps) ** 2
        return borne / (borne + changed)

    def rate(self, t: Any, u: Array, domain: Domain) -> Array:
        spacing, ndim = domain.grid.spacing.astype(u.dtype), domain.grid.ndim
        bottom = self._bottom(t, u, domain)
        # Relative to its mean, so that a lake high above zero has no more rounding.
        bottom = bottom - jnp.mean(bottom)
        scheme = self.scheme
        around = _bottom_domain(domain).face_neighbors(
            bottom, t, width=scheme.width, order=scheme.order
        )
        faces = states_at_faces(self, u, domain, t)
        passing, forces = [], []
        for axis, (views, bottoms) in enumerate(zip(faces, around, strict=True)):
            flux, floor, walls = self._face_fluxes(views, bottoms, axis)
            passing.append(flux)
            slope = (u[0] + bottom) * difference(floor, axis - ndim)
            slope = slope + average(walls, axis - ndim)
            forces.append(-self._gravity(u) / spacing[axis] * slope)
        rate = sum_fluxes(passing, spacing) + jnp.stack([0 * bottom, *forces])
        return add_source(rate, self.source, t, domain.grid.centers, u)

    def positive(self, u: Array) -> tuple[Array, ...]:
        return (u[0],)

    def energy(self, t: Any, u: Array, domain: Domain) -> Array:
        depth, *momentum = u
        _, *velocity = self.primitive((depth, *momentum))
        kinetic = sum(m * v for m, v in zip(momentum, velocity, strict=True))
        level = depth + 2 * self._bottom(t, u, domain)
        return (kinetic + self._gravity(u) * depth * level) / 2

    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array:
        del t
        return courant_rate_of_law(self, self.primitive(tuple(u)), domain)

    def check(self, u: Array, domain: Domain) -> None:
        del domain
        if not is_traced(u):
            hint = "channels are h and h v, h from the bottom to the surface"
            not_negative("initial depth", np.asarray(u)[0], hint)

    def _bottom(self, t: Any, u: Array, domain: Domain) -> Array:
        x = domain.grid.centers.astype(u.dtype)
        bottom = evaluate_coefficient("bottom", self.bottom, t, x)
        return jnp.broadcast_to(bottom, domain.grid.shape)

    def _face_fluxes(
        self, views: list[Array], bottoms: list[Array], axis: int
    ) -> tuple[Channels, Array, Array]:
        """Fluxes through faces, and the bottom below them: one for both sides.

        Differences of the bottom are derivatives, as those of fluxes: the force is the
        gradient of the pressure of a lake at rest, term by term.
        """
        scheme, middle = self.scheme, len(views) // 2
        # Level and velocity, which have no steps over those of the bottom.
        level = [v.at[0].add(b) for v, b in zip(views, bottoms, strict=True)]
        beside = views[middle - 1 : middle + 1]
        low, high = bottoms[middle - 1 : middle + 1]
        # At a shore cells count the water above the higher bottom of both. A limiter
        # tells the land from the water by few cells, a wider stencil does not.
        near = views if scheme.width > 2 else beside
        dry = reduce(jnp.minimum, [view[0] for view in near]) <= self.dry_depth
        step = jnp.abs(high - low)
        shore = dry | (jnp.minimum(beside[0][0], beside[1][0]) <= step)
        # The higher of both to the last bit, or cells without water would lose some.
        highest = jnp.where(high > low, high, low)
        floor = jnp.where(shore, highest, _at_middle(bottoms, scheme.order))

        share = jnp.where(shore, 0, LEAST_SHARE).astype(floor.dtype)
        sides = [
            keep_positive(
                self,
                jnp.where(
                    shore, cell.at[0].add(bottom - floor), side.at[0].add(-floor)
                ),
                cell,
                share,
            )
            for side, cell, bottom in zip(
                reconstruct_both_sides(scheme, level), beside, (low, high), strict=True
            )
        ]
        *sides, floor = materialize((*sides, floor))
        left, right = ((*split_channels(side), floor) for side in sides)
        flux = materialize(self.riemann_solver.flux(self, left, right, axis))
        cells = [(*split_channels(v), b) for v, b in zip(views, bottoms, strict=True)]
        plain = (*flux, floor)
        smooth = high_order_flux_correction(self, plain, cells, axis)
        *passing, floor = (
            jnp.where(shore, a, b) for a, b in zip(plain, smooth, strict=True)
        )
        # Beside land the pressure is that of the level of each cell, which goes on
        # behind it: half of both in the flux, half of their difference in the force.
        behind, ahead = (
            below_zero(cell[0] - (floor - bottom)) ** 2 / 2
            for cell, bottom in zip(beside, (low, high), strict=True)
        )
        passing[1 + axis] += self._gravity(floor) * (behind + ahead) / 2
        return tuple(passing), floor, behind - ahead

    def _gravity(self, like: Array) -> Array:
        return self.gravity.astype(like.dtype)


def _at_middle(views: list[Array], order: int) -> Array:
    """The polynomial through the cells around a face: smooth in a flat bottom, too."""
    middle = len(views) // 2
    weights = _INTERPOLATION[min(middle, (order + 1) // 2)]
    pairs = [views[middle - 1 - i] + views[middle + i] for i in range(len(weights))]
    parts = [w * pair for w, pair in zip(weights, pairs, strict=True)]
    return reduce(jnp.add, parts)


def _bottom_domain(domain: Domain) -> Domain:
    """Boundary of the bottom: mirrored where the field is, else extrapolated."""

    def boundary(axis: int, side: AbstractBoundary) -> AbstractBoundary:
        del axis
        if isinstance(side, Periodic | ReflectingWall):
            return side
        return Outflow() if isinstance(side, Inflow | Outflow) else Extrapolation()

    return domain.with_boundaries(boundary)
