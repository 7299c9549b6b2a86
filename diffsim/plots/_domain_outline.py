"""Sides of a domain and its obstacle, drawn over a map of a field."""

from typing import Any, NamedTuple

import numpy as np

from ._field_series import FieldSeries
from ._style import INK


#: Sides at which a value of the field is prescribed, drawn as thick walls.
_PRESCRIBED = {"Dirichlet", "NoSlip"}
_OPEN = {"Inflow", "Outflow"}


class Plane(NamedTuple):
    """Axes to the right and up; in three dimensions also a layer across the third."""

    across: int = 0
    up: int = 1
    layer: int | None = None

    @property
    def normal(self) -> int:
        """The third axis."""
        return 3 - self.across - self.up

    def of(self, field: np.ndarray) -> np.ndarray:
        """A field on the plane as an image: rows from below, columns to the right."""
        return (field if self.layer is None else field.take(self.layer, self.normal)).T


def draw_sides(axes: Any, series: FieldSeries, drawn: tuple[int, ...]):
    """Lines at the sides across the axes drawn to the right and up.

    Walls are solid, thick where they prescribe a value; what is open is dashed, and
    nothing is drawn where the domain is periodic.
    """
    for axis, line in zip(drawn, (axes.axvline, axes.axhline), strict=False):
        for name, place in zip(
            series.place.boundary[axis], series.corners, strict=True
        ):
            if name == "Periodic":
                continue
            # Half of a line at the rim is cut off.
            width = 5.0 if name in _PRESCRIBED else 2.4
            dashes = (0, (4, 3)) if name in _OPEN else "-"
            line(place[axis], color=INK, linewidth=width, linestyle=dashes, zorder=3)


def draw_obstacle(axes: Any, series: FieldSeries, plane: Plane):
    """Fill cells that are half solid or more, with an outline where they are half."""
    if series.place.solid is None:
        return
    solid = plane.of(np.asarray(series.place.solid, float))
    # Centers of cells end before the walls, which an obstacle may touch.
    solid = np.pad(solid, 1, mode="edge")
    places = [_beyond(series.along(axis)) for axis in (plane.across, plane.up)]
    if solid.max() > 0.5:
        axes.contourf(*places, solid, [0.5, np.inf], colors=["#9a9a9a"], zorder=2.5)
        axes.contour(*places, solid, [0.5], colors=[INK], linewidths=1.2, zorder=2.6)


def _beyond(centers: np.ndarray) -> np.ndarray:
    """Centers of cells with one more at either end."""
    if centers.size == 1:
        return centers[0] + np.array([-1.0, 0.0, 1.0])
    return np.r_[2 * centers[0] - centers[1], centers, 2 * centers[-1] - centers[-2]]
