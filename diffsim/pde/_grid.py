"""`Grid`: uniform Cartesian cells. `FieldAxes`: names of the fields on them."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._extras import Variable
from .._linalg import matmul
from .._types import Numbers, PyTree
from .._validation import (
    as_array,
    check_precision,
    count,
    finite,
    is_traced,
    promote_to_common_dtype,
)
from ..simulations import AbstractStateAxes


class Grid(eqx.Module):
    r"""Uniform Cartesian grid, $\Delta x_a = (u_a - l_a)/n_a$ along the axis $a$.

    Fields hold one number a cell, at its center $l_a + (i + \tfrac12)\Delta x_a$, with
    the axes in the order of `shape`; fluxes live on the faces between them.

    ```python
    grid = pde.Grid((128, 64), (0.0, 0.0), (2.0, 1.0))
    x, y = grid.centers
    ```

    **Arguments**

    - `shape`: cells along each axis, one to three of them; an int for one axis.
    - `lower`, `upper`: corners, length; one number for all axes. They are parameters:
        a second value compiles nothing new.

    **Raises:** `ValueError` for a shape that is not one, and corners in disorder or
    not finite. Traced ones end a run, and an elliptic problem, as
    `RESULTS.invalid_parameter`.

    **Limits:** Cartesian and uniform (convenience).
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    lower: Float[Array, " axis"]
    upper: Float[Array, " axis"]

    def __init__(
        self, shape: int | tuple[int, ...], lower: Numbers = 0.0, upper: Numbers = 1.0
    ):
        counts = tuple(shape) if isinstance(shape, Sequence | np.ndarray) else (shape,)
        if not 1 <= len(counts) <= 3:
            raise ValueError(
                f"shape must be one to three positive ints, cells along each axis, got "
                f"{shape!r:.60}"
            )
        self.shape = tuple(count("shape", n, hint="cells of an axis") for n in counts)
        corners = promote_to_common_dtype(lower=lower, upper=upper)
        self.lower, self.upper = (
            _broadcast_to_axes(name, corner, len(counts))
            for name, corner in zip(("lower", "upper"), corners, strict=True)
        )

    def __check_init__(self) -> None:
        if is_traced(self.lower) or is_traced(self.upper):
            return
        if not np.all(np.asarray(self.upper) > np.asarray(self.lower)):
            raise ValueError(
                f"upper must lie above lower, got {self.upper} and {self.lower}; a "
                "grid is pde.Grid(shape, lower, upper), pde.Grid(64, 0.0, length) for "
                "a length"
            )
        finite("lower and upper", [self.lower, self.upper])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_valid(self) -> Bool[Array, ""]:
        """Whether its corners are finite and in order, wherever they came from."""
        extents = self.upper - self.lower
        return jnp.all((extents > 0) & jnp.isfinite(extents))

    @property
    def spacing(self) -> Float[Array, " axis"]:
        """Δx along each axis."""
        return as_array(self._corner_and_spacing()[1])

    @property
    def volume(self) -> Float[Array, ""]:
        """Volume of one cell; in one dimension its length, in two its area."""
        return jnp.prod(self.spacing)

    @property
    def centers(self) -> Float[Array, "axis *shape"]:
        """Coordinates of the centers of the cells, the axes first."""
        return self._mesh([np.arange(n) + 0.5 for n in self.shape])

    def faces(self, axis: int) -> Float[Array, "axis *faces"]:
        """Coordinates of the faces across `axis`, one more along it than cells."""
        offsets: list[Any] = [np.arange(n) + 0.5 for n in self.shape]
        offsets[axis] = np.arange(self.shape[axis] + 1)
        return self._mesh(offsets)

    def wall(self, axis: int, end: int) -> Float[Array, "axis *wall"]:
        """Coordinates of the faces where `axis` begins (`end` 0) or ends (1).

        Of length one along `axis`.
        """
        offsets: list[Any] = [np.arange(n) + 0.5 for n in self.shape]
        offsets[axis] = np.array([end * self.shape[axis]])
        return self._mesh(offsets)

    def _mesh(self, offsets: list[np.ndarray]) -> Array:
        lower, spacing = self._corner_and_spacing()
        along = [
            low + step * offset.astype(self.lower.dtype)
            for low, step, offset in zip(lower, spacing, offsets, strict=True)
        ]
        numpy: Any = np if isinstance(lower, np.ndarray) else jnp
        return as_array(numpy.stack(numpy.meshgrid(*along, indexing="ij")))

    def _corner_and_spacing(self) -> tuple[Any, Any]:
        """The lower corner and Δx; in NumPy if known, so that none compiles."""
        lower, upper = self.lower, self.upper
        if not is_traced(lower) and not is_traced(upper):
            lower, upper = np.asarray(lower), np.asarray(upper)
        return lower, (upper - lower) / np.asarray(self.shape, lower.dtype)


def _broadcast_to_axes(name: str, corner: Array, ndim: int) -> Array:
    check_precision(name, corner)
    if corner.shape not in ((), (ndim,)):
        raise ValueError(
            f"{name} must be one number or one an axis, shape ({ndim},), got shape "
            f"{corner.shape}; a grid is pde.Grid(shape, lower, upper)"
        )
    if is_traced(corner):
        return jnp.broadcast_to(corner, (ndim,))
    return as_array(np.broadcast_to(np.asarray(corner), (ndim,)))


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of one shape broadcasts to another, which stays as it is."""
    lengths = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(a in (1, n) for a, n in lengths)


def on_axis(values: Array, axis: int, ndim: int) -> Array:
    """A vector along one of so many axes, to broadcast."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def multiply_along_axis(axis: int, matrix: Array, x: Array) -> Array:
    """A matrix times every line of x along one of its axes."""
    if axis == x.ndim - 1:
        return matmul(x, matrix.T)
    wide = x.reshape(*x.shape[: axis + 1], -1)
    shape = *x.shape[:axis], matrix.shape[0], *x.shape[axis + 1 :]
    return matmul(matrix, wide).reshape(shape)


def axis_names(ndim: int) -> tuple[str, ...]:
    return tuple("xyz"[:ndim])


def components(name: str, ndim: int) -> tuple[str, ...]:
    return tuple(f"{name}_{axis}" for axis in axis_names(ndim))


class FieldAxes(AbstractStateAxes):
    """Axes of fields on a grid, an array of shape (channel, *grid).

    ```python
    dish = pde.Grid((32, 32))
    axes = pde.FieldAxes.of(("u", "v"), dish, pde.Domain(dish).boundary)
    states = jnp.zeros((10, 2, 32, 32))  # (time, channel, x, y)
    axes.select(states, "v")  # as trajectory["v"], (time, x, y)
    axes.coordinates()["x"]  # centers of cells
    ```

    `trajectory["density"]` is that field, shape (time, *grid); `Trajectory.to_xarray`
    has each field along (time, x, y), with the centers of cells as coordinates.

    **Arguments**

    - `names`: one a channel.
    - `grid`: a `Grid`.
    - `boundary`: what is at the sides, by the names of the classes, lower and upper of
        each axis.
    - `solid`: the part of each cell that an obstacle fills, shape (*grid); None where
        there is none.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    grid: Grid
    boundary: tuple[tuple[str, str], ...] = eqx.field(static=True)
    solid: Array | None = None

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        grid: Grid,
        boundary: tuple[tuple[eqx.Module, eqx.Module], ...],
        solid: Array | None = None,
    ) -> "FieldAxes":
        """Axes of fields between these boundaries, a pair for each axis.

        `pde.Domain(grid, boundary).boundary` makes the pairs of what `Evolution` takes.
        """
        sides = tuple(
            (type(low).__name__, type(high).__name__) for low, high in boundary
        )
        return cls(names, grid, sides, solid)

    def variables(
        self, states: Array | np.ndarray, leading: int = 0
    ) -> dict[str, Variable]:
        axes = axis_names(self.grid.ndim)
        fields = np.moveaxis(np.asarray(states), leading, 0)
        return {
            name: (axes, field) for name, field in zip(self.names, fields, strict=True)
        }

    def coordinates(self) -> dict[str, Any]:
        axes, centers = axis_names(self.grid.ndim), np.asarray(self.grid.centers)
        coordinates: dict[str, Any] = {}
        for i, axis in enumerate(axes):
            line = [slice(None) if j == i else 0 for j in range(len(axes))]
            coordinates[axis] = centers[i][tuple(line)]
        if self.solid is not None:
            coordinates["solid"] = axes, self.solid
        return coordinates

    def select(self, states: Any, name: str) -> PyTree:
        leading = states.ndim - self.grid.ndim - 1
        return states[(slice(None),) * leading + (self.names.index(name),)]
