"""`FieldAxes`: names of the fields of a state, and where its cells are."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from .._extras import Variable
from .._types import PyTree
from ..simulations import AbstractStateAxes
from ._grid import Grid, axis_names


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
        found: dict[str, Any] = {}
        for i, axis in enumerate(axes):
            line = [slice(None) if j == i else 0 for j in range(len(axes))]
            found[axis] = centers[i][tuple(line)]
        return found if self.solid is None else {**found, "solid": (axes, self.solid)}

    def select(self, states: Any, name: str) -> PyTree:
        leading = states.ndim - self.grid.ndim - 1
        return states[(slice(None),) * leading + (self.names.index(name),)]
