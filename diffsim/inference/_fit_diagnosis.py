"""Diagnosis of what fails: swapped arguments, the first number that is not finite."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from .._types import PyTree
from ..simulations import Trajectory, failures_as_nan
from ._likelihoods import DataLayout, data_layout
from ._posterior import Posterior


@contextlib.contextmanager
def explain_swapped(
    predict: Callable, model: PyTree, data: PyTree, *, order: str
) -> Iterator[None]:
    """Raise `ValueError` with the `order` where what fails inside works the other way.

    That is the case if `predict(data)` is laid out like the model, and
    `predict(model)` not like the data.
    """
    try:
        yield
    except Exception as error:
        if data is None or not _are_swapped(predict, model, data):
            raise
        raise ValueError(
            "model and data look swapped: predict(data) returns arrays of the shapes "
            f"of model, and predict(model) none of the shapes of data; write {order}"
        ) from error


def _are_swapped(predict: Callable, model: PyTree, data: PyTree) -> bool:
    expected, given = data_layout(model), data_layout(_states(data))
    if expected == given:
        return False
    return _predicted(predict, data) == expected and _predicted(predict, model) != given


def _predicted(predict: Callable, model: PyTree) -> DataLayout | None:
    """The layout of a prediction, None where there is none."""
    try:
        with failures_as_nan(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eqx.filter_eval_shape(predict, model)
    except Exception:
        # Whatever a user's function raises of what it is not made for.
        return None
    return data_layout(_states(found))


def _states(tree: PyTree) -> PyTree:
    return tree.states if isinstance(tree, Trajectory) else tree


def first_not_finite(experiment: Posterior, values: Array) -> str:
    """A clause that names the leaf and the time, or the entry; empty if all is finite.

    Of a trajectory the earliest time counts, of other pytrees the first leaf.
    """
    if experiment.batch is not None:
        return ""
    states, times = _states_and_times(experiment, values)
    paths, _ = jax.tree_util.tree_flatten_with_path(states)
    wrong = [(path, np.asarray(x)) for path, x in paths if not np.all(np.isfinite(x))]
    if not wrong:
        return ""
    if times is not None and np.ndim(times) == 1:
        rows = [_first_row(x) for _, x in wrong]
        row = min(rows)
        leaf = _name(wrong[rows.index(row)][0], "the state")
        at = f"{leaf} at time {float(np.asarray(times)[row]):.6g}"
    else:
        path, x = wrong[0]
        entry = np.unravel_index(int(np.argmin(np.isfinite(x))), x.shape)
        index = f"[{', '.join(map(str, entry))}]" if entry else ""
        at = f"{_name(path, 'the prediction')}{index}"
    return f"the first number that is not finite is {at}"


def _first_row(x: np.ndarray) -> int:
    return int(np.argmin(np.isfinite(x).reshape(x.shape[0], -1).all(axis=1)))


def _name(path: Any, alone: str) -> str:
    return jax.tree_util.keystr(path).lstrip(".") or alone


@fresh_jit
def _states_and_times(
    experiment: Posterior, values: Array
) -> tuple[PyTree, Array | None]:
    with failures_as_nan():
        found = experiment.predict(experiment.parameters.model(values))
    if isinstance(found, Trajectory):
        return found.states, jnp.asarray(found.times)
    return found, None
