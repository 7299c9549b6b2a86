"""`space_time`: a field in one dimension, over place and time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import one_of
from ._color_scales import color_bar
from ._field_map import draw_sides, labels_of, scale_of
from ._field_series import checked_trajectory, field_series
from ._style import axes_or_new, look


if TYPE_CHECKING:
    import matplotlib.axes


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
    series = field_series(checked_trajectory(trajectory, least=2), name)
    hint = "plots.field and plots.slices draw one time, plots.animate all"
    one_of("the dimensions of a field", series.place.grid.ndim, (1,), hint)
    times = np.asarray(series.times, float)
    words, rows = labels_of(series, labels), range(times.size)
    scale = scale_of(series, rows, colormap, limits)
    values = np.stack([series.at(row) for row in rows])
    # Halfway between outputs; at both ends as far on the other side.
    halfway = (times[1:] + times[:-1]) / 2
    edges = np.r_[2 * times[0] - halfway[0], halfway, 2 * times[-1] - halfway[-1]]
    (low,), (high,) = series.corners
    colors = {"cmap": scale.colormap, "norm": scale.norm}
    with look():
        ax = axes_or_new(ax, (6.4, 4.6))
        if np.allclose(np.diff(times), np.diff(times).mean(), rtol=1e-3):
            extent = low, high, edges[0], edges[-1]
            place = {"origin": "lower", "extent": extent, "aspect": "auto"}
            image = ax.imshow(values, **place, **colors)
        else:
            x = np.linspace(low, high, values.shape[1] + 1)
            image = ax.pcolormesh(x, edges, values, rasterized=True, **colors)
        ax.spines[:].set_visible(False)
        draw_sides(ax, series, (0,))
        ax.set(xlabel=words["x"], ylabel=words["time"])
        color_bar(image, ax, scale, words[series.name])
    return ax
