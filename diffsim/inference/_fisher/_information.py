"""Information of an experiment: expected by formula, observed, or sampled."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._linalg import matmul
from ..._results import RESULTS
from ..._validation import is_traced
from .._information_factor import (
    eigen_rows,
    estimated_sigma,
    scaled_cholesky_factor,
    standard_deviations,
    unit_covariance,
    value_and_jacobian,
)
from .._likelihoods import AbstractComparison
from .._posterior import Compared, Posterior
from ._fisher_information import Fisher


def expected_information(experiment: Posterior, values: Array) -> tuple[Fisher, Array]:
    """The information, and the prediction."""
    root, scale, rows, status, prediction = _expected(experiment, values)
    names = experiment.parameters.names
    huge = float(jnp.finfo(scale.dtype).tiny) ** -0.2
    if not is_traced(root) and (large := np.asarray(scale) > huge).any():
        # Data at the end of a range tell combinations exactly: one parameter that they
        # tell has an error bar of 0, to within a huge number.
        lost = large & np.isinf(np.diagonal(unit_covariance(root)))
        if lost.any():
            several = ", ".join(np.array(names)[lost])
            raise ValueError(
                "the prediction must not be at the end of its range, as a mean of 0 "
                f"is, where the information diverges along a combination of {several}; "
                "move the model off it, or fix all but one of them"
            )
    information = Fisher(root, scale, rows, status, names, "expected", values=values)
    return information, prediction


@fresh_jit
def _expected(experiment: Posterior, values: Array):
    """Root and scale, rows of the score, status, prediction."""
    experiment = experiment.with_expected_information()
    _, jacobian, compared = value_and_jacobian(experiment.numbers, values)
    noise_scale = sigma_factor(experiment, compared, values)
    # Whitened here and not before, so that a derivative of the information sees how the
    # noise varies, which the information itself must not.
    rows, begin = [], 0
    for part, prediction in zip(
        compared.comparisons, compared.predictions, strict=True
    ):
        end = begin + prediction.size
        rows.append(_score_rows(part, jacobian[begin:end]))
        begin += part.numbers().size
    score_rows = jnp.concatenate(rows) / noise_scale**2
    jacobian = experiment.whiten_columns(compared, jacobian) / noise_scale
    root, scale = scaled_cholesky_factor(jacobian)
    status = information_status(compared, root)
    # A derivative may be finite where the prediction is not: no number is right there.
    root = jnp.where(jnp.asarray(status == RESULTS.successful), root, jnp.nan)
    return root, scale, score_rows, status, compared.prediction


def _score_rows(comparison: AbstractComparison, jacobian: Array) -> Array:
    """M µ', with M the information of a prediction and µ', (datum, parameter)."""
    numbers, n = comparison.numbers(), jacobian.shape[0]

    def white(change: Array) -> Array:
        rest = jnp.zeros(numbers.size - n, numbers.dtype)
        return comparison.whiten(jnp.concatenate([change, rest]), True)

    def both(change: Array) -> Array:
        whitened, pull = jax.vjp(white, change)
        return pull(whitened)[0]

    return jax.vmap(both, in_axes=1, out_axes=1)(jacobian)


def sigma_factor(experiment: Posterior, compared: Compared, values: Array) -> Array:
    """The factor from the sigma of a row to that of the noise: 1 if it is known."""
    if not experiment.scale_is_unknown:
        return jnp.ones((), values.dtype)
    residuals = compared.residuals
    dof = jnp.asarray(compared.comparisons[0].size() - values.size)
    return estimated_sigma(matmul(residuals, residuals), dof)


def information_status(compared: Compared, numbers: Array) -> RESULTS:
    """Whether a prediction and `numbers` of its information are finite, or why not."""
    finite = jnp.all(jnp.isfinite(compared.residuals)) & jnp.all(jnp.isfinite(numbers))
    return RESULTS.where(finite, RESULTS.successful, _failure(compared))


def _failure(compared: Compared) -> RESULTS:
    """Why a prediction is not finite."""
    ran = jnp.asarray(compared.result == RESULTS.successful)
    return RESULTS.where(ran, RESULTS.prediction_not_finite, compared.result)


def observed_information(experiment: Posterior, values: Array) -> tuple[Fisher, Array]:
    """From the scaled second derivative, whose eigenvalues may not be positive.

    Beside the information the gradient of the loss.
    """
    hessian, gradient, unit, status = _second_derivative(experiment, values)
    diagonal = jnp.sqrt(jnp.abs(jnp.diagonal(hessian)))
    scale = jnp.where(diagonal > 0, diagonal, 1)
    scaled = hessian / scale[:, None] / scale[None, :]
    # Vectors of equal eigenvalues have no derivative; `eigen_rows` has that of all.
    eigenvalues, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(scaled))
    rounding = jnp.finfo(values.dtype).eps ** 0.8
    names = experiment.parameters.names
    if not is_traced(eigenvalues) and eigenvalues[0] < -rounding:
        worst = names[int(jnp.argmax(jnp.abs(vectors[:, 0])))]
        raise ValueError(
            "the observed information is not positive definite at this model (worst "
            f"along {worst!r}): it is a curvature, positive only near the best fit; "
            "fit first, or use kind='expected'"
        )
    rows = eigen_rows(scaled, eigenvalues, vectors, least=float(rounding))
    root, scale = scaled_cholesky_factor(rows * (scale / unit))
    information = Fisher(root, scale, None, status, names, "observed", values=values)
    return information, gradient


@fresh_jit
def _second_derivative(experiment: Posterior, values: Array):
    """In units of the values, whose squares may be beyond what a float holds."""
    compared = experiment.compared(values)
    unit = jnp.where(values == 0, 1, jnp.abs(values))

    def loss(x: Array) -> Array:
        return experiment.loss_at(x * unit)

    square = sigma_factor(experiment, compared, values) ** 2
    hessian, gradient = (f(loss)(values / unit) for f in (jax.hessian, jax.grad))
    hessian, gradient = hessian / square, gradient / square / unit
    return hessian, gradient, unit, information_status(compared, hessian)


#: Parts of the samples, each of which is left out once to see how much they scatter.
_GROUPS = 16


def sampled_information(
    experiment: Posterior, values: Array, samples: int, seed: int
) -> Fisher:
    r"""The mean of $s s^T$ over scores s of data drawn at `values`, and priors.

    The prediction is made once for all samples, and its derivative by each parameter.
    """
    count = -(-samples // _GROUPS) * _GROUPS
    root, scale, error, status = _sampled(experiment, values, count, seed)
    names = experiment.parameters.names
    information = Fisher(root, scale, None, status, names, "sampled", values=values)
    return dataclasses.replace(information, sampling_error=error)


@fresh_jit
def _sampled(experiment: Posterior, values: Array, count: int, seed: int):
    """Root and scale, relative uncertainty of the error bars, status."""
    keys = jax.random.split(jax.random.key(seed), count)
    drawn = experiment.draw(keys, values)

    def loss(data: tuple[Array, ...], x: Array) -> Array:
        compared = dataclasses.replace(experiment, data=data).compared(x)
        return -jnp.asarray(sum(part.log_prob() for part in compared.comparisons))

    def losses(x: Array) -> tuple[Array, None]:
        # Unbatched in `x`: predict runs once.
        return jax.vmap(lambda data: loss(data, x))(drawn), None

    def priors(x: Array) -> tuple[Array, None]:
        return experiment.parameters.prior(x, True).numbers(), None

    _, scores, _ = value_and_jacobian(losses, values, mode="forward")
    rows = scores / jnp.sqrt(count)
    compared = experiment.with_expected_information().compared(values)
    whiten = experiment.parameters.prior(values, True).whiten
    _, jacobian, _ = value_and_jacobian(priors, values, mode="forward")
    prior = jax.vmap(whiten, in_axes=1, out_axes=1)(jacobian)
    root, scale = scaled_cholesky_factor(jnp.concatenate([rows, prior]))
    ran = jnp.asarray(compared.result == RESULTS.successful)
    ok = jnp.all(jnp.isfinite(root)) & ran
    status = RESULTS.where(ok, RESULTS.successful, _failure(compared))
    # The mean score is 0 over all data, to within five of its standard errors; where
    # events are so rare that none was drawn, it is not.
    spread = 5 * jnp.std(scores, axis=0) / np.sqrt(len(scores))
    rounding = jnp.finfo(scores.dtype).eps * jnp.max(jnp.abs(scores), axis=0, initial=0)
    is_fair = jnp.abs(jnp.mean(scores, axis=0)) <= spread + rounding
    error = jnp.where(is_fair, _jackknife(rows, prior, root, scale), jnp.inf)
    return root, scale, error, status


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
