"""Runs of more steps than one program takes, part after part."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import RESULTS
from ..._types import PyTree
from .._trajectory import Trajectory


#: Parts after which a person is told how long a run will take, a million steps of the
#: default bound, if that is this many times as long as it has taken.
_PARTS, _TIMES = 16, 4


class Outputs(NamedTuple):
    """Output times, and how long after the epoch they are, which has more digits."""

    times: Any
    elapsed: Any


class Restart(NamedTuple):
    """How long after the epoch a run goes on, and from what."""

    begin: Any
    y: PyTree[Array]


def continue_run(
    run: Callable[[Outputs, Restart], Trajectory], first: Trajectory, outputs: Outputs
) -> Trajectory:
    """The run that began with `first`, in one direction, to its end.

    All times are elapsed ones. Every part has all of the outputs, those that lie behind
    it at its beginning, so that no other part needs compiling.
    """
    sign = 1 if np.all(outputs.elapsed >= 0) else -1
    parts, warned = [first], False
    while parts[-1].result == RESULTS.max_steps_reached:
        last = parts[-1].final
        begin = np.asarray(last.t)
        ahead = sign * np.maximum(sign * outputs.elapsed, sign * begin)
        parts.append(run(outputs._replace(elapsed=ahead), Restart(begin, last.y)))
        if not warned and len(parts) >= _PARTS:
            warned = _warn_of_long_run(parts, sign * np.max(np.abs(outputs.elapsed)))
    return _concatenate_runs(parts, np.asarray(sign * outputs.elapsed), sign)


def _warn_of_long_run(parts: list[Trajectory], end: float) -> bool:
    """Warn of a run that will take far longer to its `end`; return whether it does."""
    before, now = (float(part.final.t) for part in parts[-2:])
    steps = sum(int(part.stats["num_steps"]) for part in parts)
    # At the rate of the last part, for steps may become shorter and shorter.
    with np.errstate(divide="ignore"):
        ahead = np.float64(abs(end - now)) / abs(now - before)
    total = steps + ahead * int(parts[-1].stats["num_steps"])
    if not total > _TIMES * steps:
        return False
    warnings.warn(
        f"a run has taken {steps} steps to t0 + {now:.6g} on the way to t0 + {end:.6g} "
        f"and goes on; at the rate of the last ones it takes {total:.2g}. Interrupt "
        "it, or bound it by simulate(max_steps=...); larger tolerances, rtol=..., take "
        "fewer steps, and so does an implicit solver where stability makes them short",
        # this function, `continue_run`, `_run_to_the_end`, `simulate`, the caller
        stacklevel=5,
    )
    return True


def _concatenate_runs(
    parts: list[Trajectory], elapsed: np.ndarray, sign: int
) -> Trajectory:
    ends = np.array([sign * np.asarray(part.final.t) for part in parts[:-1]])
    reached = elapsed.astype(ends.dtype)
    which = np.searchsorted(ends, reached, side="left")

    def chosen(*leaves):
        shape = *elapsed.shape, *[1] * (leaves[0].ndim - elapsed.ndim)
        index, found = which.reshape(shape), leaves[-1]
        for n, leaf in enumerate(leaves[:-1]):
            found = jnp.where(index == n, leaf, found)
        return found

    states = jax.tree.map(chosen, *(part.states for part in parts))
    return _concatenate_parts(parts, parts[-1].times, states, parts[-1].result)


def join_past_and_future(
    past: Trajectory, future: Trajectory, times: np.ndarray
) -> Trajectory:
    """One trajectory of its two directions of time."""
    states = jax.tree.map(
        lambda a, b: jnp.concatenate([a, b]), past.states, future.states
    )
    # One that failed says where the run ended.
    fine = past.result == RESULTS.successful
    parts = [past, future] if fine else [future, past]
    return _concatenate_parts(parts, times, states, parts[-1].result)


def _concatenate_parts(parts: list[Trajectory], times, states, result) -> Trajectory:
    """One trajectory of several, the last of which says where the run ended."""
    stats = jax.tree.map(lambda *counts: sum(counts), *(part.stats for part in parts))
    steps = np.sort(np.concatenate([np.asarray(part.steps) for part in parts]))
    found = (times, states, result, stats, parts[-1].final, steps)
    return Trajectory(*found, axes=parts[0].axes)
