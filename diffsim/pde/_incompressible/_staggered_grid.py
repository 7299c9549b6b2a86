"""`StaggeredGrid`: every component of a velocity on the faces that it crosses."""

import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import slice_in_dim
from jaxtyping import Array

from .._boundaries import GhostCells, Periodic, map_sides
from .._grid import Grid
from .._stencils import average, divergence, face_neighbors
from ._walls import (
    Side,
    Sides,
    is_moving,
    is_open,
    normal_velocity_ghosts,
    tangential_velocity_ghosts,
    velocity_at,
)


#: Components of a velocity on the faces where it is unknown.
Faces = tuple[Array, ...]


class StaggeredGrid(eqx.Module):
    """A grid with the walls of a flow.

    Component i is unknown on the faces across axis i, without those of walls that it
    is prescribed on; along a periodic axis the first face is the last one, too.
    """

    grid: Grid
    walls: Sides

    def periodic(self, axis: int) -> bool:
        return isinstance(self.walls[axis][0], Periodic)

    @property
    def boundary_pairs(self) -> list[tuple[Side, Side] | None]:
        """Both sides of each axis, None where it is periodic."""
        pairs = enumerate(self.walls)
        return [None if self.periodic(i) else pair for i, pair in pairs]

    def span(self, axis: int) -> tuple[int, int]:
        """Range of the faces across `axis` that are unknown."""
        n = self.grid.shape[axis]
        if self.periodic(axis):
            return 0, n
        low, high = self.walls[axis]
        return int(not is_open(low)), n + int(is_open(high))

    def shape(self, i: int) -> tuple[int, ...]:
        start, stop = self.span(i)
        shape = self.grid.shape
        return (*shape[:i], stop - start, *shape[i + 1 :])

    def points(self, i: int) -> Array:
        """Coordinates of the unknown faces across axis i, shape (axis, ...)."""
        return self.unknown(self.grid.faces(i), i)

    def unknown(self, faces: Array, i: int) -> Array:
        return slice_in_dim(faces, *self.span(i), axis=_axis(faces, i, self))

    def images(self) -> Array:
        """Shifts of a body to its images across periodic sides, shape (image, axis).

        Itself first, then the nearest.
        """
        ways = [(0, -1, 1) if self.periodic(i) else (0,) for i in range(self.grid.ndim)]
        length = self.grid.upper - self.grid.lower
        return jnp.asarray(list(itertools.product(*ways)), length.dtype) * length

    def at_wall(self, i: int, axis: int, end: int, t: Any) -> Array:
        """The velocity (axis, ...) prescribed at a wall, where component i meets it.

        At no time, None, every wall is at rest.
        """
        if i == axis:
            x = self.grid.wall(axis, end)
        else:
            inside = slice_in_dim(self.points(i), 0, 1, axis=1 + axis)
            x = inside.at[axis].set((self.grid.lower, self.grid.upper)[end][axis])
        if t is None:
            return jnp.zeros_like(x)
        return velocity_at(self.walls[axis][end], axis, t, x)

    def around(self, i: int, u: Array, t: Any) -> list[list[Array]]:
        """Return for each axis component i on both sides of the places between."""

        def ghosts(axis, end, side):
            kind = normal_velocity_ghosts if axis == i else tangential_velocity_ghosts
            return kind(side, u.dtype)

        def values(axis, end, side):
            return self.at_wall(i, axis, end, t)[i]

        pairs = self.boundary_pairs
        return face_neighbors(u, map_sides(ghosts, pairs), map_sides(values, pairs), 1)

    def with_boundary_faces(self, i: int, u: Array, on_walls: Sequence[Array]) -> Array:
        """`u` on all faces across axis i, `on_walls` on those of closed walls."""
        axis = _axis(u, i, self)
        if self.periodic(i):
            return jnp.concatenate([u, slice_in_dim(u, 0, 1, axis=axis)], axis)
        low, high = (
            [] if is_open(side) else [k.astype(u.dtype)]
            for side, k in zip(self.walls[i], on_walls, strict=True)
        )
        return jnp.concatenate([*low, u, *high], axis) if low or high else u

    def faces(self, u: Faces, t: Any) -> Faces:
        """Return all faces, one more along its axis than cells for each component."""

        def walls(i):
            return tuple(self.at_wall(i, i, end, t)[i] for end in (0, 1))

        return tuple(self.with_boundary_faces(i, a, walls(i)) for i, a in enumerate(u))

    def max_advection_speed(self, u: Faces, t: Any) -> Array:
        """The highest |u| of every component, shape (axis,), along walls too."""
        highest = []
        for i, a in enumerate(self.faces(u, t)):
            beside = [
                self.at_wall(i, axis, end, t)[i]
                for axis in range(self.grid.ndim)
                for end in (0, 1)
                if axis != i and not self.periodic(axis)
            ]
            parts = [jnp.max(jnp.abs(b)) for b in (a, *beside)]
            highest.append(jnp.max(jnp.stack(parts)))
        return jnp.stack(highest)

    def divergence(self, u: Faces, t: Any) -> Array:
        return self._divergence(self.faces(u, t))

    def outward_rate(self, rate: Faces, t: Any) -> Array:
        """∂(∇·u)/∂t, where velocities at the walls may change, too."""
        dtype, faces = rate[0].dtype, []
        for i, a in enumerate(rate):
            changes = []
            for end, side in enumerate(self.walls[i]):
                if t is not None and is_moving(side):
                    changes.append(self._change(i, end, jnp.asarray(t, dtype)))
                else:
                    thin = self.grid.shape[:i] + (1,) + self.grid.shape[i + 1 :]
                    changes.append(jnp.zeros(thin, dtype))
            faces.append(self.with_boundary_faces(i, a, tuple(changes)))
        return self._divergence(tuple(faces))

    def gradient(self, p: Array) -> Faces:
        """∇p on the unknown faces; at an open side p is zero."""
        pairs, nothing = self.boundary_pairs, jnp.zeros((), p.dtype)

        def ghosts(axis, end, side):
            weight = -1.0 if is_open(side) else 1.0
            return GhostCells(jnp.asarray([[weight]], p.dtype), jnp.zeros(1, p.dtype))

        values = map_sides(lambda axis, end, side: nothing, pairs)
        views = face_neighbors(p, map_sides(ghosts, pairs), values, 1)
        spacing = self.grid.spacing
        return tuple(
            self.unknown(1 / dx * (high - low), i)
            for i, ((low, high), dx) in enumerate(zip(views, spacing, strict=True))
        )

    def centered(self, u: Faces, t: Any) -> Array:
        """The velocity in the centers of cells, shape (axis, *grid)."""
        ndim, faces = self.grid.ndim, self.faces(u, t)
        return jnp.stack([average(a, i - ndim) for i, a in enumerate(faces)])

    def _divergence(self, faces: Faces) -> Array:
        pairs = zip(faces, self.grid.spacing, strict=True)
        return divergence([1 / dx * a for a, dx in pairs])

    def _change(self, i: int, end: int, t: Array) -> Array:
        """∂/∂t of what is prescribed across a wall."""
        return jax.jvp(lambda t: self.at_wall(i, i, end, t)[i], (t,), (0 * t + 1,))[1]


def _axis(a: Array, i: int, space: StaggeredGrid) -> int:
    return a.ndim - space.grid.ndim + i
