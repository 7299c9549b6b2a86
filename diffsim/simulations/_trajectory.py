"""`Trajectory`: what a run returns."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from .._results import RESULTS, result_message
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

    def __str__(self) -> str:
        outcome = result_message(self.result)
        if outcome is None:
            return repr(self)
        ends = (f"{t:.6g}" for t in (np.min(self.times), np.max(self.times)))
        ends = " to ".join(dict.fromkeys(ends))
        lines = [
            f"{outcome}: t = {ends}, {self.stats['num_accepted_steps']} steps",
            f"  states {eqx.tree_pformat(self.states)}",
        ]
        if self.error_estimate is not None:
            lines.append(f"  error of the solver about {self.error_estimate:.2g}")
        for i, found in enumerate(self.events):
            when = ", ".join(f"{t:.6g}" for t in found.times[: int(found.count)][:3])
            lines.append(f"  event {i}: {found.count} of up to {found.times.size}")
            lines[-1] += f", first at {when}" if when else ""
        return "\n".join(lines)
