"""Energy of the half of a cell between its center and a wall that holds a value."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._boundaries import AbstractGhostCellBoundary, Neumann, Robin
from .._domain import Domain


def energy_at_walls(squared: list[Array], domain: Domain, t: Any) -> Array:
    r"""Part of $\tfrac12 c^2|\nabla u|^2$ beside walls where u = 0, (1, *grid).

    With the part that grows with u, which is work against ∇·(c²∇u), it is a square: of
    the slope to the value at the wall. c² is on faces.
    """
    dtype = squared[0].dtype
    spacing = domain.grid.spacing.astype(dtype)
    total = jnp.zeros((1, *domain.grid.shape), dtype)
    for axis in range(domain.grid.ndim):
        for end, side in enumerate(domain.walls(axis) or ()):
            wall = domain.grid.wall(axis, end).astype(dtype)
            value = side.at(jnp.asarray(t, dtype), wall)
            held = _held(side, spacing[axis]) * value**2
            place = [slice(None)] * total.ndim
            place[axis + 1] = slice(-1, None) if end else slice(1)
            c2 = squared[axis]
            c2 = c2[tuple(place[1:])] if c2.ndim == domain.grid.ndim else c2
            total = total.at[tuple(place)].add(c2 * held / spacing[axis] ** 2)
    return total


def _held(side: AbstractGhostCellBoundary, dx: Array) -> Array:
    """Of a value of one at the wall and c = 1, times Δx², a volume."""
    rule = side.ghosts(dx, 1, 2)
    own, given = rule.interior_weights[..., 0, 0], rule.boundary_weight[0]
    if isinstance(side, Neumann | Robin):
        # A spring, or a steady pull, at what the line to the wall is there.
        beta = side.beta.astype(dx.dtype) if isinstance(side, Robin) else 1
        free = beta == 0
        spring = -given * dx / (4 * jnp.where(free, 1, beta))
        return jnp.where(free, _square(own, given), spring)
    return _square(own, given)


def _square(own: Array, given: Array) -> Array:
    # Where the ghost is the cell nothing is stretched.
    even = own == 1
    return jnp.where(even, 0, given**2 / (2 * jnp.where(even, 1, 1 - own)))
