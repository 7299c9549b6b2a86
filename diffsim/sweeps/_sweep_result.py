"""One run of a sweep: what `predict` returns, and whether it can be used."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._linalg import largest_difference
from .._results import RESULTS, failures_as_nan, is_finite
from .._tracer_errors import explain_tracer_errors
from .._types import PyTree
from ..simulations import Trajectory, refined_steps


def sweep_outcome(
    predict: Callable[[Any], Any], model: PyTree
) -> tuple[PyTree[Array], RESULTS]:
    """The outputs of `predict(model)` as arrays, and how the run went.

    The status is the first failure among the trajectories that were returned, else
    whether all outputs are finite.
    """
    with failures_as_nan(), explain_tracer_errors("predict", predict):
        returned = predict(model)
    found = jax.tree.leaves(returned, is_leaf=_is_trajectory)
    if not found:
        raise ValueError(
            f"predict must return arrays or a Trajectory, got {returned!r:.60}, in "
            "which there are none; look whether its return is missing"
        )
    status: Any = RESULTS.successful
    for trajectory in filter(_is_trajectory, found):
        earlier = jnp.asarray(status != RESULTS.successful)
        status = RESULTS.where(earlier, status, trajectory.result)
    usable = jnp.asarray(status != RESULTS.successful) | is_finite(_numbers(found))
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
    error = largest_difference(_numbers(outputs), _numbers(finer))
    error = jnp.where(jnp.asarray(result == RESULTS.successful), error, jnp.inf)
    return jnp.where(jnp.asarray(status == RESULTS.successful), error, jnp.nan)


def _numbers(outputs: PyTree) -> PyTree:
    return jax.tree.map(
        lambda x: x.states if _is_trajectory(x) else x, outputs, is_leaf=_is_trajectory
    )


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
