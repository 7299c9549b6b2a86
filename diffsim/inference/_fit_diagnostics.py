"""Diagnostics of a fit: the simulation's discretization error, plateaus of the loss."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul
from .._validation import as_array
from ..simulations import refined_steps
from ._fit_loop import evaluate, linearize_at
from ._levenberg_marquardt import LevenbergMarquardt
from ._posterior import Posterior


_Found = TypeVar("_Found")


def solver_error(
    experiment: Posterior, solver: LevenbergMarquardt, z: Array
) -> Float[Array, " parameter"]:
    """How far finer steps would move each best value, in its standard deviations.

    To first order that is the Gauss-Newton step by predictions that are changed so: the
    Jacobian of the fit serves, and nothing but the run at finer steps is compiled. NaN
    where no simulation ran whose error a step decides, and infinite where finer steps
    fail.
    """
    finer = at_finer_steps(_predictions, experiment, z)
    if finer is None or experiment.shift is None:
        return jnp.full(z.shape, jnp.nan, z.dtype)
    # By the program that has judged the steps of the fit.
    _, predictions = evaluate(experiment, z)
    pairs = zip(finer, predictions, strict=True)
    shift = tuple(np.asarray(new) - np.asarray(old) for new, old in pairs)
    if any(a.shape != b.shape for a, b in zip(shift, experiment.shift, strict=True)):
        return jnp.full(z.shape, jnp.nan, z.dtype)
    if not all(np.isfinite(change).all() for change in shift):
        return jnp.full(z.shape, jnp.inf, z.dtype)
    changes = tuple(map(as_array, shift))
    moved = eqx.tree_at(lambda e: e.shift, experiment, changes)
    return _shift_in_error_bars(linearize_at(moved, solver, z).root)


@jax.jit
def _shift_in_error_bars(root: Array) -> Array:
    """How far the Gauss-Newton step of a search moves each coordinate."""
    inverse = solve_triangular(root[:-1, :-1], jnp.eye(len(root) - 1, dtype=root.dtype))
    return jnp.abs(matmul(inverse, root[:-1, -1])) / jnp.linalg.norm(inverse, axis=1)


@fresh_jit
def at_finer_steps(
    function: Callable[[Posterior, Array], _Found], experiment: Posterior, at: Array
) -> _Found | None:
    """`function(experiment, at)` by finer steps; None where there are none."""
    with refined_steps() as methods:
        found = function(experiment, at)
    return found if methods else None


def _predictions(experiment: Posterior, z: Array) -> tuple[Array, ...]:
    return experiment.compared(experiment.parameters.values(z)).masked_predictions


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
