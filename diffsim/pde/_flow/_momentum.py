"""What the momentum on every face gains from its neighbours."""

from typing import Any

from jax.lax import slice_in_dim
from jaxtyping import Array

from .._faces import divergence
from ._staggered import Faces, Staggered


def momentum(space: Staggered, viscosity: Array, u: Faces, t: Any) -> Faces:
    r"""$-\nabla\cdot(uu) + \nu\nabla^2 u$ on the unknown faces.

    By fluxes between them, each the product of two means (Harlow and Welch): of flows
    without divergence they neither make energy nor take it.
    """
    views = [space.around(i, a, t) for i, a in enumerate(u)]
    means = [[(low + high) / 2 for low, high in pairs] for pairs in views]
    spacing, found = space.grid.spacing, []
    for i, pairs in enumerate(views):
        fluxes = []
        for axis, ((low, high), dx) in enumerate(zip(pairs, spacing, strict=True)):
            carrier = _carrier(space, means, i, axis, t)
            shear = viscosity / dx * (high - low)
            fluxes.append((shear - carrier * means[i][axis]) / dx)
        found.append(divergence(fluxes))
    return tuple(found)


def friction(space: Staggered, viscosity: Array, u: Faces, t: Any) -> Faces:
    r"""$\nu\nabla^2 u$ on the unknown faces."""
    found = []
    for i, a in enumerate(u):
        pairs = zip(space.around(i, a, t), space.grid.spacing, strict=True)
        slopes = [viscosity / dx**2 * (high - low) for (low, high), dx in pairs]
        found.append(divergence(slopes))
    return tuple(found)


def _carrier(
    space: Staggered, means: list[list[Array]], i: int, axis: int, t: Any
) -> Array:
    """The velocity along `axis` at the places between faces of component i."""
    if i == axis:
        return means[i][i]
    inside = slice_in_dim(means[axis][i], *space.span(i), axis=i)
    walls = tuple(space.at_wall(i, axis, end, t)[axis] for end in (0, 1))
    return space.completed(axis, inside, walls)
