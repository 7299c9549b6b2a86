"""`Domain`: a grid and what holds at its walls."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._validation import check_type
from ._boundaries import (
    AbstractBoundary,
    AbstractGhostCellBoundary,
    Extrapolation,
    Periodic,
    boundaries_per_side,
)
from ._grid import Grid
from ._stencils import face_neighbors


class Domain(eqx.Module):
    """A grid, and a boundary on each of its sides: where operators act.

    ```python
    walls = pde.Domain(grid, (pde.Periodic(), (pde.Dirichlet(1.0), pde.Neumann())))
    pde.laplacian(u, walls)
    ```

    **Arguments**

    - `grid`: a `Grid`.
    - `boundary`: one for all sides; or a tuple with an entry for each axis, one for
        both of its sides or a pair, lower and upper. Of one axis the pair will do.

    **Raises:** `ValueError` for sides without a boundary, and for an axis that is
    periodic at one side.
    """

    grid: Grid
    boundary: tuple[tuple[AbstractBoundary, AbstractBoundary], ...]

    def __init__(self, grid: Grid, boundary: Any = None):
        check_type("grid", grid, Grid, "pde.Grid(64)")
        self.grid = grid
        self.boundary = sides_of(boundary, grid.ndim)

    def periodic(self, axis: int) -> bool:
        return isinstance(self.boundary[axis][0], Periodic)

    def walls(
        self, axis: int
    ) -> tuple[AbstractGhostCellBoundary, AbstractGhostCellBoundary] | None:
        """Both boundaries of an axis, None if it is periodic."""
        low, high = self.boundary[axis]
        if isinstance(low, AbstractGhostCellBoundary) and isinstance(
            high, AbstractGhostCellBoundary
        ):
            return low, high
        return None

    @property
    def with_extrapolated_boundaries(self) -> "Domain":
        """The same grid for what obeys nothing at the walls, a coefficient say.

        Beyond them it goes on as the polynomial through the last cells.
        """
        pairs = (
            pair if self.periodic(i) else (Extrapolation(), Extrapolation())
            for i, pair in enumerate(self.boundary)
        )
        return Domain(self.grid, tuple(pairs))

    def face_neighbors(
        self, u: Array, t: Any = 0.0, *, width: int = 1, order: int = 2
    ) -> list[list[Array]]:
        """For each axis the cells beside its faces, `width` on either side.

        `u` has the grid as its last axes; ghosts stand for cells beyond the walls, by
        polynomials of degree `order` − 1 that fulfil the boundary at the time `t`.

        **Raises:** `ValueError` for a field of another shape, and for fewer cells than
        the stencil is wide.
        """
        self.check(u, max(width, order - 1))
        spacing = self.grid.spacing.astype(u.dtype)
        t = jnp.asarray(t, u.dtype)
        ends, given = [], []
        for axis in range(self.grid.ndim):
            sides = self.walls(axis)
            if sides is None:
                ends.append(None)
                given.append(None)
                continue
            ghosts = tuple(s.ghosts(spacing[axis], width, order) for s in sides)
            self.check(u, max(rule.interior_weights.shape[-1] for rule in ghosts))
            ends.append(ghosts)
            walls = (self.grid.wall(axis, end).astype(u.dtype) for end in (0, 1))
            given.append(tuple(s.at(t, x) for s, x in zip(sides, walls, strict=True)))
        return face_neighbors(u, ends, given, width)

    def check(self, u: Array, cells: int = 1) -> None:
        """Raise `ValueError` for fields that do not fit and for too few cells."""
        shape = self.grid.shape
        if u.shape[-len(shape) :] != shape:
            grid = ", ".join(map(str, shape))
            raise ValueError(
                f"a field must have shape (..., {grid}), that of the grid behind its "
                f"channels, got {u.shape}"
            )
        if min(shape) < cells:
            raise ValueError(
                f"grid must have at least {cells} cells along each axis for a stencil "
                f"and boundaries of such order, got shape {shape}"
            )


def as_field(u: Any) -> Array:
    """Convert integers and booleans to floats, which operators take."""
    u = jnp.asarray(u)
    inexact = jnp.issubdtype(u.dtype, jnp.inexact)
    return u if inexact else u.astype(jnp.result_type(float))


def check_domain(domain: Any):
    """Raise `ValueError` for a grid, which has no boundary conditions."""
    if not isinstance(domain, Domain):
        raise ValueError(
            "domain must be a pde.Domain(grid, boundary), of a periodic grid "
            f"pde.Domain(grid), got {domain!r:.60}"
        )


def sides_of(
    boundary: PyTree, ndim: int
) -> tuple[tuple[AbstractBoundary, AbstractBoundary], ...]:
    """The boundaries of all sides, a pair for each axis."""
    return boundaries_per_side(
        Periodic() if boundary is None else boundary,
        ndim,
        name="boundary",
        kinds=AbstractBoundary,
        expected="pde.Dirichlet(0.0), pde.Neumann(), pde.Periodic() or such",
    )
