"""Hydrostatic reconstruction: gases under their weight, at rest to rounding."""

from collections.abc import Sequence
from functools import reduce
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
    # The zero is arbitrary; near it nothing is lost to rounding.
    zero = jnp.mean(height)
    height = height - zero
    tops = [
        potential(t, grid.faces(i).astype(u.dtype)) - zero for i in range(grid.ndim)
    ]
    ends = [
        [slice_in_dim(top, k, k + grid.shape[i], axis=i) for k in (0, 1)]
        for i, top in enumerate(tops)
    ]
    density, *_, pressure = law.primitive(split_channels(u))
    # A gas whose scale height is shorter than a cell is not balanced.
    steepest = reduce(jnp.maximum, [jnp.abs(high - low) for low, high in ends])
    ratio = density / pressure
    ratio = jnp.where(ratio * steepest < 1, ratio, 0)
    faces = states_at_faces(law, u, domain, t)
    around = _domain_of_potential(domain).face_neighbors(
        jnp.stack([height, ratio]), t, width=law.scheme.width, order=law.scheme.order
    )
    passing, weights = [], []
    for axis, (views, beside, top) in enumerate(zip(faces, around, tops, strict=True)):
        mass, *momentum, energy = fluxes_at_centers(
            law, _at_rest_on_face(views, beside, top), axis
        )
        passing.append((mass, *momentum, energy + top * mass))
        low, high = ends[axis]
        balanced = jnp.exp(ratio * (height - high)) - jnp.exp(ratio * (height - low))
        weight = jnp.where(ratio > 0, pressure * balanced, density * (low - high))
        weights.append(weight / grid.spacing[axis].astype(u.dtype))
    mass, *momentum, energy = sum_fluxes(passing, grid.spacing.astype(u.dtype))
    momentum = [m + weight for m, weight in zip(momentum, weights, strict=True)]
    return jnp.stack([mass, *momentum, energy - height * mass])


def _at_rest_on_face(
    views: Sequence[Array], beside: Sequence[Array], top: Array
) -> list[Array]:
    """Density and pressure of cells carried to the face, as balance has them there.

    **Arguments:** `beside`: height and ρ/p of the cells, 0 where nothing is carried.
    """
    middle = len(views) // 2
    between = [
        (ratio + after) / 2 * (higher - height)
        for (height, ratio), (higher, after) in pairwise(beside)
    ]
    exponents = [ratio * (height - top) for height, ratio in beside]
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

    def boundary(axis: int, side: AbstractBoundary) -> AbstractBoundary:
        del axis
        keeps = isinstance(side, Periodic | ReflectingWall | Outflow)
        return side if keeps else Extrapolation()

    return domain.with_boundaries(boundary)
