"""Bodies that move along their paths, with trails."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..simulations import Trajectory
from ._axis_labels import Labels
from ._orbits import plane_components
from ._style import axes_or_new, color, module


if TYPE_CHECKING:
    import matplotlib.text


#: Part of the outputs that a trail is long.
_TRAIL = 0.2


def orbit_movie(
    trajectory: Trajectory, ax: Any, options: dict[str, Any]
) -> tuple[Any, Callable[[int], None]]:
    """Axes with the paths of all times, and a function that moves the bodies."""
    positions = np.asarray(trajectory.states.positions)
    plane = options["plane"] or "xy"
    if len(plane_components(plane)) == 3:
        raise ValueError("plane must be two letters for a movie, 'xy' say, got 'xyz'")
    across, up = plane_components(plane)
    x, y = positions[..., across], positions[..., up]
    unit = f" [{options['unit']}]" if options["unit"] else ""
    words = Labels(options["labels"], ("time",))
    ax = axes_or_new(ax, (5.6, 5.6))
    names = trajectory.names or [""] * x.shape[1]
    trails = []
    for body, name in enumerate(names):
        ink = color(body)
        ax.plot(x[:, body], y[:, body], color=ink, linewidth=0.6, alpha=0.5)
        [trail] = ax.plot([], [], color=ink, linewidth=1.6)
        [dot] = ax.plot([], [], "o", color=ink, markersize=5)
        trails += [(trail, dot, _name_beside(ax, name, ink))]
    ax.set(xlabel=plane[0] + unit, ylabel=plane[1] + unit)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    times, length = np.asarray(trajectory.times), max(2, int(_TRAIL * len(x)))

    def update(row: int):
        recent = slice(max(0, row + 1 - length), row + 1)
        for body, (trail, dot, name) in enumerate(trails):
            trail.set_data(x[recent, body], y[recent, body])
            dot.set_data(x[row : row + 1, body], y[row : row + 1, body])
            name.xy = x[row, body], y[row, body]
        ax.set_title(words.value("time", times[row]), loc="left")

    return ax, update


def _name_beside(ax: Any, name: str, ink: str) -> "matplotlib.text.Annotation":
    effects = module("matplotlib.patheffects")
    return ax.annotate(
        name,
        (0.0, 0.0),
        (5, 4),
        textcoords="offset points",
        color=ink,
        fontsize="small",
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )
