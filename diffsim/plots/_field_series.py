"""`FieldSeries`: a field by time and where it lies, of a trajectory or an array."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._results import result_message
from .._validation import check_known
from ..pde import Domain, FieldAxes, Grid
from ..simulations import AbstractSimulation, Trajectory
from ._derived_fields import default_name, derived, known_names
from ._plot_options import checked_numbers


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
        count = self.place.grid.shape[axis]
        return low + (np.arange(count) + 0.5) * (high - low) / count

    def time(self, row: int) -> float | None:
        return None if self.times is None else float(self.times[row])

    def row(self, time: Any) -> int:
        """The output nearest to a time, the last one for None.

        **Raises:** `ValueError` for a time out of the range of outputs.
        """
        if time is None:
            return len(self.states) - 1
        if self.times is None:
            raise ValueError(
                f"time chooses among outputs of a trajectory, got time={time} and an "
                "array, which is of one time; leave it out"
            )
        first, last = self.times.min(), self.times.max()
        # Times of single precision end a rounding early.
        beyond = 1e-6 * max(abs(first), abs(last))
        number = np.asarray(time)
        known = number.ndim == 0 and number.dtype.kind in "fiu"
        if not known or not first - beyond <= number <= last + beyond:
            raise ValueError(
                f"time must be one time from {first:g} to {last:g}, where the "
                f"trajectory has outputs, got {time!r:.60}"
            )
        return int(np.argmin(np.abs(self.times - number)))

    def magnitude(self, rows: Sequence[int], part: float) -> float:
        """Below it lies this part of magnitudes, at the time when that is highest."""
        values = (np.abs(self._visible(row)) for row in rows)
        return max(float(np.quantile(x, part)) for x in values if x.size)

    def value_range(self, rows: Sequence[int]) -> tuple[float, float]:
        """The least and the largest finite value outside of obstacles at some times.

        **Raises:** `ValueError` where there is none.
        """
        seen = (self._visible(row) for row in rows)
        ends = [(float(x.min()), float(x.max())) for x in seen if x.size]
        if not ends:
            raise ValueError(
                f"{self.name or 'the field'} must have finite values to be drawn, got "
                "none at the times asked for; trajectory.result says how its run ended"
            )
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _visible(self, row: int) -> np.ndarray:
        """The finite values outside of obstacles, shape (value,)."""
        field = self.at(row)
        seen = np.isfinite(field)
        return field[seen if self.solid is None else seen & ~self.solid]


def field_series(
    source: Any, name: str | None, grid: Any = None, *, vector: bool = False
) -> FieldSeries:
    """The field of this name in `source`, a `Trajectory`, or an array on `grid`.

    Channels of an array that nobody has named are those of a velocity if `vector`.

    **Raises:** `ValueError` for what has no such field.
    """
    if isinstance(source, Trajectory):
        place, times, states = _of_trajectory(source, grid)
    else:
        place, times, states = _of_array(source, name, grid, vector)
    if np.iscomplexobj(states):
        raise ValueError(
            "a field must be real to be drawn, got complex numbers; draw its real or "
            "imaginary part or its magnitude"
        )
    name = default_name(place) if name is None else name
    if name not in known_names(place):
        raise ValueError(
            f"name must be one of {', '.join(known_names(place))}, which these states "
            f"have, got {name!r}"
        )
    return FieldSeries(name, place, times, states)


def check_one_trajectory(trajectory: Any):
    """Raise `ValueError` for what is no trajectory, and for a batch of them."""
    if not isinstance(trajectory, Trajectory):
        raise ValueError(
            "trajectory must be what simulate returns, got a "
            f"{type(trajectory).__name__}; plots.field and plots.orbits take arrays"
        )
    check_known("trajectory", trajectory)
    if result_message(trajectory.result) is None:
        raise ValueError(
            "trajectory must be one, got a batch; one of them is "
            "jax.tree.map(lambda x: x[0], trajectory)"
        )


def _of_trajectory(source: Trajectory, grid: Any):
    check_one_trajectory(source)
    if grid is not None:
        raise ValueError(
            "grid is for arrays; a trajectory brings its own, leave it out"
        )
    if not isinstance(source.axes, FieldAxes):
        raise ValueError(
            "trajectory must have fields, as those of a pde.Evolution and a "
            "pde.IncompressibleFlow do unless simulate has an observe=; got one with "
            f"{', '.join(source.names) or 'no names'}; an array is drawn on grid=..."
        )
    states = np.asarray(source.states)
    states = states if np.ndim(source.times) else states[None]
    return source.axes, np.atleast_1d(np.asarray(source.times)), states


def _of_array(source: Any, name: str | None, grid: Any, vector: bool):
    place = _place(grid)
    states = checked_numbers("an array", source)
    shape = place.grid.shape
    if states.shape == shape:
        names, states = ("" if name is None else name,), states[None]
    elif states.ndim == len(shape) + 1 and states.shape[1:] == shape:
        count = len(states)
        axes = "xyz"[:count] if vector and count == len(shape) else ""
        unnamed = [f"velocity_{axis}" for axis in axes] or [
            f"u{i}" for i in range(count)
        ]
        names = place.names or tuple(unnamed)
    else:
        names = ()
    if states.shape[:1] != (len(names),):
        raise ValueError(
            f"an array must have shape {shape}, that of its grid, or have one such "
            f"field for each of {', '.join(place.names) or 'its channels'} and no axis "
            f"of times, got {np.shape(source)}"
        )
    place = FieldAxes(names, place.grid, place.boundary, place.solid)
    return place, None, states[None]


def _place(grid: Any) -> FieldAxes:
    """Where an array lies, by a grid, a domain or a simulation."""
    if isinstance(grid, AbstractSimulation):
        grid = grid.state_axes()
    if isinstance(grid, FieldAxes):
        return grid
    if isinstance(grid, Domain):
        return FieldAxes.of((), grid.grid, grid.boundary)
    if isinstance(grid, Grid):
        return FieldAxes.of((), grid, Domain(grid).boundary)
    raise ValueError(
        "an array is drawn on grid=, a pde.Grid, a pde.Domain or the simulation of "
        f"fields that it is of, got grid={jax.tree.map(type, grid)!r:.60}"
    )
