"""Advection and friction of momentum on a staggered grid."""

from typing import Any

from jax.lax import slice_in_dim
from jaxtyping import Array

from .._stencils import divergence
from ._staggered_grid import Faces, StaggeredGrid


def momentum(space: StaggeredGrid, viscosity: Any, u: Faces, t: Any) -> Faces:
    r"""Momentum tendency $-\nabla\cdot(uu) + \nu\nabla^2 u$; ν None: no friction.

    By fluxes between them, each the product of two means (Harlow and Welch): of flows
    without divergence they neither make energy nor take it.
    """
    views = [space.around(i, a, t) for i, a in enumerate(u)]
    means = [[(low + high) / 2 for low, high in pairs] for pairs in views]
    spacing, found = space.grid.spacing, []
    for i, pairs in enumerate(views):
        carried = divergence(
            [
                1 / dx * _advecting_velocity(space, means, i, axis, t) * means[i][axis]
                for axis, dx in enumerate(spacing)
            ]
        )
        if viscosity is None:
            found.append(-carried)
        else:
            found.append(viscosity * _viscous_term(space, pairs) - carried)
    return tuple(found)


def friction(space: StaggeredGrid, viscosity: Array, u: Faces, t: Any) -> Faces:
    r"""Friction $\nu\nabla^2 u$ on the unknown faces."""
    return tuple(
        viscosity * _viscous_term(space, space.around(i, a, t)) for i, a in enumerate(u)
    )


def _viscous_term(space: StaggeredGrid, pairs: list[list[Array]]) -> Array:
    """∇² of a component, from its values on both sides of the places between."""
    slopes = zip(pairs, space.grid.spacing, strict=True)
    # Viscosity behind the divergence: its derivative is one sum, not one an axis.
    return divergence([dx**-2 * (high - low) for (low, high), dx in slopes])


def _advecting_velocity(
    space: StaggeredGrid, means: list[list[Array]], i: int, axis: int, t: Any
) -> Array:
    """The velocity along `axis` at the places between faces of component i."""
    if i == axis:
        return means[i][i]
    inside = slice_in_dim(means[axis][i], *space.span(i), axis=i)
    walls = tuple(space.at_wall(i, axis, end, t)[axis] for end in (0, 1))
    return space.with_boundary_faces(axis, inside, walls)
