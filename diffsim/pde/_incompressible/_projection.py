"""The pressure that leaves no divergence: a Poisson problem, by transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._primitives import HashablePartial, LinearMapRules, linear
from .._elliptic import Kinds, eigenvectors, in_waves
from ._staggered_grid import Faces, StaggeredGrid
from ._walls import is_open


def kinds_of(space: StaggeredGrid) -> Kinds:
    """Even at closed sides, which no gradient crosses, odd at open ones."""

    def kind(side):
        return "odd" if is_open(side) else "even"

    return tuple(
        None if space.periodic(i) else (kind(low), kind(high))
        for i, (low, high) in enumerate(space.walls)
    )


def potential(space: StaggeredGrid, r: Array) -> Array:
    r"""The p with $\nabla^2 p = r$, of mean zero where only differences matter.

    Symmetric, so that it is its own transpose.
    """
    solve = HashablePartial(_solved, (kinds_of(space),))
    maps = LinearMapRules.plain(solve, solve)
    return linear(maps, [1 / space.grid.spacing**2], [r], [jax.typeof(r)])[0]


def projected(space: StaggeredGrid, rate: Faces, t: Any) -> tuple[Faces, Array]:
    """`rate` without what would make the flow diverge, and the pressure that took it.

    At no time, None, nothing crosses the walls.
    """
    p = potential(space, space.outward_rate(rate, t))
    return _less_gradient(space, rate, p), p


def solenoidal(space: StaggeredGrid, u: Faces, t: Any) -> Faces:
    """The nearest velocity without divergence that obeys the walls at the time t."""
    return _less_gradient(space, u, potential(space, space.outward(u, t)))


def _less_gradient(space: StaggeredGrid, u: Faces, p: Array) -> Faces:
    return tuple(a - g for a, g in zip(u, space.gradient(p), strict=True))


def _solved(kinds: Kinds, known, arguments) -> list[Array]:
    (scales,), (x,) = known, arguments
    walls = [None] * len(kinds)
    matrices, eigenvalues = eigenvectors(kinds, walls, x.shape, list(scales))
    singular = not any("odd" in kind for kind in kinds if kind is not None)
    return [in_waves(matrices, x, lambda z: _divided(z, -eigenvalues, singular))]


def _divided(x: Array, eigenvalues: Array, singular: bool) -> Array:
    if not singular:
        return x / eigenvalues
    lost = np.zeros(x.shape, bool)
    lost[(0,) * x.ndim] = True
    return jnp.where(lost, 0, x / jnp.where(lost, 1, eigenvalues))
