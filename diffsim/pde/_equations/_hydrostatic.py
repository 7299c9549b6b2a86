"""Hydrostatic reconstruction: gases under their weight, at rest to rounding."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
from jax.lax import slice_in_dim
from jaxtyping import Array

from .._boundaries import (
    AbstractBoundary,
    Extrapolation,
    Outflow,
    Periodic,
    ReflectingWall,
)
from .._domain import Domain
from ._conservation_law import (
    AbstractConservationLaw,
    fluxes_at_centers,
    split_channels,
    states_at_faces,
    sum_fluxes,
)


def hydrostatic_rate(
    law: AbstractConservationLaw, potential: Any, t: Any, u: Array, domain: Domain
) -> Array:
    r"""Rate of a gas in a potential φ, balanced where its temperature is constant.

    $p e^{\psi}$ and $\rho e^{\psi}$ are reconstructed, with
    $\psi = \int \rho/p\,d\varphi$ from the face: what hydrostatic balance makes
    of them there. The weight of a cell is the difference of the pressures that it would
    have on its faces at rest; energy gains what passes the faces times their height
    above the center, so that $\int (E + \rho\varphi)$ is constant.

    **Arguments:** `potential`: φ, a function of (t, x), in cells and on faces.
    """
    grid = domain.grid
    height = potential(t, grid.centers.astype(u.dtype))
    density, *_, pressure = law.primitive(split_channels(u))
    faces = states_at_faces(law, u, domain, t)
    order, width = law.scheme.order, law.scheme.width
    around = _domain_of_potential(domain).face_neighbors(
        height, t, width=width, order=order
    )
    passing, weights = [], []
    for axis, (views, heights) in enumerate(zip(faces, around, strict=True)):
        top = potential(t, grid.faces(axis).astype(u.dtype))
        mass, *momentum, energy = fluxes_at_centers(
            law, _at_rest_on_face(views, heights, top), axis
        )
        passing.append((mass, *momentum, energy + top * mass))
        n = grid.shape[axis]
        low, high = (
            pressure * jnp.exp(density / pressure * (height - face))
            for face in (slice_in_dim(top, i, i + n, axis=axis) for i in (0, 1))
        )
        weights.append((high - low) / grid.spacing[axis].astype(u.dtype))
    mass, *momentum, energy = sum_fluxes(passing, grid.spacing.astype(u.dtype))
    momentum = [m + weight for m, weight in zip(momentum, weights, strict=True)]
    return jnp.stack([mass, *momentum, energy - height * mass])


def _at_rest_on_face(
    views: Sequence[Array], heights: Sequence[Array], top: Array
) -> list[Array]:
    """Density and pressure of cells carried to the face, as balance has them there."""
    ratios = [view[0] / view[-1] for view in views]
    middle = len(views) // 2
    between = [
        (a + b) / 2 * (after - before)
        for (a, b), (before, after) in zip(
            pairwise(ratios), pairwise(heights), strict=True
        )
    ]
    exponents = [r * (height - top) for r, height in zip(ratios, heights, strict=True)]
    for k in range(middle, len(views) - 1):
        exponents[k + 1] = exponents[k] + between[k]
    for k in range(middle - 1, 0, -1):
        exponents[k - 1] = exponents[k] - between[k - 1]
    carried = []
    for view, exponent in zip(views, exponents, strict=True):
        factor = jnp.exp(exponent)
        carried.append(view.at[0].multiply(factor).at[-1].multiply(factor))
    return carried


def _domain_of_potential(domain: Domain) -> Domain:
    """A mirror where the gas has one; flat where it goes on, and so balanced."""

    def beyond(side: AbstractBoundary) -> AbstractBoundary:
        if isinstance(side, Periodic | ReflectingWall | Outflow):
            return side
        return Extrapolation()

    pairs = tuple((beyond(low), beyond(high)) for low, high in domain.boundary)
    return Domain(domain.grid, pairs)
