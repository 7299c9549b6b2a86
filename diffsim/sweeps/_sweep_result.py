"""One run of a sweep: what `predict` returns, and whether it can be used."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jaxtyping import Array

from .._jaxpr._tracing import explain_tracer_errors
from .._linalg import largest_difference
from .._results import RESULTS, failures_as_nan, is_finite
from .._types import PyTree
from ..simulations import Trajectory, refined_steps


class RunOutcome(NamedTuple):
    """Outcome of one run, or of many along a leading axis."""

    outputs: PyTree[Array]
    status: RESULTS
    error: Any
    """of the solver, where that is asked"""
    derivative: PyTree[Array]
    """of the outputs, where that is asked, with the parameters along the last axis"""
    cost: Any = None
    """how often loops went round, where runs lie side by side that differ in it"""


def sweep_outcome(
    predict: Callable[[Any], Any], model: PyTree
) -> tuple[PyTree[Array], RESULTS]:
    """The outputs of `predict(model)` as arrays, and how the run went.

    The status is the first failure among the trajectories that were returned, and
    solutions of Diffrax and Optimistix, else whether all outputs are finite.
    """
    with failures_as_nan(), explain_tracer_errors("predict", predict):
        returned = predict(model)
    leaves = jax.tree.leaves(returned, is_leaf=_has_result)
    if not leaves:
        raise ValueError(
            f"predict must return arrays or a Trajectory, got {returned!r:.60}, in "
            "which there are none; look whether its return is missing"
        )
    status: Any = RESULTS.successful
    for solved in filter(_has_result, leaves):
        earlier = jnp.asarray(status != RESULTS.successful)
        status = RESULTS.where(earlier, status, _result_of(solved))
    usable = jnp.asarray(status != RESULTS.successful) | is_finite(numbers_in(leaves))
    status = RESULTS.where(usable, status, RESULTS.prediction_not_finite)
    return jax.tree.map(_keep, returned, is_leaf=_is_trajectory), status


def solver_error(
    predict: Callable[[Any], Any], model: PyTree, outputs: PyTree, status: RESULTS
) -> Array | None:
    """The largest difference of any number in `outputs` from those of finer steps.

    Of trajectories the states count. NaN where the run failed, infinite where it fails
    at finer steps, and None where nothing ran whose steps can be finer.
    """
    with refined_steps() as methods:
        finer, result = sweep_outcome(predict, model)
    if not methods:
        return None
    error = largest_difference(numbers_in(outputs), numbers_in(finer))
    error = jnp.where(jnp.asarray(result == RESULTS.successful), error, jnp.inf)
    return jnp.where(jnp.asarray(status == RESULTS.successful), error, jnp.nan)


def numbers_in(outputs: PyTree) -> PyTree:
    """The outputs themselves; of trajectories the states, of solutions the solution."""

    def numbers(x):
        match x:
            case Trajectory():
                return x.states
            case diffrax.Solution():
                return x.ys
            case optimistix.Solution():
                return x.value
        return x

    return jax.tree.map(numbers, outputs, is_leaf=_has_result)


def _has_result(x: Any) -> bool:
    return isinstance(x, Trajectory | diffrax.Solution | optimistix.Solution)


def _result_of(solved: Any) -> RESULTS:
    """How it went; that an event ended a solution is no failure."""
    if _is_trajectory(solved):
        return solved.result
    result = RESULTS.promote(solved.result)
    ended = jnp.asarray(result == RESULTS.event_occurred)
    return RESULTS.where(ended, RESULTS.successful, result)


def _is_trajectory(x: Any) -> bool:
    return isinstance(x, Trajectory)


def _keep(x: Any) -> PyTree[Array]:
    """Arrays; trajectories without their steps, which are padded to thousands."""
    if _is_trajectory(x):
        steps = lambda trajectory: trajectory.steps  # noqa: E731
        x = eqx.tree_at(steps, x, None, is_leaf=lambda leaf: leaf is None)
        return jax.tree.map(_array, x)
    return _array(x)


def _array(x: Any) -> Array:
    if eqx.is_array(x) or isinstance(x, bool | int | float | complex):
        return jnp.asarray(x)
    raise ValueError(
        f"predict must return arrays or a Trajectory, got {type(x).__name__} among "
        "what it returned"
    )


def failures_in(outcomes: RunOutcome) -> int:
    """How many runs failed."""
    return int(np.sum(np.asarray(outcomes.status != RESULTS.successful)))


class KeptInMemory:
    """Arrays with a leading axis for `runs` runs, filled as these are done."""

    def __init__(self, runs: int, shapes: RunOutcome):
        self.outcomes: RunOutcome = jax.tree.map(
            lambda x: np.empty((runs, *x.shape), x.dtype), shapes
        )

    def keep(self, runs: np.ndarray, outcomes: RunOutcome):
        """Take over the outcomes of some runs, by their numbers."""
        # A slice is copied in one go.
        first, last = runs[0], runs[-1]
        in_a_row = len(runs) == last - first + 1 and bool(np.all(np.diff(runs) == 1))
        here = slice(first, last + 1) if in_a_row else runs
        for all_, new in zip(
            *map(jax.tree.leaves, (self.outcomes, outcomes)), strict=True
        ):
            all_[here] = new
