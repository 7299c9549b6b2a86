"""Conservation laws: their interface, and the rate that follows."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._materialize import materialize
from ..._jit._fresh_jit import fresh_jit
from ..._validation import positive
from ...integrators import SSPRK3
from ...simulations import Method
from .._boundaries import (
    AbstractBoundary,
    AbstractGhostCellBoundary,
    Dirichlet,
    Inflow,
    ReflectingWall,
    SignedReflection,
)
from .._domain import Domain
from .._finite_volume import (
    AbstractReconstruction,
    AbstractRiemannSolver,
    Channels,
    reconstruct_both_sides,
)
from .._stencils import divergence
from .._time_step import CFL
from ._equation import AbstractFiniteVolumeEquation


#: Part of the value in a cell that its values on faces keep at least.
LEAST_SHARE = 0.1


class AbstractConservationLaw(AbstractFiniteVolumeEquation):
    r"""Conservation law $\partial_t u + \nabla\cdot F(u) = 0$, of finite wave speeds.

    Subclasses say what they are for tuples with one array a channel, in cells and on
    faces alike; `rate` is `pde.flux_divergence(self, u, domain, t)`, and what is added
    to it. The primitive variables w are those that are interpolated to the faces, and
    that boundaries are for: `Inflow(w)`.
    """

    scheme: eqx.AbstractVar[AbstractReconstruction]
    riemann_solver: eqx.AbstractVar[AbstractRiemannSolver]

    #: Channels of w that are physical above zero only, one for each `positive_fields`.
    positive_channels: ClassVar[tuple[int, ...]] = ()

    @abc.abstractmethod
    def primitive(self, u: Channels) -> Channels:
        """w of the conserved u."""

    @abc.abstractmethod
    def conserved(self, w: Channels) -> Channels:
        """u of the primitive w."""

    @abc.abstractmethod
    def flux(self, w: Channels, axis: int) -> Channels:
        """F along `axis`, one array for each of u."""

    @abc.abstractmethod
    def wave_speeds(self, w: Channels, axis: int) -> tuple[Array, Array]:
        """Speeds of the slowest and the fastest wave along `axis`."""

    @abc.abstractmethod
    def odd_channels(self, axis: int) -> tuple[int, ...]:
        """Channels that change sign in a mirror across `axis`: the normal momentum."""

    @property
    def limited_channels(self) -> tuple[int, ...]:
        """Channels of w that are kept positive on faces."""
        return self.positive_channels

    def correction_share(
        self, change: Channels, left: Channels, right: Channels, axis: int
    ) -> Array | None:
        """Share of a `change` of the fluxes that cells beside a face can bear.

        The change corrects fluxes to a high order, and w may jump by orders of
        magnitude; None is all of it.
        """
        del change, left, right, axis

    @abc.abstractmethod
    def courant_rate(self, t: Any, u: Array, domain: Domain) -> Array: ...

    def default_method(self, domain: Domain) -> Method:
        """`SSPRK3` at the steps of `CFL()`, unless a law says otherwise."""
        del domain
        return Method(SSPRK3(), controller=CFL())


@fresh_jit
def flux_divergence(
    law: AbstractConservationLaw, u: Array, domain: Domain, t: Any = 0.0
) -> Array:
    r"""Flux divergence $-\nabla\cdot F(u)$ in every cell, by what passes its faces.

    ```python
    ring = pde.Domain(pde.Grid(64))
    u = 1 + 0.5 * jnp.sin(2 * np.pi * ring.grid.centers)
    rate = pde.flux_divergence(pde.Burgers(), u, ring)  # −u ∂u/∂x
    jnp.sum(rate)  # 0
    ```

    What leaves a cell enters its neighbor: sums over cells change by what passes the
    boundary, to machine precision.

    **Arguments**

    - `law`: an `AbstractConservationLaw`.
    - `u`: shape (channel, *grid).
    - `domain`, `t`: the grid and its boundaries, taken at the time `t`.
    """
    spacing = domain.grid.spacing.astype(u.dtype)
    passing = []
    for axis, views in enumerate(states_at_faces(law, u, domain, t)):
        flux, cells = fluxes_at_centers(law, views, axis), map(split_channels, views)
        passing.append(high_order_flux_correction(law, flux, list(cells), axis))
    return sum_fluxes(passing, spacing)


def states_at_faces(
    law: AbstractConservationLaw, u: Array, domain: Domain, t: Any
) -> list[list[Array]]:
    """Primitive variables in the cells beside the faces of each axis."""
    scheme, domain = law.scheme, with_odd_channels(law, domain)
    w = jnp.stack(law.primitive(split_channels(u)))
    return domain.face_neighbors(w, t, width=scheme.width, order=scheme.order)


def fluxes_at_centers(
    law: AbstractConservationLaw, views: Sequence[Array], axis: int
) -> Channels:
    """Fluxes at the centers of faces, whose differences are derivatives to order 2."""
    middle = len(views) // 2
    beside = views[middle - 1 : middle + 1]
    sides = reconstruct_both_sides(law.scheme, views)
    sides = [keep_positive(law, *pair) for pair in zip(sides, beside, strict=True)]
    left, right = (split_channels(side) for side in materialize(sides))
    return materialize(law.riemann_solver.flux(law, left, right, axis))


def keep_positive(
    law: AbstractConservationLaw, side: Array, cell: Array, share: Any = LEAST_SHARE
) -> Array:
    """Values on faces, at least a `share` of those in their `cell` where limited.

    A smaller slope of one variable: fluxes stay fluxes, so that nothing is lost, and
    smooth fields never come near.
    """
    if not law.limited_channels:
        return side
    # One comparison for all channels: masks of channels cost a tenth of a step.
    least = np.full((len(cell), *[1] * (cell.ndim - 1)), -np.inf, cell.dtype)
    least[list(law.limited_channels)] = 0
    least = jnp.where(least == 0, share * cell, least)
    return jnp.where(side < least, least, side)


def high_order_flux_correction(
    law: AbstractConservationLaw, flux: Channels, cells: Sequence[Channels], axis: int
) -> Channels:
    """Correct fluxes at face centers so that their differences are derivatives.

    Behind the fluxes may stand what is corrected along, the last channels of `cells`.
    """
    if law.scheme.order <= 2:
        return flux
    around = [law.flux(cell, axis) for cell in cells]
    more = len(around[0]) - len(flux)
    if more:
        pairs = zip(around, cells, strict=True)
        around = [(*fluxes, *cell[more:]) for fluxes, cell in pairs]
    change = materialize(
        tuple(
            law.scheme.high_order_flux_correction(jnp.zeros_like(f), beside)
            for f, beside in zip(flux, zip(*around, strict=True), strict=True)
        )
    )
    middle = len(cells) // 2
    share = law.correction_share(change, cells[middle - 1], cells[middle], axis)
    if share is not None:
        share = materialize(share)
        change = [share * c for c in change]
    return tuple(f + c for f, c in zip(flux, change, strict=True))


def sum_fluxes(passing: Sequence[Channels], spacing: Array) -> Array:
    """The rate of every cell, from what passes the faces across each axis."""
    # Products: quotients of whole fields take as long as all else that is simple.
    per_length = 1 / spacing
    rates = [
        -divergence([f * s for f, s in zip(fluxes, per_length, strict=True)])
        for fluxes in zip(*passing, strict=True)
    ]
    return jnp.stack(rates)


def courant_rate_of_law(
    law: AbstractConservationLaw, w: Channels, domain: Domain
) -> Array:
    """Courant rate of primitive variables: cells that waves cross a time."""
    spacing = domain.grid.spacing.astype(w[0].dtype)
    total = jnp.zeros_like(spacing[0])
    for axis, dx in enumerate(spacing):
        slow, fast = law.wave_speeds(w, axis)
        total = total + jnp.max(jnp.maximum(jnp.abs(slow), jnp.abs(fast))) / dx
    return total


def split_channels(u: Array) -> Channels:
    """Split into one array a channel; transposed they are joined, not added up."""
    parts = jax.lax.split(u, [1] * u.shape[0])
    return tuple(part.reshape(part.shape[1:]) for part in parts)


def with_odd_channels(law: AbstractConservationLaw, domain: Domain) -> Domain:
    channels = range(law.channels(domain.grid.ndim))

    def with_signs(axis: int, side: AbstractBoundary) -> AbstractBoundary:
        if not isinstance(side, ReflectingWall):
            return side
        return SignedReflection(tuple(c in law.odd_channels(axis) for c in channels))

    return domain.with_boundaries(with_signs)


def check_positive_boundary(
    law: AbstractConservationLaw,
    name: str,
    side: AbstractGhostCellBoundary,
    w: np.ndarray,
):
    """Raise `ValueError` for a state at a side that is physical only above zero."""
    if not isinstance(side, Dirichlet | Inflow):
        return
    # A law may have fields that only `positive` knows, and no channels of w.
    for field, channel in zip(law.positive_fields, law.positive_channels, strict=False):
        positive(
            f"{field} of {name}",
            w[channel],
            f"boundaries of {type(law).__name__} are for its primitive fields, one "
            "number a channel, pde.Inflow((density, velocity, pressure)) for a gas on "
            "a line",
        )
