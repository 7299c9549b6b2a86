"""The numbers of a `Fit` from where a search has ended: covariance, errors, status.

The linear algebra of the covariance is in `_information_factor`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul
from .._results import RESULTS
from .._types import PyTree
from .._validation import as_array
from ._fisher import Fisher
from ._fit_loop import evaluate, linearize_at
from ._fit_result import Fit
from ._information_factor import (
    correlation,
    covariance,
    estimated_sigma,
    standard_deviations,
    triangular_root,
    unit_covariance,
)
from ._levenberg_marquardt import (
    NEAR_ENOUGH,
    LevenbergMarquardt,
    newton_step,
)
from ._optimum import SearchResult
from ._parameters import Coordinates, Parameters
from ._posterior import FitStatistics, Posterior, at_finer_steps, likelihoods_of


def fit_result(
    experiment: Posterior,
    z: Array,
    search: SearchResult,
    state: Any,
    statistics: FitStatistics,
    history: Any,
) -> Fit:
    """The `Fit` at the coordinates `z`; `state`, if any, has the Jacobian there."""
    parameters, unknown = experiment.parameters, experiment.scale_is_unknown
    coordinates, names = parameters.coordinates, parameters.names
    numbers, root = _numbers(
        coordinates, z, search.result, state, statistics, unknown, parameters.limits
    )
    values = numbers["values"]
    fisher = None
    if root is not None:
        kind = experiment.curvature
        fisher = Fisher(*root, None, RESULTS.successful, names, kind)
    tied_names = tuple(x for tied in parameters.tied for x in tied.selection.names)
    tied = (jnp.zeros(0, values.dtype),) * 2
    if tied_names:
        tied = _tied_numbers(parameters, values, numbers["covariance"])
    likelihoods = likelihoods_of(experiment).likelihoods
    convention = (
        "sigma from the noise model and its parameters: error bars not rescaled"
    )
    if not experiment.varies:
        convention = "; ".join(dict.fromkeys(one.convention for one in likelihoods))
    return Fit(
        **numbers,
        model=_model(parameters, values),
        fisher=fisher,
        start=parameters.start,
        lower=parameters.lower,
        upper=parameters.upper,
        chi2=statistics.chi2,
        size=statistics.size,
        loss=search.loss,
        steps=search.steps,
        rejected=search.rejected,
        non_finite=search.non_finite,
        history=history,
        names=names,
        units=parameters.units,
        circular=coordinates.turns.entries,
        tied_names=tied_names,
        tied_values=tied[0],
        tied_stderr=tied[1],
        convention=convention,
        judges_misfit=not unknown and all(one.judges_misfit for one in likelihoods),
    )


@fresh_jit
def _model(parameters: Parameters, values: Array) -> PyTree:
    return parameters.model(values)


@fresh_jit
def _tied_numbers(parameters: Parameters, values: Array, covariance: Array):
    """Parameters that follow others, and their error bars to first order."""

    def numbers(x: Array) -> Array:
        model = parameters.model(x)
        return jnp.concatenate([tied.values(model) for tied in parameters.tied])

    jacobian = jax.jacfwd(numbers)(values)
    # One of them may depend on few parameters, of which the others may be open.
    products = jacobian[:, :, None] * covariance * jacobian[:, None, :]
    used = (jacobian[:, :, None] != 0) & (jacobian[:, None, :] != 0)
    variance = jnp.sum(jnp.where(used, products, 0), axis=(1, 2))
    return numbers(values), jnp.sqrt(variance)


# Compiled without names and `predict`, so that fits of one size share it.
@fresh_jit
def _numbers(
    coordinates: Coordinates,
    z: Array,
    searched: RESULTS,
    state: Any,
    statistics: FitStatistics,
    unknown: bool,
    limits: tuple[Array, Array],
) -> tuple[dict[str, Any], tuple[Array, Array] | None]:
    """The numbers of a `Fit`, and root and scale of its information."""
    n, chi2, size = z.size, statistics.chi2, statistics.size
    values, held = coordinates.values(z), statistics.at_end
    if state is not None:
        scatter = jnp.where(unknown, jnp.sqrt(chi2 / size), 1)
        held = _held(coordinates, z, state, limits, scatter, held)
    dof = size - n + jnp.sum(held)
    sigma = estimated_sigma(chi2, dof) if unknown else jnp.ones((), z.dtype)
    root, unit, scale = None, jnp.full((n, n), jnp.nan, z.dtype), jnp.ones(n, z.dtype)
    remaining = jnp.full_like(sigma, jnp.nan)
    if state is not None:
        root = _root(coordinates, z, state, sigma)
        # The unit covariance of the others with what a bound holds fixed.
        rows = [jnp.where(held, 0, root[0]), jnp.diag(held.astype(z.dtype))]
        unit, scale = unit_covariance(triangular_root(jnp.concatenate(rows))), root[1]
        # In units of the error bars; the solver stops by the scatter of its own rows.
        _, length = newton_step(state.root, held)
        remaining = jnp.where(length == 0, 0, length / sigma)
    stderr = standard_deviations(unit, scale)
    log_prob, k = statistics.log_prob, size - dof
    if unknown:  # by the most likely factor to all sigma, √(χ²/N)
        log_prob = log_prob - (size * (jnp.log(chi2 / size) + 1) - chi2) / 2
    # Last: a NaN before would be one in derivatives of the other error bars.
    stderr = jnp.where(held, jnp.nan, stderr)
    either = held[:, None] | held[None, :]
    return {
        "values": values,
        "stderr": stderr,
        "covariance": jnp.where(either, jnp.nan, covariance(unit, scale)),
        "correlation": jnp.where(either, jnp.nan, correlation(unit)),
        "at_bound": held,
        "undetermined": jnp.isinf(stderr),
        "dof": dof,
        "sigma_scale": sigma,
        "log_prob": log_prob,
        "aic": 2 * k - 2 * log_prob,
        "bic": k * jnp.log(size) - 2 * log_prob,
        "remaining_sigma": remaining,
        "status": _status(searched, statistics, state, held),
        "solver_error": jnp.full(n, jnp.nan, z.dtype),
    }, root


# Error bars so many times a coordinate's scale say nothing, as those of ln x at x = 0.
_ENDLESS = 100.0
# A coordinate so many times its scale is on its way to 0.
_NOTHING = 1e-6


def _held(
    coordinates: Coordinates,
    z: Array,
    state: Any,
    limits: tuple[Array, Array],
    scatter: Array,
    at_end: Array,
) -> Bool[Array, " parameter"]:
    """Parameters that ended at a bound, or on the way to the end of a range.

    A range ends where a transform does, as that of a log at 0, and where data see an
    even function of a parameter, as the variance is of a jitter: there error bars grow
    without end while the loss still falls.
    """
    root = state.root[:-1, :-1]
    # Without a slope nothing pushes it there, as a jitter of 0.
    flat = ~jnp.any(root != 0, axis=0)
    held = state.held | (flat & ((z <= limits[0]) | (z >= limits[1])))
    gradient = matmul(root.T, state.root[:-1, -1])
    far = jnp.where(gradient > 0, -jnp.inf, jnp.inf).astype(z.dtype)
    end = coordinates.values(far)
    ends = jnp.isfinite(end) | (
        jnp.isinf(end) & (jnp.abs(z) <= _NOTHING) & (z * far < 0)
    )
    endless = _ENDLESS * jnp.linalg.norm(root, axis=0) * state.scale < scatter
    # One that runs away, as of an exponential to 0, is undetermined.
    held = held | (endless & ends & (gradient != 0)) | (at_end & (flat | ~endless))
    # A logit at 1 is so close that nothing is left of a slope.
    values, reached = coordinates.values(z), jnp.zeros(z.shape, bool)
    for side in (-jnp.inf, jnp.inf):
        reached |= values == coordinates.values(jnp.full_like(z, side))
    return held | reached


def _root(
    coordinates: Coordinates, z: Array, state: Any, sigma: Array
) -> tuple[Array, Array]:
    """Of the physical values, from the root that the solver has for coordinates."""
    slope = jax.jvp(coordinates.values, (z,), (jnp.ones_like(z),))[1]
    root = state.root[: z.size, : z.size] * jnp.sign(slope)
    # The solver scales by the largest columns it has met; here columns have unit norm.
    norms = jnp.linalg.norm(root, axis=0)
    norms = jnp.where(norms > 0, norms, 1)
    return root / norms, norms * state.scale / jnp.abs(slope) / sigma


def _status(
    searched: RESULTS, statistics: FitStatistics, state: Any, held: Array
) -> RESULTS:
    """The search's, or where the prediction failed the simulation's."""
    ran = statistics.result == RESULTS.successful
    blind = searched == RESULTS.prediction_not_finite
    keep = jnp.asarray(ran) | ~jnp.asarray(blind)
    result = RESULTS.where(keep, searched, statistics.result)
    if state is None:
        return result
    # Updates are small where a schedule or a line search makes them so, too.
    (_, before), (_, now) = (newton_step(state.root, x) for x in (state.held, held))
    # In the units of the search, less what ended at the end of a range.
    length = state.newton * jnp.where(before > 0, now / before, 0)
    is_near = (state.newton <= NEAR_ENOUGH) | (length <= NEAR_ENOUGH)
    short = (result == RESULTS.successful) & ~is_near
    result = RESULTS.where(short, RESULTS.stopped_short, result)
    # No step goes on at the end of the range of a prediction.
    done = (result == RESULTS.no_progress) & is_near
    return RESULTS.where(done, RESULTS.successful, result)


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
    shift = tuple(map(as_array, shift))
    moved = eqx.tree_at(lambda e: e.shift, experiment, shift)
    return _shift_in_error_bars(linearize_at(moved, solver, z).root)


@jax.jit
def _shift_in_error_bars(root: Array) -> Array:
    """How far the Gauss-Newton step of a search moves each coordinate."""
    inverse = solve_triangular(root[:-1, :-1], jnp.eye(len(root) - 1, dtype=root.dtype))
    return jnp.abs(matmul(inverse, root[:-1, -1])) / jnp.linalg.norm(inverse, axis=1)


def _predictions(experiment: Posterior, z: Array) -> tuple[Array, ...]:
    return experiment.compared(experiment.parameters.values(z)).masked_predictions


# Error bars so many times a parameter and its start are checked.
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
    is_flat = np.zeros(values.size, bool)
    for i in np.flatnonzero(suspicious):
        ends = [values.at[i].add(side * stderr[i]) for side in (1, -1)]
        rises = [_rise(experiment, values, end) / sigma_scale**2 for end in ends]
        is_flat[i] = any(float(rise) < _FLAT for rise in rises)
    return is_flat


@fresh_jit
def _rise(experiment: Posterior, values: Array, end: Array) -> Array:
    """Rise of the loss from `values` to `end`; NaN where that is not finite."""
    return experiment.loss_at(end) - experiment.loss_at(values)
