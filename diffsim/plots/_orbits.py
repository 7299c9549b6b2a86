"""`orbits`: the paths of bodies, seen along an axis."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..nbody import State
from ..simulations import Trajectory
from ._style import color, module, new_axes


if TYPE_CHECKING:
    import matplotlib.axes


def orbits(
    trajectory: Any,
    *,
    names: Sequence[str] | None = None,
    axes: Any = None,
    plane: tuple[int, int] = (0, 1),
    unit: str | None = None,
    colors: Sequence[str] | None = None,
) -> "matplotlib.axes.Axes":
    """Draw the paths of bodies projected to a plane, a dot where each one ends.

    **Arguments**

    - `trajectory`: the `Trajectory` of an `NBody`, its states, or positions of shape
        (time, body, 3), as NumPy or JAX arrays; a length.
    - `names`: a label for each body, written beside its dot.
    - `axes`: matplotlib axes to draw into; None makes a figure.
    - `plane`: which two components are drawn, (0, 1) for x to the right and y up.
    - `unit`: of the lengths, for the labels of the axes, "au" say.
    - `colors`: one for each body; None takes the house's.

    **Returns:** the axes; `axes.figure.savefig("orbits.png")` writes them.

    **Raises:** `ValueError` for positions of another shape, or not a name for each
    body; `ImportError` with what to install where matplotlib is missing.

    **Limits:** a projection (convenience).
    """
    positions = _positions(trajectory)
    bodies = positions.shape[1]
    if names is not None and len(names) != bodies:
        raise ValueError(
            f"names must be one a body, got {len(names)} for {bodies} bodies"
        )
    across, up = (_component(plane, i) for i in (0, 1))
    axes = new_axes((5.6, 5.6)) if axes is None else axes
    for body in range(bodies):
        ink = color(body) if colors is None else colors[body]
        x, y = positions[:, body, across], positions[:, body, up]
        axes.plot(x, y, color=ink, linewidth=0.9, solid_capstyle="round")
        axes.plot(x[-1:], y[-1:], "o", color=ink, markersize=4.5)
        if names is not None:
            _written_beside(axes, (x[-1], y[-1]), names[body], ink)
    unit = "" if unit is None else f" [{unit}]"
    axes.set(xlabel="xyz"[across] + unit, ylabel="xyz"[up] + unit)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    return axes


def _written_beside(axes: Any, point: tuple[float, float], name: str, ink: str):
    effects = module("matplotlib.patheffects")
    axes.annotate(
        name,
        point,
        (5, 4),
        textcoords="offset points",
        color=ink,
        fontsize="small",
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )


def _positions(trajectory: Any) -> np.ndarray:
    states = trajectory.states if isinstance(trajectory, Trajectory) else trajectory
    positions = states.positions if isinstance(states, State) else states
    positions = np.asarray(positions)
    if positions.ndim != 3 or positions.shape[2] != 3:
        raise ValueError(
            "positions must have shape (time, body, 3), got "
            f"{positions.shape}; orbits need more than one time"
        )
    return positions


def _component(plane: tuple[int, int], which: int) -> int:
    if len(plane) != 2 or not set(plane) <= {0, 1, 2}:
        raise ValueError(f"plane must be two of the components 0, 1, 2, got {plane}")
    return plane[which]
