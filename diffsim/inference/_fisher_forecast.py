"""`fisher`: what an experiment can tell about the parameters of a model."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jit._fresh_jit import fresh_jit, reading
from .._linalg import matmul
from .._results import RESULTS
from .._tracer_errors import FORWARD_ONLY, REVERSE_ONLY, UNROLL
from .._types import PyTree
from .._validation import is_traced
from ._argument_order import explain_swapped
from ._fisher_information import Fisher
from ._fit import warn_of_single_precision
from ._fit_diagnostics import at_finer_steps
from ._information_factor import eigen_rows, estimated_sigma, scaled_cholesky_factor
from ._jacobian import value_and_jacobian
from ._likelihoods import AbstractComparison
from ._posterior import (
    Compared,
    Posterior,
    explain_derivatives,
    likelihoods_of,
    posterior,
)


def fisher(
    predict: Any,
    model: PyTree,
    *,
    noise: Any,
    free: Any = None,
    kind: str = "expected",
    data: PyTree = None,
    error_estimate: bool = False,
    priors: Any = (),
) -> Fisher:
    r"""The Fisher information of an experiment at `model`, before or after the data.

    $$F_{ab} = \partial_a\mu^T C^{-1}\,\partial_b\mu
        + \tfrac12\,\mathrm{tr}\,(C^{-1}\partial_a C\,C^{-1}\partial_b C)$$

    plus 1/σ² of every Gaussian prior. It comes from a forward-mode Jacobian, whitened
    and factorized by QR; FᵀF-like products are never formed.

    ```python
    t = np.arange(100) / 10  # ten whole periods

    def wave(model):
        return model["a"] * jnp.sin(2 * np.pi * t + model["phase"])

    noise = inference.Gaussian(0.1)
    forecast = ds.fisher(wave, {"a": 2.0, "phase": 0.3}, noise=noise)
    forecast.stderr  # σ√(2/N) = 0.0141, and 1/a of it for the phase
    ```

    **Arguments**

    - `predict`: any JAX function of the model; returns a pytree of arrays, or a
        `Trajectory`, of which the states count. A simulation that fails inside makes
        NaN and a `status`, not an exception.
    - `model`: a pytree; where to evaluate.
    - `noise`: a `Gaussian` with a sigma, or a function from the model to one.
    - `free`: which numbers vary: None for what the simulation declares (a bare pytree:
        every float, and no leaf may be an integer), a path, several, a function from
        the model to nodes, or a dict from path to `Free`. Of `Free` only priors matter
        here: error bars are those of the parameters themselves, whatever their
        transform.
    - `kind`: "expected" is the formula above. "observed" is minus the second derivative
        of the log posterior on real `data`; they differ by noise, and by model error.
    - `data`: needed for "observed", and by `Gaussian()` to judge the size of the noise.
    - `error_estimate`: whether to repeat it all with half the step, or a tenth of the
        tolerance, of the simulations inside `predict`. `Fisher.error_estimate` and
        `Fisher.solver_error` then tell by how much error bars and best values change,
        and so does the printed summary. The finer runs come on top: twice the
        steps where they are fixed, 1.3 to 1.8 times as many by a tolerance.

    - `priors`: a list of `Prior`, on functions of the model.

    **Returns:** a `Fisher`.

    **Raises:** `ValueError` for wrong paths, shapes, NaN data, an unknown sigma without
    data, and an observed information that is not positive definite.

    **Limits:** rows are kept, so memory is data × parameters (convenience); it cannot
    see errors of the integration unless asked to: use tolerances of 1e-8 or so, or
    `error_estimate=True` (mathematics).
    """
    warn_of_single_precision("fisher", model, data)
    if kind not in ("expected", "observed"):
        raise ValueError(f"kind must be 'expected' or 'observed', got {kind!r}")
    order = "fisher(predict, model, data=data)"
    with explain_swapped(predict, model, data, order=order):
        found = posterior(predict, model, data, noise=noise, free=free, priors=priors)
        with reading(found), _with_explained_errors(found, kind):
            return _fisher_matrix(found, kind, error_estimate)


def _with_explained_errors(found: Posterior, kind: str):
    """Raise `ValueError` where JAX cannot differentiate what a user wrote."""
    forward, reverse = "write its derivative as jax.custom_jvp", UNROLL
    if kind == "observed":
        reverse = f"take kind='expected', or {UNROLL}"
    else:
        forward += (
            ", or take kind='observed' with data=, where its rule has forward mode"
        )
    return explain_derivatives(
        found,
        forward=f"{REVERSE_ONLY}; {forward}",
        reverse=f"{FORWARD_ONLY}; {reverse}",
    )


def _fisher_matrix(found: Posterior, kind: str, error_estimate: bool) -> Fisher:
    if found.data is None and (kind == "observed" or found.scale_is_unknown):
        needs = "kind='observed'" if kind == "observed" else "a Gaussian without sigma"
        raise ValueError(f"data must be given: {needs} cannot do without")
    if found.scale_is_unknown:
        _check_enough_data(found)
    values = found.parameters.start
    inform = _observed if kind == "observed" else _expected
    information, at = inform(found, values)
    if not error_estimate:
        return information
    return _with_refinement(information, at, at_finer_steps(inform, found, values))


def _check_enough_data(found: Posterior):
    """An unknown sigma is judged from what the parameters leave of the data."""
    if found.data is None:
        return
    (likelihood,), number = (
        likelihoods_of(found).likelihoods,
        len(found.parameters.names),
    )
    masks = jax.tree.leaves(likelihood.mask)
    if any(map(is_traced, masks)):
        return
    size = int(sum(map(np.sum, masks))) if masks else found.data[0].size
    if size <= number:
        raise ValueError(
            "noise=Gaussian() estimates sigma from residuals, which takes more data "
            f"than parameters, got {size} for {number}; give it, Gaussian(sigma)"
        )


def _with_refinement(information: Fisher, at: Array, finer: Any) -> Fisher:
    """The information with what finer steps make of it, if there are any.

    `at` is the prediction where the information is the expected one, and the gradient
    of the loss where it is observed; `finer` the same two by finer steps.
    """
    if finer is None:
        unknown = jnp.full_like(information.root, jnp.nan)
        refined = eqx.tree_at(lambda f: f.root, information, unknown)
        return information.with_refinement(refined, unknown[0])
    refined, other = finer
    change = at - other
    if information.score_rows is not None:
        change = matmul(information.score_rows.T, change)
    return information.with_refinement(refined, change)


def _expected(found: Posterior, values: Array) -> tuple[Fisher, Array]:
    """The information, and the prediction."""
    root, scale, rows, status, prediction = _information(found, values)
    names = found.parameters.names
    return Fisher(root, scale, rows, status, names, "expected"), prediction


@fresh_jit
def _information(found: Posterior, values: Array):
    """Root and scale, rows of the score, status, prediction."""
    found = found.with_expected_information()
    _, jacobian, seen = value_and_jacobian(found.numbers, values)
    noise_scale = _noise_scale(found, seen, values)
    # Whitened here and not before, so that a derivative of the information sees how the
    # noise varies, which the information itself must not.
    score_rows = _score_rows(seen, jacobian) / noise_scale**2
    jacobian = found.whiten_columns(seen, jacobian) / noise_scale
    root, scale = scaled_cholesky_factor(jacobian)
    status = _status(seen, root)
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


def _noise_scale(found: Posterior, seen: Compared, values: Array) -> Array:
    """The factor from the sigma of a row to that of the noise: 1 if it is known."""
    if not found.scale_is_unknown:
        return jnp.ones((), values.dtype)
    (one,) = seen.comparisons
    residuals = one.residuals()
    dof = jnp.asarray(one.size() - values.size)
    return estimated_sigma(matmul(residuals, residuals), dof)


def _status(seen: Compared, root: Array) -> RESULTS:
    finite = jnp.all(jnp.isfinite(seen.residuals)) & jnp.all(jnp.isfinite(root))
    bad = RESULTS.where(
        jnp.asarray(seen.result == RESULTS.successful),
        RESULTS.prediction_not_finite,
        seen.result,
    )
    return RESULTS.where(finite, RESULTS.successful, bad)


def _observed(found: Posterior, values: Array) -> tuple[Fisher, Array]:
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
    information = Fisher(root, scale, None, status, names, "observed")
    return information, gradient


@fresh_jit
def _second_derivative(found: Posterior, values: Array):
    """In units of the values, whose squares may be beyond what a float holds."""
    seen = found.compared(values)
    unit = jnp.where(values == 0, 1, jnp.abs(values))

    def loss(x: Array) -> Array:
        return found.loss_at(x * unit)

    square = _noise_scale(found, seen, values) ** 2
    hessian, gradient = (f(loss)(values / unit) for f in (jax.hessian, jax.grad))
    hessian, gradient = hessian / square, gradient / square / unit
    return hessian, gradient, unit, _status(seen, hessian)
