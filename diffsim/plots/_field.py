"""`field`: one field, as a line or a map."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import one_of
from ._axis_labels import Labels, plain_number
from ._color_scales import time_colors
from ._field_map import (
    draw_sides,
    draw_titled_map,
    labels_of,
    map_axes,
    scale_of,
    time_title,
)
from ._field_series import FieldSeries, field_series
from ._style import axes_or_new, legend, look


if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.lines


def field(
    source: Any,
    name: str | None = None,
    *,
    time: Any = None,
    ax: Any = None,
    colormap: Any = None,
    limits: Any = None,
    grid: Any = None,
    labels: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw one field: a line over x in one dimension, a map of colors in two.

    Walls are solid lines, thick where they prescribe a value (`Dirichlet`, `NoSlip`),
    `Inflow` and `Outflow` are dashed, and nothing is drawn where a domain is periodic.
    Obstacles are grey.

    ```python
    plate = pde.Grid((32, 32))
    law = pde.Diffusion(0.01, lambda t, x, u: jnp.exp(-50 * (x[0] - 0.5) ** 2))
    heated = pde.Evolution(law, np.zeros((32, 32)), plate, pde.Dirichlet(0.0))
    trajectory = ds.simulate(heated, [0.0, 1.0, 5.0])
    plots.field(trajectory, time=1.0, labels={"u": "temperature [K]"})
    ```

    **Arguments**

    - `source`: the `Trajectory` of an `Evolution` or an `IncompressibleFlow`; or, with
        `grid`, an array: one field, shape (*grid), or one state, shape
        (channel, *grid), as `pde.steady_state` returns.
    - `name`: one of `trajectory.names`; of flows also "speed" $|u|$ and, on a plane,
        "vorticity" $\partial_x v - \partial_y u$, of a wave function
        "probability_density" $|\psi|^2$. None takes the first, of velocities the speed
        and of a wave function $|\psi|^2$.
    - `time`: the nearest output is drawn; None takes the last. Several times in one
        dimension draw a line each, with a legend.
    - `ax`: Matplotlib axes to draw into; None makes a figure.
    - `colormap`: a color map of Matplotlib; None takes viridis, and for values of both
        signs one from purple over white at zero to orange.
    - `limits`: least and largest value that has a color, or is on the axis; or a norm
        of Matplotlib, `LogNorm()` say. None takes those of the field outside of
        obstacles.
    - `grid`: where an array lies: a `Grid`, a `Domain`, or a simulation, whose walls
        and obstacle are then drawn.
    - `labels`: what to write instead of names, with units:
        `{"u": "temperature [K]", "x": "x [m]", "time": "t [s]"}`.

    **Returns:** the axes; `axes.figure.savefig("field.png")` writes them.

    **Raises:** `ValueError` for what has no such field or time, and for fields in three
    dimensions, which `slices` draws; `ImportError` with what to install where
    matplotlib is missing.

    **Limits:** vorticity is by differences of order 2 between the centers of cells
    (convenience); `pde.vorticity(simulation, state)` is exact in Fourier space and can
    be drawn on `grid=simulation`.
    """
    series = field_series(source, name, grid)
    words = labels_of(series, labels)
    ndim = series.place.grid.ndim
    one_of("the dimensions of a field", ndim, (1, 2), "plots.slices draws three")
    with look():
        if ndim == 2:
            row = series.row(time)
            scale = scale_of(series, [row], colormap, limits)
            ax = map_axes(series, ax)
            draw_titled_map(ax, series, row, scale, words)
            return ax
        rows = [series.row(t) for t in (time if np.ndim(time) else [time])]
        ax = axes_or_new(ax, (6.4, 3.8))
        several = len(rows) > 1
        # Darker to lighter with time.
        for row, ink in zip(rows, time_colors(len(rows), colormap), strict=True):
            label = plain_number(series.time(row)) if several else None
            draw_line(ax, series, row, color=ink, label=label)
        finish_lines(ax, series, limits, words)
        if several:
            legend(ax, title=words["time"])
        else:
            ax.set_title(time_title(series, rows[0], words), loc="left")
        return ax


def draw_line(
    ax: Any, series: FieldSeries, row: int, **options: Any
) -> "matplotlib.lines.Line2D":
    """Draw one field over the centers of its cells."""
    [line] = ax.plot(series.along(0), series.at(row), linewidth=1.4, **options)
    return line


def finish_lines(ax: Any, series: FieldSeries, limits: Any, words: Labels):
    """Set walls, labels and limits of lines over x."""
    low, high = series.corners
    ax.set(xlim=(low[0], high[0]), xlabel=words["x"], ylabel=words[series.name])
    if limits is not None:
        ax.set_ylim(*limits)
    draw_sides(ax, series, (0,))
