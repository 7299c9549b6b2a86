"""`slices`: a field in three dimensions on planes across its axes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import one_of
from ._axis_labels import Labels
from ._color_scales import ColorScale, color_bar
from ._field_map import Plane, draw_map, labels_of, scale_of, time_title
from ._field_series import FieldSeries, field_series
from ._style import axes_or_new, look, new_figure


if TYPE_CHECKING:
    import matplotlib.image


def slices(
    source: Any,
    name: str | None = None,
    *,
    at: Any = None,
    ax: Any = None,
    time: Any = None,
    colormap: Any = None,
    limits: Any = None,
    grid: Any = None,
    labels: Any = None,
) -> np.ndarray:
    """Draw a field in three dimensions on a plane across each axis, in shared colors.

    ```python
    box = pde.Grid((16, 16, 16), -1.0, 1.0)
    x, y, z = box.centers
    plots.slices(jnp.exp(-3 * (x**2 + y**2 + 4 * z**2)), at=(0.0, 0.0, 0.3), grid=box)
    ```

    **Arguments**

    - `source`, `name`: as for `field`.
    - `at`: where the planes cut the axes, (x, y, z); drawn is the nearest layer of
        cells, whose place is written above. None takes the middle.
    - `ax`: three Matplotlib axes to draw into; None makes a figure.
    - `time`, `colormap`, `limits`, `grid`, `labels`: as for `field`.

    **Returns:** three axes, shape (3,), of the planes across z, y and x.

    **Raises:** `ValueError` as `field`, and for a plane out of the domain.
    """
    series = field_series(source, name, grid)
    row, planes = series.row(time), planes_of(series, at)
    scale = scale_of(series, [row], colormap, limits)
    with look():
        axes = slice_axes(series, ax)
        draw_slices(axes, series, row, planes, scale, labels_of(series, labels))
    return axes


def planes_of(series: FieldSeries, at: Any) -> list[Plane]:
    """Planes across z, y and x, with the layers of cells that they cut."""
    grid = series.place.grid
    one_of("the dimensions of a field", grid.ndim, (3,), "plots.field draws one or two")
    low, high = (np.asarray(corner) for corner in series.corners)
    places = (low + high) / 2 if at is None else np.asarray(at, float)
    if np.any((places < low) | (places > high)):
        raise ValueError(
            f"at must be a place in the domain, (x, y, z) from {low.tolist()} to "
            f"{high.tolist()}, got {at!r:.60}"
        )
    cells = ((places - low) / (high - low) * grid.shape).astype(int)
    cells = np.minimum(cells, np.asarray(grid.shape) - 1)
    return [
        Plane(across, up, int(cells[3 - across - up]))
        for across, up in ((0, 1), (0, 2), (1, 2))
    ]


def draw_slices(
    axes: np.ndarray,
    series: FieldSeries,
    row: int,
    planes: list[Plane],
    scale: ColorScale,
    labels: Labels,
) -> "list[matplotlib.image.AxesImage]":
    """Draw maps on planes with their places above."""
    images = [
        draw_map(ax, series, row, scale=scale, labels=labels, plane=plane)
        for ax, plane in zip(axes, planes, strict=True)
    ]
    title_slices(axes, series, row, planes, labels)
    color_bar(images[-1], axes, scale, labels[series.name])
    return images


def title_slices(
    axes: np.ndarray, series: FieldSeries, row: int, planes: list[Plane], labels: Labels
):
    """Write where each plane is, and above the first one also when."""
    time = time_title(series, row, labels)
    for ax, plane in zip(axes, planes, strict=True):
        place = series.along(plane.normal)[plane.layer]
        where = labels.value("xyz"[plane.normal], place)
        ax.set_title(f"{time},  {where}" if time else where, loc="left")
        time = ""


def slice_axes(series: FieldSeries, ax: Any) -> np.ndarray:
    """`ax`; for None three axes in a row, as wide and high as the planes are."""
    if ax is not None:
        return np.array([axes_or_new(one, (3, 3)) for one in np.ravel(ax)])
    low, high = series.corners
    x, y, z = np.subtract(high, low).tolist()
    height = float(np.clip(9.0 / ((2 * x + y) / max(y, z)), 1.2, 4.0))
    width = height * (2 * x + y) / max(y, z)
    figure = new_figure((width + 2.4, height + 0.8))
    return figure.subplots(1, 3, width_ratios=(x, x, y))
