"""`Domain`: a grid and its boundary conditions."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import slice_in_dim
from jaxtyping import Array

from .._types import PyTree
from .._validation import finite, instance, is_traced
from ._boundaries import (
    AbstractBoundary,
    AbstractGhostCellBoundary,
    AbstractSlopeBoundary,
    Extrapolation,
    Periodic,
    Robin,
    boundaries_per_side,
    map_sides,
)
from ._grid import Grid, broadcasts_to
from ._stencils import face_neighbors


class Domain(eqx.Module):
    """Grid with a boundary on each of its sides, where operators act.

    ```python
    sides = pde.Periodic(), (pde.Dirichlet(1.0), pde.Neumann(2.0))
    channel = pde.Domain(pde.Grid((64, 32)), sides)
    x, y = channel.grid.centers
    pde.laplacian(1 + 2 * y, channel)  # 0, as 1 + 2y obeys both walls
    ```

    **Arguments**

    - `grid`: a `Grid`.
    - `boundary`: one for all sides; or a tuple with an entry for each axis, one for
        both of its sides or a pair, lower and upper. Of one axis the pair will do.

    **Raises:** `ValueError` for sides without a boundary, for an axis that is periodic
    at one side, and for a `Robin` with coefficients of opposite signs on cells that are
    too long for it.
    """

    grid: Grid
    boundary: tuple[tuple[AbstractBoundary, AbstractBoundary], ...]

    def __init__(self, grid: Grid, boundary: Any = None):
        instance("grid", grid, Grid, "pde.Grid(64)")
        self.grid = grid
        self.boundary = sides_of(boundary, grid.ndim)
        map_sides(self._check_resolved, self.boundary_pairs)

    def periodic(self, axis: int) -> bool:
        return isinstance(self.boundary[axis][0], Periodic)

    @property
    def boundary_pairs(
        self,
    ) -> list[tuple[AbstractGhostCellBoundary, AbstractGhostCellBoundary] | None]:
        """Both boundaries of each axis, None where it is periodic."""
        return [
            (low, high)
            if isinstance(low, AbstractGhostCellBoundary)
            and isinstance(high, AbstractGhostCellBoundary)
            else None
            for low, high in self.boundary
        ]

    @property
    def with_extrapolated_boundaries(self) -> "Domain":
        """The same grid for what obeys no boundary, a coefficient say.

        Beyond them it goes on as the polynomial through the last cells.
        """
        return self.with_boundaries(
            lambda axis, side: side if self.periodic(axis) else Extrapolation()
        )

    def with_boundaries(
        self, replace: Callable[[int, AbstractBoundary], AbstractBoundary]
    ) -> "Domain":
        """The same grid with `replace(axis, side)` in place of every side."""
        pairs = (
            (replace(axis, low), replace(axis, high))
            for axis, (low, high) in enumerate(self.boundary)
        )
        return Domain(self.grid, tuple(pairs))

    def face_neighbors(
        self, u: Array, t: Any = 0.0, *, width: int = 1, order: int = 2
    ) -> list[list[Array]]:
        """For each axis the cells beside its faces, `width` on either side.

        `u` has the grid as its last axes; ghosts stand for cells beyond the boundary,
        by polynomials of degree `order` − 1 that fulfil it at the time `t`.

        **Raises:** `ValueError` for a field of another shape, and for fewer cells than
        the stencil is wide.
        """
        self.check(u, max(width, order - 1))
        spacing = self.grid.spacing.astype(u.dtype)
        t = jnp.asarray(t, u.dtype)

        def ghosts(axis, end, side):
            cells = side.ghosts(spacing[axis], width, order)
            self.check(u, cells.interior_weights.shape[-1])
            return cells

        def values(axis, end, side):
            return self.boundary_value(axis, end, u, t, order)[0]

        pairs = self.boundary_pairs
        return face_neighbors(
            u, map_sides(ghosts, pairs), map_sides(values, pairs), width
        )

    def _check_resolved(self, axis: int, end: int, side: AbstractGhostCellBoundary):
        """Raise `ValueError` for cells that make a field grow where it should decay."""
        if not isinstance(side, Robin):
            return
        numbers = side.alpha, side.beta, self.grid.spacing[axis]
        if any(map(is_traced, numbers)):
            return
        alpha, beta, dx = map(np.asarray, numbers)
        if alpha * beta < 0 and abs(alpha) * dx >= 2 * abs(beta):
            longest = float(2 * abs(beta / alpha))
            cells = int(dx * self.grid.shape[axis] / longest) + 1
            raise ValueError(
                f"the Robin boundary at the {('lower', 'upper')[end]} side of axis "
                f"{axis} has an alpha and a beta of opposite signs, and needs cells "
                f"shorter than 2 |beta/alpha| = {longest:.3g}, got {float(dx):.3g}; "
                f"take {cells} cells or more along that axis"
            )

    @property
    def is_nonlinear(self) -> bool:
        """Whether a boundary value depends on u."""
        sides = (side for pair in self.boundary_pairs for side in pair or ())
        return any(side.is_nonlinear for side in sides)

    def boundary_value(
        self, axis: int, end: int, u: Array, t: Any, order: int = 2
    ) -> tuple[Array, Array | None]:
        """g at a side, and ∂g/∂u where that and the cells beside it determine g."""
        side, x = self.boundary[axis][end], self.grid.wall(axis, end).astype(u.dtype)
        assert isinstance(side, AbstractGhostCellBoundary)
        if not isinstance(side, AbstractSlopeBoundary) or not side.is_nonlinear:
            return side.at(t, x), None
        spacing = self.grid.spacing.astype(u.dtype)[axis]
        cells = self._cells_inwards(u, axis, end, order)
        return side.solve_value(t, x, cells, spacing, order)

    def linearized(self, u: Array, t: Any) -> list["Domain"]:
        """For each channel of u the domain of linear boundaries, for preconditioners.

        ∂g/∂u is that of the mean along a side.
        """
        if not self.is_nonlinear:
            return [self] * len(u)

        def tangents(axis, end, side):
            _, slope = self.boundary_value(axis, end, u, jnp.asarray(t, u.dtype))
            if slope is None:
                return [side] * len(u)
            alpha, beta = side.coefficients(u.dtype)
            return [Robin(alpha - a, beta) for a in jnp.mean(slope, range(1, u.ndim))]

        pairs = map_sides(tangents, self.boundary_pairs)
        axes = [
            [both] * len(u) if pair is None else zip(*pair, strict=True)
            for both, pair in zip(self.boundary, pairs, strict=True)
        ]
        return [Domain(self.grid, sides) for sides in zip(*axes, strict=True)]

    def _cells_inwards(self, u: Array, axis: int, end: int, count: int) -> list[Array]:
        """The cells beside a side, of length one across it."""
        n, place = self.grid.shape[axis], axis - self.grid.ndim
        first = [n - 1 - j if end else j for j in range(min(n, count))]
        return [slice_in_dim(u, j, j + 1, axis=place % u.ndim) for j in first]

    def check_boundary_values(
        self, u: Array, t0: Any
    ) -> list[tuple[str, AbstractGhostCellBoundary, np.ndarray]]:
        """Raise `ValueError` for values that do not fit their side or are not finite.

        `u` has the channels that the boundaries are for, shape (channel, *grid).
        Returns the name, the side and the value, shape (channel, *side), of each that
        is known before a run.
        """
        known, t = [], jnp.asarray(t0, u.dtype)
        for axis, pair in enumerate(self.boundary_pairs):
            for end, side in enumerate(pair or ()):
                name = f"the value at the {('lower', 'upper')[end]} side of axis {axis}"
                x = self.grid.wall(axis, end).astype(u.dtype)
                shape = len(u), *x.shape[1:]
                # The first cell is near enough to see that a function is one.
                fields = self._cells_inwards(u, axis, end, int(side.is_nonlinear))
                got = jax.eval_shape(side.at, t, x, *fields).shape
                if not broadcasts_to(got, shape):
                    raise ValueError(
                        f"{name} must be a number, one for each of {len(u)} channels, "
                        f"or have shape {shape}, got shape {got}; profiles along a "
                        "side are functions of (t, x) or arrays of that shape"
                    )
                # While a function is traced, a user's would be evaluated in the trace.
                arrays = t, x, *fields, jnp.zeros(()), *jax.tree.leaves(side)
                if any(map(is_traced, arrays)):
                    continue
                value = side.at(t, x, *fields)
                if not is_traced(value):
                    value = finite(name, np.asarray(value), f"at t = {t0}")
                    known.append((name, side, np.broadcast_to(value, shape)))
        return known

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


def sides_of(
    boundary: PyTree, ndim: int
) -> tuple[tuple[AbstractBoundary, AbstractBoundary], ...]:
    """The boundaries of all sides, a pair for each axis."""
    return boundaries_per_side(
        Periodic() if boundary is None else boundary,
        ndim,
        name="boundary",
        kinds=AbstractBoundary,
        expected="pde.Dirichlet(0.0), pde.Neumann() or pde.Periodic(), and of a "
        "pde.IncompressibleFlow(nu, grid, boundary) pde.NoSlip()",
    )
