"""Fisher information as the covariance of the score over drawn data."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS
from ._fisher_information import Fisher
from ._information_factor import (
    scaled_cholesky_factor,
    standard_deviations,
    unit_covariance,
)
from ._jacobian import value_and_jacobian
from ._posterior import Posterior


#: Parts of the samples, each of which is left out once to see how much they scatter.
_GROUPS = 16


def sampled_information(
    found: Posterior, values: Array, samples: int, seed: int
) -> Fisher:
    r"""The mean of $s s^T$ over scores s of data drawn at `values`, and priors.

    The prediction is made once for all samples, and its derivative by each parameter.
    """
    count = -(-samples // _GROUPS) * _GROUPS
    root, scale, error, status = _sampled(found, values, count, seed)
    return Fisher(
        root,
        scale,
        None,
        status,
        found.parameters.names,
        "sampled",
        values=values,
        sampling_error=error,
    )


@fresh_jit
def _sampled(found: Posterior, values: Array, count: int, seed: int):
    """Root and scale, relative uncertainty of the error bars, status."""
    keys = jax.random.split(jax.random.key(seed), count)
    drawn = found.draw(keys, values)

    def losses(x: Array) -> tuple[Array, None]:
        # Unbatched in `x`: predict runs once.
        return jax.vmap(lambda data: _data_loss(found, data, x))(drawn), None

    _, scores, _ = value_and_jacobian(losses, values, mode="forward")
    rows = scores / jnp.sqrt(count)
    seen = found.with_expected_information().compared(values)
    prior = _prior_rows(found, values)
    root, scale = scaled_cholesky_factor(jnp.concatenate([rows, prior]))
    finite = jnp.all(jnp.isfinite(root))
    good = jnp.asarray(seen.result == RESULTS.successful)
    bad = RESULTS.where(good, RESULTS.prediction_not_finite, seen.result)
    status = RESULTS.where(finite & good, RESULTS.successful, bad)
    error = jnp.where(
        _scores_average_to_0(scores), _jackknife(rows, prior, root, scale), jnp.inf
    )
    return root, scale, error, status


def _scores_average_to_0(scores: Array) -> Bool[Array, " parameter"]:
    """Whether the mean score is 0 within five of its standard errors.

    It is 0 over all data; where events are so rare that none was drawn, it is not.
    """
    error = jnp.std(scores, axis=0) / np.sqrt(len(scores))
    rounding = jnp.finfo(scores.dtype).eps * jnp.max(jnp.abs(scores), axis=0, initial=0)
    return jnp.abs(jnp.mean(scores, axis=0)) <= 5 * error + rounding


def _data_loss(found: Posterior, data: tuple[Array, ...], values: Array) -> Array:
    given = dataclasses.replace(found, data=data)
    return -jnp.asarray(
        sum(one.log_prob() for one in given.compared(values).comparisons)
    )


def _prior_rows(found: Posterior, values: Array) -> Float[Array, "row parameter"]:
    """Whitened derivative of the priors."""
    term = found.parameters.prior(values, True)
    _, jacobian, _ = value_and_jacobian(
        lambda x: (found.parameters.prior(x, True).numbers(), None),
        values,
        mode="forward",
    )
    return jax.vmap(term.whiten, in_axes=1, out_axes=1)(jacobian)


def _jackknife(rows: Array, prior: Array, root: Array, scale: Array) -> Array:
    """Standard error of each error bar, relative to it, by leaving groups out."""
    groups = rows.reshape(_GROUPS, -1, rows.shape[1])
    share = np.sqrt(_GROUPS / (_GROUPS - 1))

    def without(i: Array) -> Array:
        others = jnp.where(jnp.arange(_GROUPS)[:, None, None] == i, 0, groups)
        left = others.reshape(rows.shape) * share
        part, unit = scaled_cholesky_factor(jnp.concatenate([left, prior]))
        return standard_deviations(unit_covariance(part), unit)

    every = jax.lax.map(without, jnp.arange(_GROUPS))
    spread = jnp.std(every, axis=0) * jnp.sqrt(_GROUPS - 1)
    return spread / standard_deviations(unit_covariance(root), scale)
