"""Maps of a field on a plane, which `field`, `slices`, flows and movies share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._axis_labels import Labels
from ._color_scales import ColorScale, color_bar, color_scale
from ._derived_fields import VORTICITY, known_names
from ._field_series import FieldSeries
from ._style import INK, axes_or_new


if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.image


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


def labels_of(series: FieldSeries, labels: Any) -> Labels:
    """Labels of a field, its axes and the time."""
    axes = tuple("xyz"[: series.place.grid.ndim])
    return Labels(labels, (series.name, *axes, "time", *known_names(series.place)))


def scale_of(
    series: FieldSeries, rows: Sequence[int], colormap: Any, limits: Any
) -> ColorScale:
    """One scale for a field at several times.

    The vorticity of a layer at a wall or an obstacle is many times that of what leaves
    it: beside those colors end where 99 % do, and the bar says so.
    """
    low, high = series.value_range(rows)
    if limits is None and series.name == VORTICITY:
        sides = {side for pair in series.place.boundary for side in pair}
        if series.place.solid is not None or "NoSlip" in sides:
            most = series.magnitude(rows, 0.99)
            limits = (-most, most) if most > 0 else None
    return color_scale(low, high, colormap, limits)


def draw_map(
    axes: Any,
    series: FieldSeries,
    row: int,
    *,
    scale: ColorScale,
    labels: Labels,
    plane: Plane = Plane(),  # noqa: B008
) -> "matplotlib.image.AxesImage":
    """Draw an image between the corners of the grid, with walls and obstacle."""
    across, up = plane.across, plane.up
    low, high = series.corners
    image = axes.imshow(
        plane.of(series.at(row)),
        origin="lower",
        extent=(low[across], high[across], low[up], high[up]),
        cmap=scale.colormap,
        norm=scale.norm,
        aspect="equal",
    )
    # Sides are drawn by what they are, so that nothing is where the domain goes on.
    axes.spines[:].set_visible(False)
    draw_sides(axes, series, (across, up))
    draw_obstacle(axes, series, plane)
    axes.set(xlabel=labels["xyz"[across]], ylabel=labels["xyz"[up]])
    return image


def draw_titled_map(
    axes: Any, series: FieldSeries, row: int, scale: ColorScale, labels: Labels
) -> "matplotlib.image.AxesImage":
    """Draw a map of a plane field with its time above and its colors beside."""
    image = draw_map(axes, series, row, scale=scale, labels=labels)
    axes.set_title(time_title(series, row, labels), loc="left")
    color_bar(image, axes, scale, labels[series.name])
    return image


def time_title(series: FieldSeries, row: int, labels: Labels) -> str:
    """The time in words, nothing where it is not known."""
    time = series.time(row)
    return "" if time is None else labels.value("time", time)


def map_axes(series: FieldSeries, ax: Any) -> "matplotlib.axes.Axes":
    """`ax`; for None axes in the shape of the domain, with room for colors."""
    low, high = series.corners
    ratio = (high[1] - low[1]) / (high[0] - low[0])
    width = float(np.clip(4.4 / np.sqrt(ratio), 2.0, 7.5))
    size = width + 2.0, float(np.clip(width * ratio, 1.0, 8.0)) + 0.8
    return axes_or_new(ax, size)


def draw_sides(axes: Any, series: FieldSeries, drawn: tuple[int, ...]):
    """Lines at the sides across the axes drawn to the right and up.

    Walls are solid, thick where they prescribe a value; what is open is dashed, and
    nothing is drawn where the domain is periodic.
    """
    for axis, line in zip(drawn, (axes.axvline, axes.axhline), strict=False):
        for name, corner in zip(
            series.place.boundary[axis], series.corners, strict=True
        ):
            if name == "Periodic":
                continue
            # Half of a line at the rim is cut off.
            width = 5.0 if name in ("Dirichlet", "NoSlip") else 2.4
            dashes = (0, (4, 3)) if name in ("Inflow", "Outflow") else "-"
            line(corner[axis], color=INK, linewidth=width, linestyle=dashes, zorder=3)


def draw_obstacle(axes: Any, series: FieldSeries, plane: Plane):
    """Fill cells that are half solid or more, with an outline where they are half."""
    if series.place.solid is None:
        return
    # Centers of cells end before the walls, which an obstacle may touch: one more at
    # either end.
    solid = np.pad(plane.of(np.asarray(series.place.solid, float)), 1, mode="edge")
    if solid.max() <= 0.5:
        return
    places = []
    for axis in (plane.across, plane.up):
        centers = series.along(axis)
        step = centers[1] - centers[0] if centers.size > 1 else 1.0
        places.append(np.r_[centers[0] - step, centers, centers[-1] + step])
    axes.contourf(*places, solid, [0.5, np.inf], colors=["#9a9a9a"], zorder=2.5)
    axes.contour(*places, solid, [0.5], colors=[INK], linewidths=1.2, zorder=2.6)
