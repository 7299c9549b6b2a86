"""`animate`: a movie of a trajectory, as a GIF or MP4."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import positive
from ..nbody import BodyAxes
from ..pde import FieldAxes
from ..simulations import Trajectory
from ._field import draw_line, finish_lines
from ._field_map import draw_titled_map, labels_of, map_axes, scale_of, time_title
from ._field_series import check_one_trajectory, field_series
from ._movie_writers import movie_writer
from ._orbit_movie import orbit_movie
from ._plot_options import checked_options
from ._slices import draw_slices, planes_of, slice_axes, three_axes, title_slices
from ._state_lines import state_lines
from ._style import INK, axes_or_new, color, look, module


if TYPE_CHECKING:
    import matplotlib.animation


#: What changes the axes to show an output.
Update = Callable[[int], None]


def animate(
    trajectory: Any,
    path: str | os.PathLike | None = None,
    *,
    name: str | None = None,
    fps: float | int = 20,
    dpi: float | int = 70,
    ax: Any = None,
    **options: Any,
) -> "matplotlib.animation.FuncAnimation":
    """Draw a movie of all outputs, a frame each, with axes and colors that stay.

    Of a field a line, a map or three slices; of bodies their paths with trails; of
    other states each number over time, with a line that moves along it. The time is
    written above.

    ```python
    ring, law = pde.Grid(64, 0.0, 20.0), pde.KortewegDeVries()
    soliton = pde.Evolution(law, lambda x: 2 / jnp.cosh(x[0] - 5) ** 2, ring)
    method = ds.Method(integrators.ETDRK4(), step=0.01)
    trajectory = ds.simulate(soliton, jnp.linspace(0.0, 1.0, 10), method)
    plots.animate(trajectory, "soliton.gif")
    ```

    **Arguments**

    - `trajectory`: a `Trajectory` of two times or more; `trajectory.animate(path)` is
        the same.
    - `path`: a file to write, a GIF by Pillow, which Matplotlib brings, or an MP4 by
        ffmpeg; None writes nothing, and the animation can be shown or saved later.
    - `name`: of a field, as for `field`.
    - `fps`: frames a second.
    - `dpi`: pixels an inch of the file.
    - `ax`: Matplotlib axes to draw into, three of them for slices; None makes a figure.
    - `options`: of fields `colormap`, `limits` and `labels`, as for `field`, of slices
        also `at`; of bodies `plane`, `unit`, and `labels` for the time; of other states
        `names` and `labels`.

    **Returns:** the animation of Matplotlib. Keep it while it is shown.

    **Good values:** 50 to 200 outputs; 60 frames of a map on 64 × 64 cells are a GIF of
    0.9 MB if all of them change, of a line one of 0.3 MB.

    **Raises:** `ValueError` for a batch, for one time and for a file of another kind;
    `TypeError` for another option; `RuntimeError` with what to install where ffmpeg is
    missing.
    """
    _check(trajectory, fps, dpi)
    writer = None if path is None else movie_writer(Path(path), fps)
    with look():
        axes, update = _movie(trajectory, name, ax, options)
        figure = np.ravel(axes)[0].figure
        update(0)
        if ax is None:
            # Else the layout is made again for every frame. Twice, as equal scales of
            # both axes change limits, and these the room for numbers beside them.
            figure.draw_without_rendering()
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        movie = module("matplotlib.animation").FuncAnimation(
            figure, update, frames=np.size(trajectory.times), interval=1000 / fps
        )
        if writer is not None:
            movie.save(path, writer=writer, dpi=dpi)
            if ax is None:
                module("matplotlib.pyplot").close(figure)
    return movie


def _check(trajectory: Any, fps: Any, dpi: Any):
    check_one_trajectory(trajectory)
    positive("fps", fps)
    positive("dpi", dpi)
    if np.size(trajectory.times) < 2:
        raise ValueError(
            "animate needs two times at least, got one; trajectory.plot() draws it"
        )


def _movie(
    trajectory: Trajectory, name: str | None, ax: Any, options: dict[str, Any]
) -> tuple[Any, Update]:
    """Axes in which everything is drawn, and what shows an output there."""
    if isinstance(trajectory.axes, FieldAxes):
        kinds = _line_movie, _map_movie, _slices_movie
        return kinds[trajectory.axes.grid.ndim - 1](trajectory, name, ax, options)
    if name is not None:
        raise ValueError(
            f"name chooses a field, got {name!r} and a trajectory without fields, "
            "which is drawn as one; leave it out"
        )
    if isinstance(trajectory.axes, BodyAxes):
        known = ("plane", "unit", "labels")
        return orbit_movie(trajectory, ax, checked_options("animate", options, known))
    return _state_movie(trajectory, ax, options)


def _line_movie(
    trajectory: Trajectory, name: str | None, ax: Any, options: dict[str, Any]
) -> tuple[Any, Update]:
    given = checked_options("animate", options, ("limits", "labels"))
    series = field_series(trajectory, name)
    words = labels_of(series, given["labels"])
    low, high = series.value_range(range(len(series.states)))
    margin = 0.05 * (high - low) or 0.5
    room = low - margin, high + margin
    limits = room if given["limits"] is None else given["limits"]
    ax = axes_or_new(ax, (6.4, 3.8))
    line = draw_line(ax, series, 0, color=color(8))
    finish_lines(ax, series, limits, words)

    def update(row: int):
        line.set_ydata(series.at(row))
        ax.set_title(time_title(series, row, words), loc="left")

    return ax, update


def _map_movie(
    trajectory: Trajectory, name: str | None, ax: Any, options: dict[str, Any]
) -> tuple[Any, Update]:
    given = checked_options("animate", options, ("colormap", "limits", "labels"))
    series = field_series(trajectory, name)
    words, rows = labels_of(series, given["labels"]), range(len(series.states))
    scale = scale_of(series, rows, given["colormap"], given["limits"])
    ax = map_axes(series, ax)
    image = draw_titled_map(ax, series, 0, scale, words)

    def update(row: int):
        image.set_data(series.at(row).T)
        ax.set_title(time_title(series, row, words), loc="left")

    return ax, update


def _slices_movie(
    trajectory: Trajectory, name: str | None, ax: Any, options: dict[str, Any]
) -> tuple[Any, Update]:
    known = ("at", "colormap", "limits", "labels")
    given = checked_options("animate", options, known)
    series = field_series(trajectory, name)
    words, rows = labels_of(series, given["labels"]), range(len(series.states))
    scale = scale_of(series, rows, given["colormap"], given["limits"])
    planes = planes_of(series, given["at"])
    axes = slice_axes(series) if ax is None else three_axes(ax)
    images = draw_slices(axes, series, 0, planes, scale, words)

    def update(row: int):
        field = series.at(row)
        for image, plane in zip(images, planes, strict=True):
            image.set_data(plane.of(field))
        title_slices(axes, series, row, planes, words)

    return axes, update


def _state_movie(
    trajectory: Trajectory, ax: Any, options: dict[str, Any]
) -> tuple[Any, Update]:
    given = checked_options("animate", options, ("names", "labels"))
    ax = state_lines(trajectory, ax=ax, **given)
    times = np.asarray(trajectory.times)
    now = ax.axvline(times[0], color=INK, linewidth=0.8)

    def update(row: int):
        now.set_xdata([times[row], times[row]])

    return ax, update
