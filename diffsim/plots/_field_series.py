"""`FieldSeries`: a field by time and where it lies, of a trajectory or an array."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._results import result_message
from .._validation import check_known, count, instance, one_of
from ..pde import Domain, FieldAxes, Grid
from ..simulations import AbstractSimulation, Trajectory
from ._derived_fields import default_name, derived, known_names
from ._series import checked_numbers


@dataclasses.dataclass(frozen=True)
class FieldSeries:
    """One field at each of some times, none of which need be known.

    States have shape (time, channel, *grid); what is derived from them is computed for
    the times that are drawn.
    """

    name: str
    place: FieldAxes
    times: np.ndarray | None
    states: np.ndarray

    def at(self, row: int) -> np.ndarray:
        """The field at one time, shape (*grid)."""
        return derived(self.name, self.states[row], self.place)

    @property
    def solid(self) -> np.ndarray | None:
        """Which cells lie in an obstacle, None where there is none."""
        solid = self.place.solid
        return None if solid is None else np.asarray(solid) > 0.5

    @property
    def corners(self) -> tuple[list[float], list[float]]:
        """Lower and upper corner of the grid."""
        grid = self.place.grid
        return np.asarray(grid.lower).tolist(), np.asarray(grid.upper).tolist()

    def along(self, axis: int) -> np.ndarray:
        """Coordinates of centers of cells along an axis, in double precision."""
        low, high = (corner[axis] for corner in self.corners)
        cells = self.place.grid.shape[axis]
        return low + (np.arange(cells) + 0.5) * (high - low) / cells

    def time(self, row: int) -> float | None:
        return None if self.times is None else float(self.times[row])

    def row(self, time: Any) -> int:
        """The output nearest to a time, the last one for None.

        **Raises:** `ValueError` for a time out of the range of outputs.
        """
        if time is None:
            return len(self.states) - 1
        if self.times is None:
            raise ValueError("time chooses among outputs, got one array; leave it out")
        first, last = self.times.min(), self.times.max()
        # Times of single precision end a rounding early.
        margin = 1e-6 * max(abs(first), abs(last))
        if not first - margin <= time <= last + margin:
            raise ValueError(
                f"time must be from {first:g} to {last:g}, where the trajectory has "
                f"outputs, got {time!r:.60}"
            )
        return int(np.argmin(np.abs(self.times - time)))

    def magnitude(self, rows: Sequence[int], part: float) -> float:
        """The quantile `part` of magnitudes, at the time when it is largest."""
        values = (np.abs(self._visible(row)) for row in rows)
        return max(float(np.quantile(x, part)) for x in values if x.size)

    def value_range(self, rows: Sequence[int]) -> tuple[float, float]:
        """The least and the largest finite value outside of obstacles at some times."""
        visible = [x for row in rows if (x := self._visible(row)).size]
        if not visible:
            raise ValueError(
                f"{self.name or 'the field'} must have finite values to be drawn, got "
                "none; trajectory.result says how its run ended"
            )
        return min(float(x.min()) for x in visible), max(
            float(x.max()) for x in visible
        )

    def _visible(self, row: int) -> np.ndarray:
        """The finite values outside of obstacles, shape (value,)."""
        field = self.at(row)
        visible = np.isfinite(field)
        return field[visible if self.solid is None else visible & ~self.solid]


def field_series(
    source: Any, name: str | None, grid: Any = None, *, vector: bool = False
) -> FieldSeries:
    """The field of this name in `source`, a `Trajectory`, or an array on `grid`.

    Channels of an array that nobody has named are those of a velocity if `vector`.

    **Raises:** `ValueError` for what has no such field.
    """
    if not isinstance(source, Trajectory):
        place, states = _on_grid(source, name, grid, vector)
        times, states = None, states[None]
    elif grid is not None:
        raise ValueError(
            "grid is for arrays; a trajectory brings its own, leave it out"
        )
    else:
        place = checked_trajectory(source).axes
        if not isinstance(place, FieldAxes):
            raise ValueError(
                "trajectory must have fields, as a pde.Evolution has them and an "
                "observe= has not; an array is drawn on grid=..."
            )
        times, states = (
            np.atleast_1d(np.asarray(source.times)),
            np.asarray(source.states),
        )
        states = states if np.ndim(source.times) else states[None]
    if np.iscomplexobj(states):
        raise ValueError("a field must be real to be drawn; draw its real part, say")
    name = default_name(place) if name is None else name
    one_of("name", name, known_names(place))
    return FieldSeries(name, place, times, states)


def checked_trajectory(trajectory: Any, least: int = 1) -> Trajectory:
    """One trajectory with at least so many times, not a batch."""
    instance("trajectory", trajectory, Trajectory, "simulate returns")
    check_known("trajectory", trajectory)
    if result_message(trajectory.result) is None:
        raise ValueError(
            "trajectory must be one, got a batch; one of them is "
            "jax.tree.map(lambda x: x[0], trajectory)"
        )
    count("the number of times of a trajectory", np.size(trajectory.times), least)
    return trajectory


def _on_grid(
    source: Any, name: str | None, grid: Any, vector: bool
) -> tuple[FieldAxes, np.ndarray]:
    """An array of shape (channel, *grid), and where it lies."""
    place = grid.state_axes() if isinstance(grid, AbstractSimulation) else grid
    if not isinstance(place, FieldAxes):
        # An array without a grid has no place.
        grid = instance("grid", grid, Grid | Domain, "pde.Grid((64, 64))")
        domain = grid if isinstance(grid, Domain) else Domain(grid)
        place = FieldAxes.of((), domain.grid, domain.boundary)
    states = checked_numbers("an array", source)
    shape, names = place.grid.shape, place.names
    if states.shape == shape:
        names, states = (name or "",), states[None]
    elif not names and vector and states.shape[:1] == (len(shape),):
        names = tuple(f"velocity_{axis}" for axis in "xyz"[: len(shape)])
    elif not names:
        names = tuple(f"u{i}" for i in range(len(states)))
    if states.shape != (len(names), *shape):
        raise ValueError(
            f"an array must have shape {shape}, that of its grid, or "
            f"{(len(names), *shape)}, and no axis of times, got {np.shape(source)}"
        )
    return FieldAxes(names, place.grid, place.boundary, place.solid), states
