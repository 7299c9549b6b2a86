"""Where a prediction that is not finite goes wrong first."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from .._types import PyTree
from ..simulations import Trajectory, failures_as_nan
from ._posterior import Posterior


def first_not_finite(experiment: Posterior, values: Array) -> str:
    """A clause that names the leaf and the time, or the entry; empty if all is finite.

    Of a trajectory the earliest time counts, of other pytrees the first leaf.
    """
    if experiment.batch is not None:
        return ""
    states, times = _predicted(experiment, values)
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
def _predicted(experiment: Posterior, values: Array) -> tuple[PyTree, Array | None]:
    with failures_as_nan():
        found = experiment.predict(experiment.parameters.model(values))
    if isinstance(found, Trajectory):
        return found.states, jnp.asarray(found.times)
    return found, None
