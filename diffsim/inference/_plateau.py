"""Detection of error bars that reach over a plateau of the loss."""

import numpy as np
from jaxtyping import Array, Bool, Float

from .._jit._fresh_jit import fresh_jit
from ._posterior import Posterior


# An error bar so many times a parameter and its start is looked at.
_SUSPICIOUS = 1e3
# Where the loss is quadratic it rises by 1/2 at least an error bar away.
_FLAT = 0.05


def on_plateau(
    experiment: Posterior,
    values: Array,
    stderr: Float[Array, " parameter"],
    sigma_scale: Array,
) -> Bool[np.ndarray, " parameter"]:
    """Parameters whose loss does not rise where their error bars end.

    A parameter that ran away to where the prediction has forgotten it has an error bar
    of any size: there the loss has a derivative that is nearly 0 and no minimum. An
    error bar that is as large by right, of a parameter near 0, is told apart by the
    loss at its ends; nothing is evaluated for others.
    """
    size = np.maximum(np.abs(values), np.abs(experiment.parameters.start))
    suspicious = np.isfinite(stderr) & (np.asarray(stderr) > _SUSPICIOUS * size)
    found = np.zeros(values.size, bool)
    for i in np.flatnonzero(suspicious):
        ends = [values.at[i].add(side * stderr[i]) for side in (1, -1)]
        rises = [_rise(experiment, values, end) / sigma_scale**2 for end in ends]
        found[i] = any(float(rise) < _FLAT for rise in rises)
    return found


@fresh_jit
def _rise(experiment: Posterior, values: Array, end: Array) -> Array:
    """Rise of the loss from `values` to `end`; NaN where that is not finite."""
    return experiment.loss_at(end) - experiment.loss_at(values)
