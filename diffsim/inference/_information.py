"""Information of an experiment: expected by formula, observed, or sampled."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul
from .._results import RESULTS
from .._validation import is_traced
from ._fisher_information import Fisher
from ._information_factor import (
    eigen_rows,
    estimated_sigma,
    scaled_cholesky_factor,
    unit_covariance,
)
from ._jacobian import value_and_jacobian
from ._likelihoods import AbstractComparison
from ._posterior import Compared, Posterior


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
