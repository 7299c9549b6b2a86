"""The numbers of a `Fit` from where a search has ended."""

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
    facts: FitStatistics,
    history: Any,
) -> Fit:
    """The `Fit` at the coordinates `z`; `state`, if any, has the Jacobian there."""
    parameters, unknown = experiment.parameters, experiment.scale_is_unknown
    numbers, root = _numbers(
        parameters.coordinates,
        z,
        search.result,
        state,
        facts,
        unknown,
        (parameters.z_lower, parameters.z_upper),
    )
    fisher = None
    if root is not None:
        good, names = RESULTS.successful, parameters.names
        fisher = Fisher(*root, None, good, names, experiment.curvature)
    return Fit(
        **numbers,
        model=_model(parameters, numbers["values"]),
        fisher=fisher,
        start=parameters.start,
        lower=parameters.lower,
        upper=parameters.upper,
        chi2=facts.chi2,
        size=facts.size,
        loss=search.loss,
        steps=search.steps,
        rejected=search.rejected,
        non_finite=search.non_finite,
        history=history,
        names=parameters.names,
        units=parameters.units,
        circular=parameters.coordinates.turns.entries,
        **_tied(parameters, numbers["values"], numbers["covariance"]),
        convention=_convention(experiment),
        judges_misfit=_judges_misfit(experiment),
    )


@fresh_jit
def _model(parameters: Parameters, values: Array) -> PyTree:
    return parameters.model(values)


# Compiled without names and `predict`, so that fits of one size share it.
@fresh_jit
def _numbers(
    coordinates: Coordinates,
    z: Array,
    searched: RESULTS,
    state: Any,
    facts: FitStatistics,
    unknown: bool,
    limits: tuple[Array, Array],
) -> tuple[dict[str, Any], tuple[Array, Array] | None]:
    """The numbers of a `Fit`, and root and scale of its information."""
    n = z.size
    values = coordinates.values(z)
    held = facts.at_end
    if state is not None:
        scatter = jnp.where(unknown, jnp.sqrt(facts.chi2 / facts.size), 1)
        held = _held(coordinates, z, state, limits, scatter, held)
    dof = facts.size - n + jnp.sum(held)
    sigma = estimated_sigma(facts.chi2, dof) if unknown else jnp.ones((), z.dtype)
    root, unit, scale = None, jnp.full((n, n), jnp.nan, z.dtype), jnp.ones(n, z.dtype)
    if state is not None:
        root = _root(coordinates, z, state, sigma)
        unit, scale = _conditional_covariance(root[0], held), root[1]
    stderr = standard_deviations(unit, scale)
    log_prob, k = _log_prob(facts, unknown), facts.size - dof
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
        "bic": k * jnp.log(facts.size) - 2 * log_prob,
        "remaining_sigma": _remaining_sigma(state, held, sigma),
        "status": _status(searched, facts, state, held),
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

    A range ends where a transform does, as that of a log at 0, and where what the
    data see is even in a parameter, as the variance is in a jitter: there error bars
    grow without end while the loss still falls.
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
    # One that runs away, as of an exponential to 0, has no end: it is undetermined.
    held = held | (endless & ends & (gradient != 0)) | (at_end & (flat | ~endless))
    # A logit at 1 is so close that nothing is left of a slope.
    values, reached = coordinates.values(z), jnp.zeros(z.shape, bool)
    for side in (-jnp.inf, jnp.inf):
        reached |= values == coordinates.values(jnp.full_like(z, side))
    return held | reached


def _remaining_sigma(state: Any, held: Array, sigma: Array) -> Array:
    """In units of the error bars; the solver stops by the scatter of its own rows."""
    if state is None:
        return jnp.full_like(sigma, jnp.nan)
    _, length = newton_step(state.root, held)
    return jnp.where(length == 0, 0, length / sigma)


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


def _conditional_covariance(root: Array, held: Array) -> Array:
    """Unit covariance of the others with what a bound holds fixed."""
    rows = [jnp.where(held, 0, root), jnp.diag(held.astype(root.dtype))]
    return unit_covariance(triangular_root(jnp.concatenate(rows)))


def _log_prob(facts: FitStatistics, unknown: bool) -> Array:
    """ln L, by the most likely factor to all sigma where that is unknown, √(χ²/N)."""
    if not unknown:
        return facts.log_prob
    most_likely = facts.size * (jnp.log(facts.chi2 / facts.size) + 1)
    return facts.log_prob - (most_likely - facts.chi2) / 2


def _status(
    searched: RESULTS, facts: FitStatistics, state: Any, held: Array
) -> RESULTS:
    """The search's; where the prediction failed, what the simulation says of it."""
    ran = facts.result == RESULTS.successful
    blind = searched == RESULTS.prediction_not_finite
    keep = jnp.asarray(ran) | ~jnp.asarray(blind)
    result = RESULTS.where(keep, searched, facts.result)
    if state is None:
        return result
    # Small updates are no optimum: what a schedule or a line search makes them is.
    (_, before), (_, now) = (newton_step(state.root, x) for x in (state.held, held))
    # In the units of the search, less what ended at the end of a range.
    length = state.newton * jnp.where(before > 0, now / before, 0)
    is_near = (state.newton <= NEAR_ENOUGH) | (length <= NEAR_ENOUGH)
    short = (result == RESULTS.successful) & ~is_near
    result = RESULTS.where(short, RESULTS.stopped_short, result)
    # No step goes on at the end of the range of a prediction.
    done = (result == RESULTS.no_progress) & is_near
    return RESULTS.where(done, RESULTS.successful, result)


def _tied(parameters: Parameters, values: Array, covariance: Array) -> dict[str, Any]:
    """Parameters that follow others, and their error bars to first order."""
    names = tuple(name for one in parameters.tied for name in one.selection.names)
    if not names:
        nothing = jnp.zeros(0, values.dtype)
        return {"tied_names": (), "tied_values": nothing, "tied_stderr": nothing}
    found, stderr = _tied_numbers(parameters, values, covariance)
    return {"tied_names": names, "tied_values": found, "tied_stderr": stderr}


@fresh_jit
def _tied_numbers(parameters: Parameters, values: Array, covariance: Array):
    def numbers(x: Array) -> Array:
        model = parameters.model(x)
        return jnp.concatenate([one.values(model) for one in parameters.tied])

    jacobian = jax.jacfwd(numbers)(values)
    # One of them may depend on few parameters, of which the others may be open.
    products = jacobian[:, :, None] * covariance * jacobian[:, None, :]
    used = (jacobian[:, :, None] != 0) & (jacobian[:, None, :] != 0)
    variance = jnp.sum(jnp.where(used, products, 0), axis=(1, 2))
    return numbers(values), jnp.sqrt(variance)


def _judges_misfit(experiment: Posterior) -> bool:
    """Whether χ² says how well the model describes the data."""
    likelihoods = likelihoods_of(experiment).likelihoods
    known = not experiment.scale_is_unknown
    return known and all(one.judges_misfit for one in likelihoods)


def _convention(experiment: Posterior) -> str:
    if experiment.varies:
        return "sigma from the noise model and its parameters: error bars not rescaled"
    clauses = [one.convention for one in likelihoods_of(experiment).likelihoods]
    return "; ".join(dict.fromkeys(clauses))


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
