"""Pressure projection: a Poisson problem, by transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._primitives import HashablePartial, LinearMapRules, linear
from .._boundaries import map_sides
from .._elliptic import Kinds, apply_in_eigenbasis, eigenvectors
from ._staggered_grid import Faces, StaggeredGrid
from ._walls import is_open


def pressure_potential(space: StaggeredGrid, r: Array) -> Array:
    r"""The p with $\nabla^2 p = r$, of mean zero where only differences matter.

    Symmetric, so that it is its own transpose.
    """
    # Even at closed sides, which no gradient crosses, odd at open ones.
    kinds = map_sides(
        lambda axis, end, side: "odd" if is_open(side) else "even", space.boundary_pairs
    )
    solve = HashablePartial(_solve_poisson, (tuple(kinds),))
    maps = LinearMapRules.plain(solve, solve)
    return linear(maps, [1 / space.grid.spacing**2], [r], [jax.typeof(r)])[0]


def project_out_gradient(
    space: StaggeredGrid, rate: Faces, t: Any
) -> tuple[Faces, Array]:
    """`rate` without what would make the flow diverge, and the pressure that took it.

    At no time, None, nothing crosses the walls.
    """
    p = pressure_potential(space, space.outward_rate(rate, t))
    return _subtract_gradient(space, rate, p), p


def leray_project(space: StaggeredGrid, u: Faces, t: Any) -> Faces:
    """The nearest velocity without divergence that obeys the walls at the time t."""
    return _subtract_gradient(
        space, u, pressure_potential(space, space.divergence(u, t))
    )


def _subtract_gradient(space: StaggeredGrid, u: Faces, p: Array) -> Faces:
    return tuple(a - g for a, g in zip(u, space.gradient(p), strict=True))


def _solve_poisson(kinds: Kinds, known, arguments) -> list[Array]:
    (scales,), (x,) = known, arguments
    walls = [None] * len(kinds)
    matrices, eigenvalues = eigenvectors(kinds, walls, x.shape, list(scales))
    singular = not any("odd" in kind for kind in kinds if kind is not None)

    def divide(z):
        if not singular:
            return z / -eigenvalues
        is_null = np.zeros(z.shape, bool)
        is_null[(0,) * z.ndim] = True
        return jnp.where(is_null, 0, z / jnp.where(is_null, 1, -eigenvalues))

    return [apply_in_eigenbasis(matrices, x, divide)]
