"""`streamlines` and `vectors`: where a flow in two dimensions goes."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ._color_scales import ColorScale
from ._derived_fields import has_velocity, velocity_of
from ._field_map import draw_titled_map, labels_of, map_axes, scale_of
from ._field_series import field_series
from ._style import INK, look, module


if TYPE_CHECKING:
    import matplotlib.axes


#: Arrows along the longer side of a map so many inches long.
_ARROWS, _INCHES = 24, 4.5


@dataclasses.dataclass(frozen=True)
class _FlowMap:
    """A velocity in the centers of cells, over the map of a field in axes."""

    axes: Any
    x: np.ndarray
    y: np.ndarray
    velocity: np.ndarray
    scale: ColorScale

    @property
    def ink(self) -> str:
        """Dark where the colors between are light, light on others."""
        return INK if self.scale.diverging else "white"


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
    with look():
        flow = _flow_map(
            source, background, time, ax=ax, limits=limits, grid=grid, labels=labels
        )
        before = set(flow.axes.patches)
        drawn = flow.axes.streamplot(
            flow.x,
            flow.y,
            *flow.velocity.swapaxes(1, 2),
            density=_line_density(flow, _checked_density(density)),
            color=flow.ink,
            linewidth=0.7,
            arrowsize=0.7,
        )
        heads = set(flow.axes.patches) - before
        _outline(flow, drawn.lines, *heads)
    return flow.axes


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
    with look():
        flow = _flow_map(
            source, background, time, ax=ax, limits=limits, grid=grid, labels=labels
        )
        arrows = _ARROWS * _checked_density(density) * _room(flow.axes)
        step = max(1, round(max(flow.velocity.shape[1:]) / arrows))
        keep = slice(step // 2, None, step)
        velocity = flow.velocity[:, keep, keep].swapaxes(1, 2)
        x, y = flow.x[keep], flow.y[keep]
        arrows = flow.axes.quiver(
            x,
            y,
            *velocity,
            angles="xy",
            scale_units="xy",
            scale=_speed_per_length(velocity, flow.x[step] - flow.x[0]),
            pivot="mid",
            color=flow.ink,
            width=0.0028,
        )
        _outline(flow, arrows)
    return flow.axes


def _flow_map(
    source: Any,
    background: str,
    time: Any,
    *,
    ax: Any,
    limits: Any,
    grid: Any,
    labels: Any,
) -> _FlowMap:
    """The map below, and the velocity in the centers of cells, NaN in obstacles."""
    series = field_series(source, None, grid, vector=True)
    if series.place.grid.ndim != 2 or not has_velocity(series.place):
        raise ValueError(
            "streamlines and vectors draw flows on two axes, got "
            f"{', '.join(series.place.names)} on {series.place.grid.ndim}; a velocity "
            "of shape (2, *grid) is drawn with grid=..."
        )
    if min(series.place.grid.shape) < 2:
        raise ValueError(
            "streamlines and vectors need two cells along each axis, got "
            f"{series.place.grid.shape}"
        )
    series = field_series(source, background, grid, vector=True)
    row = series.row(time)
    scale = scale_of(series, [row], None, limits)
    ax = map_axes(series, ax)
    draw_titled_map(ax, series, row, scale, labels_of(series, labels))
    velocity = np.array(velocity_of(series.states[row], series.place), float)
    if series.solid is not None:
        velocity[:, series.solid] = np.nan
    return _FlowMap(ax, series.along(0), series.along(1), velocity, scale)


def _checked_density(density: Any) -> float:
    if np.ndim(density) or not 0 < density < np.inf:
        raise ValueError(f"density must be a positive number, got {density!r:.60}")
    return float(density)


def _room(ax: Any) -> float:
    """For how much more there is room on axes than on those of 4.5 inches."""
    size = ax.get_window_extent().size / ax.figure.dpi
    return float(np.clip(size.max() / _INCHES, 0.6, 1.4))


def _line_density(flow: _FlowMap, density: float) -> tuple[float, float]:
    """Along both axes, so that lines are not crowded across a long domain.

    Matplotlib takes multiples of 30 lines along each axis, however long.
    """
    sizes = np.array([np.ptp(flow.x), np.ptp(flow.y)])
    across, up = np.maximum(sizes / sizes.max(), 0.6) * density * _room(flow.axes)
    return float(across), float(up)


def _speed_per_length(velocity: np.ndarray, apart: float) -> float:
    """Of arrows, so that a few fast ones do not make dots of all others."""
    speed = np.hypot(*velocity)
    speed = speed[np.isfinite(speed)]
    if not speed.size or speed.max() == 0:
        return 1.0
    return max(np.quantile(speed, 0.9) / (1.5 * apart), speed.max() / (3 * apart))


def _outline(flow: _FlowMap, *artists: Any):
    """A dark rim around light lines, which else are lost on the lightest colors."""
    if flow.ink != INK:
        effects = module("matplotlib.patheffects")
        for artist in artists:
            artist.set_path_effects([effects.withStroke(linewidth=1.8, foreground=INK)])
