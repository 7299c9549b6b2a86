"""`Trajectory`: what a run returns."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

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
from ._events._event import EventRecord


class FinalState(eqx.Module):
    """Where a run ended: `simulate(..., start=trajectory.final)` goes on from here."""

    t: float | Array
    y: PyTree[Array]


class Trajectory(eqx.Module):
    """A simulated trajectory.

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
    - `names`: of the bodies, where they have any: `trajectory["Earth"]` has the states
        of that one.
    """

    times: Array | np.ndarray
    states: PyTree[Array]
    result: RESULTS
    stats: dict[str, Any]
    final: FinalState
    steps: Array | np.ndarray | None
    events: tuple[EventRecord, ...] = ()
    error_estimate: Array | None = None
    names: tuple[str, ...] | None = eqx.field(static=True, default=None)

    def __getitem__(self, name: Any) -> PyTree[Array]:
        """The states of the body of this name, without the axis of bodies."""
        if self.names is None or name not in self.names:
            listed = ", ".join(self.names or ()) or "no names"
            raise KeyError(
                f"trajectory has {listed}, got {name!r}; trajectory.states has the "
                "states of all, by time"
            )
        row = self.names.index(name)
        return jax.tree.map(lambda a: a[..., row, :], self.states)

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
    outcome = result_message(trajectory.result)
    if outcome is None:
        raise ValueError("trajectory must be one, got a batch")
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
