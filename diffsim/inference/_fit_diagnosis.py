"""Diagnosis of what fails: swapped arguments, the first number that is not finite."""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from .._types import PyTree
from ..simulations import AbstractSimulation, Trajectory, failures_as_nan
from ._likelihoods import data_layout
from ._posterior import Posterior


def explain_swapped(
    error: Exception, predict: Callable, model: PyTree, data: PyTree, order: str
):
    """Raise `ValueError` with the `order` if model and data look swapped.

    They do if `predict(data)` is laid out like the model.
    """
    for node in jax.tree.leaves(data, is_leaf=_is_simulation):
        if _is_simulation(node):
            raise ValueError(
                "data must be arrays as predict returns them, got the simulation "
                f"{type(node).__name__}; the order is {order}"
            ) from error
    expected = data_layout(model)
    if data is None or expected == data_layout(_states(data)):
        return
    try:
        with failures_as_nan(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prediction = eqx.filter_eval_shape(predict, data)
    except Exception:
        # A user's function may raise anything where it is given another argument.
        return
    if data_layout(_states(prediction)) == expected:
        raise ValueError(
            "model and data look swapped: predict(data) returns arrays of the shapes "
            f"of model, and predict(model) none of the shapes of data; write {order}"
        ) from error


def _states(tree: PyTree) -> PyTree:
    return tree.states if isinstance(tree, Trajectory) else tree


def _is_simulation(node: Any) -> bool:
    return isinstance(node, AbstractSimulation)


def first_not_finite(experiment: Posterior, values: Array) -> str:
    """A clause that names the leaf and the time, or the entry; empty if all is finite.

    The earliest time of a trajectory counts, and the first leaf of other pytrees.
    """
    if experiment.batch is not None:
        return ""
    states, times = _states_and_times(experiment, values)
    paths, _ = jax.tree_util.tree_flatten_with_path(states)
    wrong = [
        (jax.tree_util.keystr(path).lstrip("."), np.asarray(x))
        for path, x in paths
        if not np.all(np.isfinite(x))
    ]
    if not wrong:
        return ""
    if times is not None and np.ndim(times) == 1:
        rows = [
            int(np.argmin(np.isfinite(x).reshape(x.shape[0], -1).all(axis=1)))
            for _, x in wrong
        ]
        row = min(rows)
        name = wrong[rows.index(row)][0] or "the state"
        where = f"{name} at time {float(np.asarray(times)[row]):.6g}"
    else:
        name, x = wrong[0]
        entry = np.unravel_index(int(np.argmin(np.isfinite(x))), x.shape)
        index = f"[{', '.join(map(str, entry))}]" if entry else ""
        where = f"{name or 'the prediction'}{index}"
    return f"the first number that is not finite is {where}"


@fresh_jit
def _states_and_times(
    experiment: Posterior, values: Array
) -> tuple[PyTree, Array | None]:
    with failures_as_nan():
        prediction = experiment.predict(experiment.parameters.model(values))
    if isinstance(prediction, Trajectory):
        return prediction.states, jnp.asarray(prediction.times)
    return prediction, None
