"""`animate`: a movie of a trajectory, as a GIF or MP4."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._atomic_file import check_file
from .._validation import one_of, positive
from ..nbody import BodyAxes
from ..pde import FieldAxes
from ..simulations import Trajectory
from ._axis_labels import Labels
from ._field import draw_line, finish_lines
from ._field_map import draw_titled_map, labels_of, map_axes, scale_of, time_title
from ._field_series import checked_trajectory, field_series
from ._orbits import PLANES, label_orbits, write_beside
from ._slices import draw_slices, planes_of, slice_axes, title_slices
from ._style import INK, axes_or_new, color, look, module
from ._trajectory_plot import state_lines


if TYPE_CHECKING:
    import matplotlib.animation


#: A function that changes the axes to show an output.
Update = Callable[[int], None]


def animate(
    trajectory: Any,
    path: str | os.PathLike | None = None,
    *,
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
    - `fps`: frames a second.
    - `dpi`: pixels an inch of the file.
    - `ax`: Matplotlib axes to draw into, three of them for slices; None makes a figure.
    - `options`: of fields `name`, `colormap`, `limits` and `labels`, as for `field`, of
        slices also `at`; of bodies `plane`, `unit`, and `labels` for the time; of other
        states `names` and `labels`.

    **Returns:** the animation of Matplotlib. Keep it while it is shown.

    **Good values:** 50 to 200 outputs; 60 frames of a map on 64 × 64 cells are a GIF of
    0.9 MB if all of them change, of a line one of 0.3 MB.

    **Raises:** `ValueError` for a batch, for one time and for a file of another kind;
    `TypeError` for another option; `RuntimeError` with what to install where ffmpeg is
    missing.
    """
    checked_trajectory(trajectory, least=2)
    fps, dpi = positive("fps", fps), positive("dpi", dpi)
    writer = None if path is None else movie_writer(Path(path), fps)
    if isinstance(trajectory.axes, FieldAxes):
        kinds = _line_movie, _map_movie, _slices_movie
        draw = kinds[trajectory.axes.grid.ndim - 1]
    else:
        draw = _orbit_movie if isinstance(trajectory.axes, BodyAxes) else _state_movie
    with look():
        axes, update = draw(trajectory, ax, **options)
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


def _line_movie(
    trajectory: Trajectory,
    ax: Any,
    *,
    name: str | None = None,
    limits: Any = None,
    labels: Any = None,
) -> tuple[Any, Update]:
    series = field_series(trajectory, name)
    words = labels_of(series, labels)
    if limits is None:
        low, high = series.value_range(range(len(series.states)))
        margin = 0.05 * (high - low) or 0.5
        limits = low - margin, high + margin
    ax = axes_or_new(ax, (6.4, 3.8))
    line = draw_line(ax, series, 0, color=color(8))
    finish_lines(ax, series, limits, words)

    def update(row: int):
        line.set_ydata(series.at(row))
        ax.set_title(time_title(series, row, words), loc="left")

    return ax, update


def _map_movie(
    trajectory: Trajectory,
    ax: Any,
    *,
    name: str | None = None,
    colormap: Any = None,
    limits: Any = None,
    labels: Any = None,
) -> tuple[Any, Update]:
    series = field_series(trajectory, name)
    words, rows = labels_of(series, labels), range(len(series.states))
    ax = map_axes(series, ax)
    scale = scale_of(series, rows, colormap, limits)
    image = draw_titled_map(ax, series, 0, scale, words)

    def update(row: int):
        image.set_data(series.at(row).T)
        ax.set_title(time_title(series, row, words), loc="left")

    return ax, update


def _slices_movie(
    trajectory: Trajectory,
    ax: Any,
    *,
    name: str | None = None,
    at: Any = None,
    colormap: Any = None,
    limits: Any = None,
    labels: Any = None,
) -> tuple[Any, Update]:
    series = field_series(trajectory, name)
    words, rows = labels_of(series, labels), range(len(series.states))
    planes, axes = planes_of(series, at), slice_axes(series, ax)
    scale = scale_of(series, rows, colormap, limits)
    images = draw_slices(axes, series, 0, planes, scale, words)

    def update(row: int):
        field = series.at(row)
        for image, plane in zip(images, planes, strict=True):
            image.set_data(plane.of(field))
        title_slices(axes, series, row, planes, words)

    return axes, update


def _state_movie(
    trajectory: Trajectory, ax: Any, *, names: Any = None, labels: Any = None
) -> tuple[Any, Update]:
    ax = state_lines(trajectory, ax=ax, names=names, labels=labels)
    times = np.asarray(trajectory.times)
    now = ax.axvline(times[0], color=INK, linewidth=0.8)
    return ax, lambda row: now.set_xdata([times[row], times[row]])


#: Part of the outputs that a trail is long.
_TRAIL = 0.2


def _orbit_movie(
    trajectory: Trajectory,
    ax: Any,
    *,
    plane: str = "xy",
    unit: str | None = None,
    labels: Any = None,
) -> tuple[Any, Update]:
    """Axes with the paths of all times, and a function that moves the bodies."""
    one_of("plane", plane, PLANES)
    across, up = ("xyz".index(letter) for letter in plane)
    positions = np.asarray(trajectory.states.positions)
    x, y = positions[..., across], positions[..., up]
    words = Labels(labels, ("time",))
    ax = axes_or_new(ax, (5.6, 5.6))
    trails = []
    for body, name in enumerate(trajectory.names or [""] * x.shape[1]):
        ink = color(body)
        ax.plot(x[:, body], y[:, body], color=ink, linewidth=0.6, alpha=0.5)
        [trail] = ax.plot([], [], color=ink, linewidth=1.6)
        [dot] = ax.plot([], [], "o", color=ink, markersize=5)
        trails += [(trail, dot, write_beside(ax, np.zeros(2), name, ink))]
    label_orbits(ax, plane, f" [{unit}]" if unit else "")
    times, length = np.asarray(trajectory.times), max(2, int(_TRAIL * len(x)))

    def update(row: int):
        recent = slice(max(0, row + 1 - length), row + 1)
        for body, (trail, dot, name) in enumerate(trails):
            trail.set_data(x[recent, body], y[recent, body])
            dot.set_data(x[row : row + 1, body], y[row : row + 1, body])
            name.xy = x[row, body], y[row, body]
        ax.set_title(words.value("time", times[row]), loc="left")

    return ax, update


#: Frames from which the colors of all are taken, and how many these are. Of twice as
#: many a file is a fifth larger, and colors are no truer.
_SAMPLES, _COLORS = 8, 128


def movie_writer(
    path: Path, fps: float | int
) -> "matplotlib.animation.AbstractMovieWriter":
    """The writer of a file of this name.

    **Raises:** `ValueError` for another kind of file or no such folder, `RuntimeError`
    where ffmpeg is missing.
    """
    animation = module("matplotlib.animation")
    check_file("path", path)
    # Else it is missed when all frames are drawn.
    if not path.absolute().parent.is_dir():
        raise ValueError(f"path must lie in a folder that exists, got {str(path)!r}")
    kind = path.suffix.lower()
    one_of("the ending of path", kind, (".gif", ".mp4", ".m4v"))
    if kind == ".gif":
        return _gif_writer(animation, fps)
    if not animation.FFMpegWriter.isAvailable():
        raise RuntimeError(
            f"animate writes {kind} by ffmpeg, which is not installed: `conda install "
            "ffmpeg`, or that of your system; .gif needs nothing more"
        )
    return animation.FFMpegWriter(fps=fps)


def _gif_writer(
    animation: Any, fps: float | int
) -> "matplotlib.animation.AbstractMovieWriter":
    """A writer whose frames share their colors."""
    image = module("PIL.Image")

    class SharedPaletteWriter(animation.PillowWriter):
        """Matplotlib's own takes 256 colors for each frame.

        What stays then changes by a shade from frame to frame and is stored again, in
        files of twice the size.
        """

        def finish(self):
            first, *others = _with_shared_palette(image, self._frames)
            first.save(
                self.outfile,
                save_all=True,
                append_images=others,
                duration=int(1000 / self.fps),
                loop=0,
            )

    return SharedPaletteWriter(fps=fps)


def _with_shared_palette(image: Any, frames: list[Any]) -> list[Any]:
    """Frames in the colors that cover those of all of them best."""
    some = frames[:: max(1, len(frames) // _SAMPLES)]
    width, height = frames[0].size
    together = image.new("RGB", (width, height * len(some)))
    for number, frame in enumerate(some):
        together.paste(frame, (0, height * number))
    palette = together.quantize(_COLORS, method=image.Quantize.MAXCOVERAGE)
    plain = {"palette": palette, "dither": image.Dither.NONE}
    frames = [frame.convert("RGB").quantize(**plain) for frame in frames]
    # A color stands for all that are near, also for those of paper, which stays white.
    colors, paper = palette.getpalette(), frames[0].getpixel((0, 0))
    colors[3 * paper : 3 * paper + 3] = together.getpixel((0, 0))
    for frame in frames:
        frame.putpalette(colors)
    return frames
