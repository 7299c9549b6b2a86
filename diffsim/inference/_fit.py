"""`fit`: the parameters of a model from data, with error bars."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
from jaxtyping import Array

from .._jaxpr._tracer_errors import FORWARD_ONLY, REVERSE_ONLY, UNROLL
from .._jit._fresh_jit import fresh_jit, reading
from .._results import RESULTS, is_outcome
from .._types import PyTree
from .._validation import as_array, count, instance, is_traced
from ._fit_diagnosis import explain_swapped, first_not_finite
from ._fit_loop import FitOptions, linearize_at, run_fit_loop
from ._fit_numbers import fit_result, on_plateau, solver_error
from ._fit_result import Fit
from ._levenberg_marquardt import LevenbergMarquardt, Objective
from ._optax_minimiser import OptaxDescent, has_line_search
from ._optimum import (
    SearchResult,
    leave_saddle,
    off_saddle,
    optima,
    optimum,
    starting_at,
)
from ._posterior import (
    Posterior,
    explain_derivatives,
    posterior,
    remember,
    warn_of_single_precision,
)
from ._unconstrained import without_bounds


# The error bars of any other solver are by a forward Jacobian.
_FORWARD = (
    f"{REVERSE_ONLY}; take solver=inference.LevenbergMarquardt(mode='reverse'), or an "
    "Optax optimizer without error bars, solver=optax.adam(1e-2) and "
    "options=inference.FitOptions(covariance=False), or write its derivative as "
    "jax.custom_jvp"
)
_REVERSE = (
    f"{FORWARD_ONLY}; take the default solver, inference.LevenbergMarquardt(), with "
    f"mode='forward' where parameters outnumber data, or {UNROLL}"
)


def fit(
    predict: Any,
    model: PyTree,
    data: PyTree,
    *,
    noise: Any,
    free: Any = None,
    solver: Any = None,
    starts: Any = 1,
    options: Any = None,
    priors: Any = (),
) -> Fit:
    r"""Fit parameters of a model to data: most probable values, with error bars.

    $$\hat\theta = \arg\min_\theta\; -\ln p(d \mid \mu(\theta), \theta)
        - \ln \text{priors}$$

    for Gaussian noise $\sum_i (d_i - \mu_i)^2/2\sigma_i^2 + \ln\sigma_i$.

    ```python
    t = jnp.linspace(0.0, 20.0, 100)

    def speed(model):  # of a star with a planet, m/s
        return model["K"] * jnp.sin(2 * np.pi * t / model["P"] + model["phase"])

    start = {"K": 30.0, "P": 4.3, "phase": 0.0}
    noise = 5.0 * jax.random.normal(jax.random.key(0), t.shape)
    data = speed({"K": 50.0, "P": 4.2, "phase": 0.3}) + noise
    print(ds.fit(speed, start, data, noise=inference.Gaussian(5.0)))
    ```

    **Arguments**

    - `predict`: any JAX function of the model; returns a pytree of arrays, or a
        `Trajectory`, of which the states count. A simulation that fails inside counts
        as a prediction that is not finite: a trial step there is rejected. It is traced
        in every fit, so that it follows what it reads, and other numbers in it compile
        nothing new. What `numpy.random` draws inside is drawn once a fit: make random
        numbers of `jax.random` keys.
    - `model`: a pytree, the start.
    - `data`: a pytree like the prediction.
    - `noise`: a likelihood, such as a `Gaussian`, a `Poisson` or your own object with
        `log_prob(prediction, data)`; or a function from the model to one; or a dict of
        them for data and predictions that are dicts.
    - `free`: which numbers vary: None for what the simulation declares (a bare pytree:
        every float, and no leaf may be an integer), a path, several, a function from
        the model to nodes, or a dict from any of these to `Free` with scales,
        transforms, bounds and priors. Paths keep their order in `names`; with None, a
        model that is a dict has its keys sorted, as JAX sorts them.
    - `solver`: None for `LevenbergMarquardt`; any Optax optimizer, as
        `optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))`, for gradient
        descent in units of `Free.scale`; or an Optimistix least-squares solver or
        minimiser.
    - `starts`: how many starts to search from at once, in one vmapped call: the given
        one and others around it (see `FitOptions.start_scatter`). The best is the fit;
        `history` holds where all ended, best first.
    - `priors`: a list of `Prior`, on functions of the model.
    - `options`: a `FitOptions`: steps, progress, checkpoint.

    **Returns:** a `Fit`; `print(fit)` is the report. Under `jit`, `vmap` and `grad`
    it is the same, from the pure core: its arrays are traced, its derivative is that of
    the optimum (implicit function theorem), and there is no history.

    **RESULTS** in `fit.status`: `prediction_not_finite` (or what the simulation says)
    at the start; `no_progress`; `stopped_short` of an optimizer whose updates died out
    before the optimum; `nonlinear_max_steps_reached`.

    **Raises:** `ValueError` for wrong paths and shapes, no data, NaN data, a sigma that
    is not positive, a start outside its bounds.

    **Limits:** a local optimum (mathematics).
    """
    warn_of_single_precision("fit", model, data)
    if data is None:
        raise ValueError(
            "data must be arrays as predict returns them, got None; what data would "
            "tell, fisher(predict, model, noise=...) says without them"
        )
    count("starts", starts)
    options = FitOptions() if options is None else options
    instance("options", options, FitOptions, "inference.FitOptions(...)")
    try:
        experiment = posterior(
            predict,
            model,
            data,
            noise=noise,
            free=free,
            priors=priors,
            fixed=options.fixed,
            batches=options.batches,
        )
        solver = _as_solver(solver, experiment, starts, options)
        explained = explain_derivatives(experiment, forward=_FORWARD, reverse=_REVERSE)
        with reading(experiment, solver), explained:
            result = _run_fit(experiment, solver, starts, options)
    except Exception as error:
        explain_swapped(error, predict, model, data, "fit(predict, model, data)")
        raise
    remember(result, experiment)
    return result


def _as_solver(
    solver: Any, experiment: Posterior, starts: int, options: FitOptions
) -> optx.AbstractLeastSquaresSolver | optx.AbstractMinimiser:
    """A solver of ours or of Optimistix that can do what the experiment asks."""
    if solver is None:
        solver = LevenbergMarquardt()
    elif isinstance(solver, optax.GradientTransformation):
        start = experiment.parameters.z_start
        searches_lines = has_line_search(solver, start)
        solver = OptaxDescent(optimizer=solver, searches_lines=searches_lines)
    kinds = (optx.AbstractMinimiser, optx.AbstractLeastSquaresSolver)
    instance("solver", solver, kinds, "optax.adam(1e-2) or LevenbergMarquardt()")
    sums_squares = not isinstance(solver, (optx.AbstractMinimiser, LevenbergMarquardt))
    if sums_squares and (experiment.varies or not experiment.is_plain):
        raise ValueError(
            f"solver {type(solver).__name__} minimises sums of squares only, and "
            "noise that depends on the model adds ln sigma, as noise that is not "
            "Gaussian adds other terms; use LevenbergMarquardt or a minimiser"
        )
    if options.batches is None:
        return solver
    if not isinstance(solver, OptaxDescent) or solver.searches_lines or starts != 1:
        raise ValueError(
            "batches are for an Optax optimizer without a line search from one start, "
            "such as solver=optax.adam(1e-2)"
        )
    if options.checkpoint is not None:
        raise ValueError(
            "checkpoint cannot be combined with batches, whose iterator it cannot set "
            "back; leave one of them out"
        )
    return dataclasses.replace(solver, stochastic=True)


def _run_fit(
    experiment: Posterior, solver: Any, starts: int, options: FitOptions
) -> Fit:
    """Search, leave saddles, make error bars, and judge them."""
    is_ours = isinstance(solver, LevenbergMarquardt)
    # Where noise has parameters, and derivatives are taken forward anyway.
    forward = solver.mode != "reverse" if is_ours else options.covariance
    leaves_saddles = experiment.varies and forward
    searched = _search(experiment, solver, starts, options, leaves_saddles)
    rises = jnp.zeros(searched[0].shape, bool)
    if leaves_saddles:
        moved, rises = leave_saddle(experiment, searched[0])
        if not is_traced(moved) and jnp.any(moved != searched[0]):
            # A checkpoint is that of the search which came here.
            options = dataclasses.replace(options, checkpoint=None)
            start = starting_at(experiment, moved)
            searched = _search(start, solver, 1, options, leaves_saddles)
            rises = rises & (moved == searched[0])
    z, search, state, history = searched

    by = solver if is_ours else LevenbergMarquardt()
    # The steps of a search with ln sigma have a curvature of their own.
    if options.observed and options.covariance:
        experiment = experiment.with_observed_information()
        state = linearize_at(experiment, by, z)
    elif options.covariance if state is None else not experiment.is_plain:
        expected = experiment.with_expected_information(slopes=True)
        state = linearize_at(expected, by, z)
    statistics = (_objective(experiment, z) if state is None else state.aux).extra
    at_end = statistics.at_end | rises
    statistics = eqx.tree_at(lambda x: x.at_end, statistics, at_end)
    result = fit_result(experiment, z, search, state, statistics, history)

    if is_traced(result.chi2):
        return result
    if search.steps == 0 or not jnp.isfinite(result.chi2):
        culprit = first_not_finite(experiment, result.values)
        result = dataclasses.replace(result, culprit=culprit)
    has_run = is_outcome(statistics.result, RESULTS.successful)
    if not options.covariance or not has_run:
        return result
    numbers = result.values, result.stderr, result.sigma_scale
    flat = on_plateau(experiment, *numbers)
    if flat.any():
        flat = result.undetermined | flat
        result = eqx.tree_at(lambda fit: fit.undetermined, result, flat)
    if not options.solver_error:
        return result
    error = solver_error(experiment, by, z) / result.sigma_scale
    return eqx.tree_at(lambda fit: fit.solver_error, result, error)


def _search(
    experiment: Posterior,
    solver: Any,
    starts: int,
    options: FitOptions,
    leaves_saddles: bool,
) -> tuple[Array, SearchResult, Any, dict[str, Any]]:
    """Where and how a search ended, Levenberg-Marquardt's state there, and history."""
    is_ours = isinstance(solver, (LevenbergMarquardt, OptaxDescent))
    # A line search, or a Hessian made of gradients, knows nothing of a projection.
    keeps_bounds = is_ours and not getattr(solver, "searches_lines", False)
    inner = experiment
    if experiment.parameters.has_bounds and not keeps_bounds:
        inner = without_bounds(experiment)
    z = inner.parameters.z_start
    is_concrete = not any(map(is_traced, jax.tree.leaves((inner, z))))
    if leaves_saddles and not is_concrete:
        z, _ = off_saddle(inner, z)
    ended = None
    if is_ours and starts == 1 and is_concrete:
        ended = run_fit_loop(inner, solver, z, options)
    state, history = None, {}
    if ended is not None:
        z, state, history = ended
        search = SearchResult(
            loss=state.value,
            result=state.result,
            steps=as_array(np.array(len(history["loss"]))),
            rejected=jnp.asarray(getattr(state, "rejected", 0)),
            non_finite=state.non_finite,
            held=as_array(np.zeros(z.shape, bool)),
        )
        state = state if isinstance(solver, LevenbergMarquardt) else None
    else:
        # The given start first, the others around it within the bounds, and anywhere
        # on circles.
        key = jax.random.key(options.seed)
        away = jax.random.normal(key, (starts, z.size), z.dtype).at[0].set(0)
        moves = inner.parameters.scattered(away, options.start_scatter)
        every = jnp.clip(z + moves, *inner.parameters.limits)
        if starts == 1:
            z, search = _optimum(inner, solver, every[0], options.max_steps)
        else:
            every, searches = _optima(inner, solver, every, options.max_steps)
            history = {
                "starts_loss": searches.loss,
                "starts_values": jax.vmap(inner.parameters.values)(every),
                "starts_converged": jnp.asarray(searches.result == RESULTS.successful),
            }
            z, search = every[0], jax.tree.map(lambda x: x[0], searches)
    if inner is experiment:
        return z, search, state, history
    return _within_bounds(experiment, inner, z), search, None, history


@fresh_jit
def _within_bounds(experiment: Posterior, inner: Posterior, z: Array) -> Array:
    """Coordinates of the bounded search; one that nearly is a bound is that bound."""
    z = experiment.parameters.coordinates.coordinates(inner.parameters.values(z))
    lower, upper = experiment.parameters.limits
    near = jnp.finfo(z.dtype).eps ** 0.5 * (1 + jnp.abs(z))
    z = jnp.where(z - lower <= near, lower, z)
    return jnp.where(upper - z <= near, upper, z)


@fresh_jit
def _objective(experiment: Posterior, z: Array) -> Objective:
    return experiment.objective_at(z)


_optimum, _optima = fresh_jit(optimum), fresh_jit(optima)
