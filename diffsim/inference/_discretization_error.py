"""Effect of the simulation's discretization error on the best values."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

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

    To first order that is the Gauss-Newton step to data from which the change of the
    prediction is taken away, so the Jacobian of the fit serves and nothing but the run
    at finer steps is compiled. NaN where no simulation ran whose error a step decides,
    and infinite where finer steps fail.
    """
    finer = at_finer_steps(_rows, experiment, z)
    if finer is None or experiment.data is None:
        return jnp.full(z.shape, jnp.nan, z.dtype)
    change = np.asarray(finer) - np.asarray(evaluate(experiment, z)[1])
    if not np.isfinite(change).all():
        return jnp.full(z.shape, jnp.inf, z.dtype)
    data = _shifted_data(experiment, z, as_array(change))
    moved = eqx.tree_at(lambda e: e.data, experiment, data)
    return _shift_in_error_bars(linearize_at(moved, solver, z).root)


@fresh_jit
def _shifted_data(experiment: Posterior, z: Array, change: Array) -> Array:
    """Data from which a change of the rows is taken away."""
    assert experiment.data is not None
    sigma = experiment.sigma(experiment.parameters.values(z))
    return experiment.data - change[: experiment.data.size] * sigma


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


def _rows(experiment: Posterior, z: Array) -> Array:
    return experiment.rows(z)[0]
