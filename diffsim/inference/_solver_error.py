"""What the error of the simulation itself may do to the best values."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..simulations import finer_steps
from ._experiment import Experiment
from ._march import looked


def solver_error(experiment: Experiment, z: Array) -> Array:
    r"""The most that exact solutions would move any best value, in its error bars.

    Finer steps change the whitened rows by $\delta$ and the best values by
    $(J^TJ)^{-1}J^T\delta$, of which no component exceeds $|\delta|$ of its own
    $\sigma$: a projection does not lengthen. NaN where no simulation ran whose error a
    step decides, and infinite where finer steps fail.
    """
    with finer_steps() as methods:
        eqx.filter_eval_shape(_rows, experiment, z)
    if not methods:
        return jnp.full((), jnp.nan, z.dtype)
    _, rows = looked(experiment, z)
    change = jnp.linalg.norm(_finer_rows(experiment, z) - rows)
    return jnp.where(jnp.isfinite(change), change, jnp.inf)


def _rows(experiment: Experiment, z: Array) -> Array:
    return experiment.rows(z)[0]


@eqx.filter_jit
def _finer_rows(experiment: Experiment, z: Array) -> Array:
    with finer_steps():
        return _rows(experiment, z)
