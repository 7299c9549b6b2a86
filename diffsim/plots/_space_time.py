"""`space_time`: a field in one dimension, over place and time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ._color_scales import color_bar
from ._field_map import draw_sides, labels_of, scale_of
from ._field_series import FieldSeries, check_one_trajectory, field_series
from ._style import axes_or_new, look


if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.cm


def space_time(
    trajectory: Any,
    name: str | None = None,
    *,
    ax: Any = None,
    colormap: Any = None,
    limits: Any = None,
    labels: Any = None,
) -> "matplotlib.axes.Axes":
    """Draw a field in one dimension as colors over x, to the right, and time, upward.

    An output is drawn from halfway to the one before to halfway to the next.

    ```python
    ring, law = pde.Grid(64, 0.0, 60.0), pde.KuramotoSivashinsky()
    flame = pde.Evolution(law, lambda x: jnp.cos(np.pi * x[0] / 10), ring)
    method = ds.Method(integrators.ETDRK4(), step=0.1)
    trajectory = ds.simulate(flame, jnp.linspace(0.0, 100.0, 200), method)
    plots.space_time(trajectory, labels={"x": "x [mm]", "time": "t [s]"})
    ```

    **Arguments**

    - `trajectory`: a `Trajectory` of an `Evolution` on one axis, with at least two
        times.
    - `name`: one of `trajectory.names`; None takes the first.
    - `ax`: Matplotlib axes to draw into; None makes a figure.
    - `colormap`, `limits`, `labels`: as for `field`.

    **Returns:** the axes.

    **Raises:** `ValueError` for fields in two or three dimensions and for one time.
    """
    check_one_trajectory(trajectory)
    series = field_series(trajectory, name)
    times = _checked_times(series)
    words = labels_of(series, labels)
    rows = range(times.size)
    scale = scale_of(series, rows, colormap, limits)
    values = np.stack([series.at(row) for row in rows])
    with look():
        ax = axes_or_new(ax, (6.4, 4.6))
        image = _draw_cells(
            ax, series, times, values, cmap=scale.colormap, norm=scale.norm
        )
        ax.spines[:].set_visible(False)
        draw_sides(ax, series, (0,))
        ax.set(xlabel=words["x"], ylabel=words["time"])
        color_bar(image, ax, scale, words[series.name])
    return ax


def _draw_cells(
    ax: Any, series: FieldSeries, times: np.ndarray, values: np.ndarray, **colors: Any
) -> "matplotlib.cm.ScalarMappable":
    """Cells of x and t: an image of evenly spaced times, a mesh of others."""
    edges = _edges(times)
    (low,), (high,) = series.corners
    if np.allclose(np.diff(times), np.diff(times).mean(), rtol=1e-3):
        extent = low, high, edges[0], edges[-1]
        return ax.imshow(values, origin="lower", extent=extent, aspect="auto", **colors)
    x = np.linspace(low, high, values.shape[1] + 1)
    return ax.pcolormesh(x, edges, values, rasterized=True, **colors)


def _edges(times: np.ndarray) -> np.ndarray:
    """Halfway between outputs; at both ends as far on the other side."""
    halfway = (times[1:] + times[:-1]) / 2
    return np.r_[2 * times[0] - halfway[0], halfway, 2 * times[-1] - halfway[-1]]


def _checked_times(series: FieldSeries) -> np.ndarray:
    assert series.times is not None  # for type checkers: a trajectory has times
    if series.place.grid.ndim != 1:
        raise ValueError(
            "space_time draws a trajectory of fields in one dimension, got "
            f"{series.place.grid.ndim} dimensions; plots.field and plots.slices draw "
            "one time, plots.animate all"
        )
    if series.times.size < 2:
        raise ValueError(
            "space_time needs two times at least, got one; plots.field draws it"
        )
    return series.times.astype(float)
