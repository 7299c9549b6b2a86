"""Detection of a model and data that are swapped."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax

from .._types import PyTree
from ..simulations import AbstractSimulation, Trajectory, failures_as_nan
from ._likelihoods import DataLayout, data_layout


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


def check_not_simulation(data: PyTree):
    """Refuse data that hold a simulation, whose numbers are those of a model."""
    held = jax.tree.leaves(data, is_leaf=_is_simulation)
    found = next(filter(_is_simulation, held), None)
    if found is not None:
        raise ValueError(
            "data must be arrays as predict returns them, got the simulation "
            f"{type(found).__name__}; the order is fit(predict, model, data)"
        )


def _is_simulation(node: Any) -> bool:
    return isinstance(node, AbstractSimulation)
