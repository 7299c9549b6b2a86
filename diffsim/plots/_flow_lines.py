"""`streamlines` and `vectors`: where a flow in two dimensions goes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import positive, scalar
from ._derived_fields import has_velocity, velocity_of
from ._field_map import draw_titled_map, labels_of, map_axes, scale_of
from ._field_series import FieldSeries, field_series
from ._style import INK, look, module


if TYPE_CHECKING:
    import matplotlib.axes


#: Arrows along the longer side of a map so many inches long.
_ARROWS, _INCHES = 24, 4.5


def streamlines(
    source: Any,
    background: str = "speed",
    *,
    time: Any = None,
    ax: Any = None,
    density: float | int = 1.0,
    limits: Any = None,
    grid: Any = None,
    labels: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw lines along the velocity of a flow on a plane, over a map of a field.

    $$\frac{dx}{ds} = u(x, t) \quad \text{at one time } t$$

    ```python
    walls = pde.NoSlip(), (pde.NoSlip(), pde.NoSlip((1.0, 0.0)))
    cavity = pde.IncompressibleFlow(0.01, pde.Grid((32, 32)), walls)
    trajectory = ds.simulate(cavity, [0.0, 1.0])
    plots.streamlines(trajectory, "vorticity")
    ```

    **Arguments**

    - `source`: the `Trajectory` of an `IncompressibleFlow`, or of an `Evolution` of
        `NavierStokesVelocity`, `NavierStokesVorticity`, `Euler` or `ShallowWater`; or,
        with `grid`, a velocity of shape (2, *grid), or a state of a simulation.
    - `background`: the field below, a name as for `field`: "speed" or "vorticity".
    - `time`: the nearest output is drawn; None takes the last.
    - `ax`: Matplotlib axes to draw into; None makes a figure.
    - `density`: of the lines; 2 draws about twice as many. On smaller axes there are
        fewer.
    - `limits`, `grid`, `labels`: as for `field`.

    **Returns:** the axes.

    **Raises:** `ValueError` for states that tell no velocity, and in one or three
    dimensions.

    **Limits:** of a vorticity the flow of mean zero is drawn (mathematics: its state
    does not know another).
    """
    positive("density", scalar("density", density))
    with look():
        series, velocity, ax, ink = _flow_map(
            source, background, time, ax=ax, limits=limits, grid=grid, labels=labels
        )
        x, y = series.along(0), series.along(1)
        # Matplotlib takes multiples of 30 lines along each axis, however long: fewer
        # across the short one, so that lines are not crowded there.
        sizes = np.array([np.ptp(x), np.ptp(y)])
        across, up = np.maximum(sizes / sizes.max(), 0.6) * density * _room(ax)
        before = set(ax.patches)
        drawn = ax.streamplot(
            x,
            y,
            *velocity.swapaxes(1, 2),
            density=(float(across), float(up)),
            color=ink,
            linewidth=0.7,
            arrowsize=0.7,
        )
        _outline(ink, drawn.lines, *set(ax.patches) - before)
    return ax


def vectors(
    source: Any,
    background: str = "speed",
    *,
    time: Any = None,
    ax: Any = None,
    density: float | int = 1.0,
    limits: Any = None,
    grid: Any = None,
    labels: Any = None,
) -> "matplotlib.axes.Axes":
    """Draw arrows along the velocity of a flow on a plane, over a map of a field.

    ```python
    torus = pde.Grid((32, 32), 0.0, 2 * np.pi)
    x, y = torus.centers
    vortices = jnp.stack([jnp.sin(x) * jnp.cos(y), -jnp.cos(x) * jnp.sin(y)])
    plots.vectors(vortices, grid=torus)  # those of Taylor and Green
    ```

    About 24 arrows stand along the longer side of a map 4.5 inches long, fewer on
    smaller ones, each for the cell in its middle. One in ten is longer than 1.5 times
    their distance, none longer than 3 times.

    **Arguments**

    - `source`, `background`, `time`, `ax`, `limits`, `grid`, `labels`: as for
        `streamlines`.
    - `density`: of the arrows; 2 draws twice as many along each axis.

    **Returns:** the axes.

    **Raises:** `ValueError` as `streamlines`.
    """
    positive("density", scalar("density", density))
    with look():
        series, velocity, ax, ink = _flow_map(
            source, background, time, ax=ax, limits=limits, grid=grid, labels=labels
        )
        count = _ARROWS * density * _room(ax)
        step = max(1, round(max(velocity.shape[1:]) / count))
        keep = slice(step // 2, None, step)
        velocity = velocity[:, keep, keep].swapaxes(1, 2)
        x, y = series.along(0), series.along(1)
        # Speed per length: a few fast arrows do not make dots of all others.
        speed, apart = np.hypot(*velocity), x[step] - x[0]
        speed = speed[np.isfinite(speed)]
        scale = 1.0
        if speed.size and speed.max() > 0:
            scale = max(np.quantile(speed, 0.9) / 1.5, speed.max() / 3) / apart
        arrows = ax.quiver(
            x[keep],
            y[keep],
            *velocity,
            angles="xy",
            scale_units="xy",
            scale=scale,
            pivot="mid",
            color=ink,
            width=0.0028,
        )
        _outline(ink, arrows)
    return ax


def _flow_map(
    source: Any,
    background: str,
    time: Any,
    *,
    ax: Any,
    limits: Any,
    grid: Any,
    labels: Any,
) -> tuple[FieldSeries, np.ndarray, Any, str]:
    """The field below, the velocity, NaN in obstacles, the axes, and an ink.

    The ink is dark where the colors between are light, and light on others.
    """
    place = field_series(source, None, grid, vector=True).place
    if place.grid.ndim != 2 or not has_velocity(place):
        raise ValueError(
            "streamlines and vectors draw flows on two axes, got "
            f"{', '.join(place.names)} on {place.grid.ndim}; a velocity of shape "
            "(2, *grid) is drawn with grid=..."
        )
    series = field_series(source, background, grid, vector=True)
    row = series.row(time)
    scale = scale_of(series, [row], None, limits)
    ax = map_axes(series, ax)
    draw_titled_map(ax, series, row, scale, labels_of(series, labels))
    velocity = np.array(velocity_of(series.states[row], place), float)
    if series.solid is not None:
        velocity[:, series.solid] = np.nan
    return series, velocity, ax, INK if scale.diverging else "white"


def _room(ax: Any) -> float:
    """The length of axes over that of axes of 4.5 inches."""
    size = ax.get_window_extent().size / ax.figure.dpi
    return float(np.clip(size.max() / _INCHES, 0.6, 1.4))


def _outline(ink: str, *artists: Any):
    """A dark rim around light lines, which else are lost on the lightest colors."""
    if ink != INK:
        effects = module("matplotlib.patheffects")
        for artist in artists:
            artist.set_path_effects([effects.withStroke(linewidth=1.8, foreground=INK)])
