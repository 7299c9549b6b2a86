"""The fit with SciPy's least squares, of a run by hand and its Jacobian."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from .._peers import peer
from . import problems
from .by_hand import populations


optimize = peer("scipy.optimize")
_TOLERANCE = 1e-12


def fit() -> Any:
    """Rates and first populations from pelts, with their error bars."""
    found = optimize.least_squares(
        lambda p: np.asarray(_residuals(p)),
        np.concatenate([problems.RATES, problems.POPULATIONS]),
        jac=lambda p: np.asarray(_jacobian(p)),
        method="lm",
        x_scale="jac",
        # Its defaults stop 1e-6 of a value from where ours stops.
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
    )
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    return found.x, np.sqrt(np.diag(covariance))


def _whitened_residuals(parameters):
    # Forward mode alone is asked for, and compiles sooner than what serves reverse.
    found = populations(parameters[:4], parameters[4:], diffrax.ForwardMode())
    return ((jnp.log(found) - np.log(problems.PELTS)) / problems.SIGMA).ravel()


_residuals = jax.jit(_whitened_residuals)
_jacobian = jax.jit(jax.jacfwd(_whitened_residuals))
