"""`Trajectory`: what a run returns."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from .._extras import Variable, dataframe, dataset, pictures
from .._results import RESULTS, result_message
from .._text_table import (
    MOST_ROWS,
    Block,
    Table,
    and_more,
    first_lines,
    html_representation,
    text_representation,
)
from .._types import PyTree
from .._validation import check_known
from ._events._event import EventRecord
from ._state_axes import AbstractStateAxes, StateAxes


if TYPE_CHECKING:
    import matplotlib.animation
    import matplotlib.axes
    import pandas
    import xarray


class FinalState(eqx.Module):
    """Where a run ended: `simulate(..., start=trajectory.final)` goes on from here."""

    t: float | Array
    y: PyTree[Array]


class Trajectory(eqx.Module):
    """A simulated trajectory.

    ```python
    system = problems.outer_solar_system()
    trajectory = ds.simulate(system, [0.0, 50.0, 100.0])  # a ds.Trajectory
    trajectory.states.positions  # shape (3, 5, 3): time, body, axis
    trajectory["Jupiter"].positions  # shape (3, 3)
    ds.simulate(system, 200.0, start=trajectory.final)
    ```

    **Fields**

    - `times`: the output times as given, shape (time,) or ().
    - `states`: observed states with a leading time axis (none for a scalar time).
    - `result`: `RESULTS.successful`, or why the run failed; `RESULTS[result]` says what
        to try. Of two directions of time, the one that failed.
    - `stats`: numbers of steps, summed over both directions.
    - `final`: internal state where the run ended: at the last time, or at the first if
        none lies after the epoch. At fixed steps it is the grid point that the run has
        reached on its way there, so that a restarted run stays on the same grid.
    - `steps`: ends of the accepted steps of an adaptive run, ascending, padded with
        infinity; None at fixed steps. `Method.freeze_steps` replays them.
    - `events`: an `EventRecord` for each `Event` that was asked for.
    - `error_estimate`: of the solver, in any number of the states, if
        `simulate(..., error_estimate=True)`; else None.
    - `axes`: names of the parts and axes of `states`, an `AbstractStateAxes`, where the
        simulation has any: `trajectory["Earth"]` has the states of that body,
        `trajectory["density"]` that field. `names` has all of them.
    """

    times: Array | np.ndarray
    states: PyTree[Array]
    result: RESULTS
    stats: dict[str, Any]
    final: FinalState
    steps: Array | np.ndarray | None
    events: tuple[EventRecord, ...] = ()
    error_estimate: Array | None = None
    axes: AbstractStateAxes | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of bodies or of fields, which `trajectory[name]` finds."""
        return self._axes.names

    @property
    def _axes(self) -> AbstractStateAxes:
        return self.axes or StateAxes.from_pytree(self.states)

    def __getitem__(self, name: Any) -> PyTree[Array]:
        """The states of the body or the field of this name, by time."""
        if name not in self.names:
            listed = ", ".join(self.names) or "no names"
            raise KeyError(
                f"trajectory has {listed}, got {name!r}; trajectory.states has the "
                "states of all, by time"
            )
        return self._axes.select(self.states, name)

    def to_xarray(self) -> "xarray.Dataset":
        """The states as an `xarray.Dataset`, with named axes and their coordinates.

        Of bodies `positions` and `velocities` along (time, body, axis); of fields each
        along (time, x, y); of other states a variable for each array in them, see
        `AbstractSimulation.state_axes`. Attributes say how the run went.

        ```python
        trajectory = ds.simulate(problems.outer_solar_system(), [0.0, 50.0, 100.0])
        dataset = trajectory.to_xarray()
        dataset.positions.sel(body="Saturn", axis="x")
        dataset.to_netcdf("orbits.nc")
        ```

        **Raises:** `ValueError` for a batch of trajectories; `ImportError` with the
        `pip` command where xarray is missing.

        **Limits:** events are not in it (convenience). NetCDF holds no complex numbers,
        Zarr does (mathematics of the format).
        """
        variables = self._axes.variables(self.states, self._leading())
        attributes: dict[str, Any] = {"result": self._outcome()}
        if self.error_estimate is not None:
            attributes["error_estimate"] = float(self.error_estimate)
        return dataset(*self._labeled(variables), attributes)

    def to_dataframe(self) -> "pandas.DataFrame":
        """The states as a `pandas.DataFrame`, a row for each time and place.

        Of bodies the rows are (time, body) and the columns x, y, z, vx, vy, vz; of
        fields the rows are (time, x, y) and the columns the fields.

        **Raises:** `ValueError` for a batch of trajectories, and for states whose
        arrays have different axes, which `to_xarray` holds; `ImportError` with the
        `pip` command where pandas is missing.
        """
        columns = self._axes.columns(self.states, self._leading())
        return dataframe(*self._labeled(columns))

    def _outcome(self) -> str:
        """How the run ended, in words."""
        check_known("trajectory", self)
        outcome = result_message(self.result)
        if outcome is None:
            raise ValueError(
                "trajectory must be one, got a batch; one of them is "
                "jax.tree.map(lambda x: x[0], trajectory)"
            )
        return outcome

    def _leading(self) -> int:
        """The number of axes of time."""
        self._outcome()
        return np.ndim(self.times)

    def _labeled(
        self, variables: dict[str, Variable]
    ) -> tuple[dict[str, Variable], dict[str, Any]]:
        """Variables with the axis of times in front, and all coordinates."""
        time = ("time",)[: np.ndim(self.times)]
        variables = {name: (time + of, x) for name, (of, x) in variables.items()}
        return variables, {"time": self.times} | self._axes.coordinates()

    def plot(self, **options: Any) -> "matplotlib.axes.Axes | np.ndarray":
        """Draw the trajectory as its kind asks, and return Matplotlib axes.

        Orbits of bodies, maps or lines of fields, three slices of those in space, each
        number over time of other states; `options` are those of `plots.trajectory`,
        `ax=` among them.
        """
        return pictures().trajectory(self, **options)

    def animate(
        self, path: Any = None, **options: Any
    ) -> "matplotlib.animation.FuncAnimation":
        """Draw a movie and write it to `path`, a GIF or MP4; see `plots.animate`."""
        return pictures().animate(self, path, **options)

    def __repr__(self) -> str:
        return text_representation(self, _text)

    def _repr_html_(self) -> str:
        return html_representation(self, _table)


def _text(trajectory: Trajectory) -> list[Block]:
    headline, rows = _description(trajectory)
    return [headline, *("  " + " ".join(row) for row in rows)]


def _table(trajectory: Trajectory) -> list[Block]:
    headline, rows = _description(trajectory)
    return [headline, Table((), rows, align="<")]


def _description(trajectory: Trajectory) -> tuple[str, list[tuple[str, str]]]:
    """How the run ended, and what else there is to know, by name."""
    outcome = trajectory._outcome()
    ends = (f"{t:.6g}" for t in (np.min(trajectory.times), np.max(trajectory.times)))
    ends = " to ".join(dict.fromkeys(ends))
    steps = trajectory.stats["num_accepted_steps"]
    rows = [("states", first_lines(eqx.tree_pformat(trajectory.states)))]
    if trajectory.error_estimate is not None:
        rows += [("error of the solver", f"about {trajectory.error_estimate:.2g}")]
    for i, found in enumerate(trajectory.events[:MOST_ROWS]):
        when = ", ".join(f"{t:.6g}" for t in found.times[: int(found.count)][:3])
        when = f", first at {when}" if when else ""
        rows += [(f"event {i}:", f"{found.count} of up to {found.times.size}{when}")]
    if len(trajectory.events) > MOST_ROWS:
        rows += [("events", and_more(len(trajectory.events) - MOST_ROWS))]
    return f"{outcome}: t = {ends}, {steps} steps", rows
