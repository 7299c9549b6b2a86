"""Information of an experiment: expected by formula, observed, or sampled."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

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


def expected_information(found: Posterior, values: Array) -> tuple[Fisher, Array]:
    """The information, and the prediction."""
    root, scale, rows, status, prediction = _information(found, values)
    if not is_traced(root):
        _check_limit(root, scale, found.parameters.names)
    names = found.parameters.names
    information = Fisher(root, scale, rows, status, names, "expected", values=values)
    return information, prediction


def _check_limit(root: Array, scale: Array, names: tuple[str, ...]):
    """Raise `ValueError` where data at the end of a range tell combinations exactly.

    One parameter that they tell has an error bar of 0, to within a huge number.
    """
    huge = np.asarray(scale) > float(jnp.finfo(scale.dtype).tiny) ** -0.2
    if not huge.any():
        return
    lost = huge & np.isinf(np.diagonal(unit_covariance(root)))
    if lost.any():
        several = ", ".join(name for name, one in zip(names, lost, strict=True) if one)
        raise ValueError(
            "the prediction must not be at the end of its range, as a mean of 0 is, "
            f"where the information diverges along a combination of {several}; move "
            "the model off it, or fix all but one of them"
        )


@fresh_jit
def _information(found: Posterior, values: Array):
    """Root and scale, rows of the score, status, prediction."""
    found = found.with_expected_information()
    _, jacobian, seen = value_and_jacobian(found.numbers, values)
    noise_scale = sigma_factor(found, seen, values)
    # Whitened here and not before, so that a derivative of the information sees how the
    # noise varies, which the information itself must not.
    score_rows = _score_rows(seen, jacobian) / noise_scale**2
    jacobian = found.whiten_columns(seen, jacobian) / noise_scale
    root, scale = scaled_cholesky_factor(jacobian)
    status = information_status(seen, root)
    # A derivative may be finite where the prediction is not: no number is right there.
    root = jnp.where(jnp.asarray(status == RESULTS.successful), root, jnp.nan)
    return root, scale, score_rows, status, seen.prediction


def _score_rows(seen: Compared, jacobian: Array) -> Array:
    """M µ', with M the information of the prediction."""
    rows, begin = [], 0
    for one, prediction in zip(seen.comparisons, seen.predictions, strict=True):
        n = prediction.size
        rows.append(_information_times(one, n)(jacobian[begin : begin + n]))
        begin += one.numbers().size
    return jnp.concatenate(rows)


def _information_times(one: AbstractComparison, n: int) -> Callable[[Array], Array]:
    """The map from changes of a prediction, (datum, parameter), to those of a score."""
    numbers = one.numbers()

    def white(change: Array) -> Array:
        rest = jnp.zeros(numbers.size - n, numbers.dtype)
        return one.whiten(jnp.concatenate([change, rest]), True)

    def both(change: Array) -> Array:
        whitened, pull = jax.vjp(white, change)
        return pull(whitened)[0]

    return jax.vmap(both, in_axes=1, out_axes=1)


def sigma_factor(found: Posterior, seen: Compared, values: Array) -> Array:
    """The factor from the sigma of a row to that of the noise: 1 if it is known."""
    if not found.scale_is_unknown:
        return jnp.ones((), values.dtype)
    (one,) = seen.comparisons
    residuals = one.residuals()
    dof = jnp.asarray(one.size() - values.size)
    return estimated_sigma(matmul(residuals, residuals), dof)


def information_status(seen: Compared, numbers: Array) -> RESULTS:
    """Whether a prediction and `numbers` of its information are finite, or why not."""
    finite = jnp.all(jnp.isfinite(seen.residuals)) & jnp.all(jnp.isfinite(numbers))
    bad = RESULTS.where(
        jnp.asarray(seen.result == RESULTS.successful),
        RESULTS.prediction_not_finite,
        seen.result,
    )
    return RESULTS.where(finite, RESULTS.successful, bad)


def observed_information(found: Posterior, values: Array) -> tuple[Fisher, Array]:
    """From the scaled second derivative, whose eigenvalues may not be positive.

    Beside the information the gradient of the loss.
    """
    hessian, gradient, unit, status = _second_derivative(found, values)
    diagonal = jnp.sqrt(jnp.abs(jnp.diagonal(hessian)))
    scale = jnp.where(diagonal > 0, diagonal, 1)
    scaled = hessian / scale[:, None] / scale[None, :]
    # Of equal eigenvalues the vectors have no derivative; `eigen_rows` has that of all.
    eigenvalues, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(scaled))
    rounding = jnp.finfo(values.dtype).eps ** 0.8
    if not is_traced(eigenvalues) and eigenvalues[0] < -rounding:
        worst = found.parameters.names[int(jnp.argmax(jnp.abs(vectors[:, 0])))]
        raise ValueError(
            "the observed information is not positive definite at this model (worst "
            f"along {worst!r}): it is a curvature, positive only near the best fit; "
            "fit first, or use kind='expected'"
        )
    rows = eigen_rows(scaled, eigenvalues, vectors, least=float(rounding))
    root, scale = scaled_cholesky_factor(rows * (scale / unit))
    names = found.parameters.names
    information = Fisher(root, scale, None, status, names, "observed", values=values)
    return information, gradient


@fresh_jit
def _second_derivative(found: Posterior, values: Array):
    """In units of the values, whose squares may be beyond what a float holds."""
    seen = found.compared(values)
    unit = jnp.where(values == 0, 1, jnp.abs(values))

    def loss(x: Array) -> Array:
        return found.loss_at(x * unit)

    square = sigma_factor(found, seen, values) ** 2
    hessian, gradient = (f(loss)(values / unit) for f in (jax.hessian, jax.grad))
    hessian, gradient = hessian / square, gradient / square / unit
    return hessian, gradient, unit, information_status(seen, hessian)


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
