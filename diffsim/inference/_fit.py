"""`fit`: the parameters of a model from data, with error bars."""

import dataclasses
import inspect
import warnings
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
from .._paths import joined, step_to
from .._results import RESULTS, is_outcome
from .._types import PyTree
from .._validation import as_array, is_traced
from ._argument_order import explain_swapped
from ._culprit import first_not_finite
from ._fit_diagnostics import on_plateau, solver_error
from ._fit_loop import linearize_at, run_fit_loop
from ._fit_numbers import fit_result
from ._fit_options import FitOptions, check_count
from ._fit_result import Fit
from ._levenberg_marquardt import LevenbergMarquardt
from ._levenberg_marquardt_state import Objective
from ._optax_minimiser import OptaxDescent, has_line_search
from ._optimum import SearchResult, optima, optimum
from ._parameters import Parameters
from ._posterior import Posterior, explain_derivatives, posterior
from ._remembered import remember
from ._saddle import leave_saddle, looks_for_saddles, off_saddle, starting_at
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
    options = FitOptions() if options is None else options
    check_count("starts", starts)
    if not isinstance(options, FitOptions):
        raise ValueError(
            f"options must be an inference.FitOptions(...), got {options!r}"
        )
    with explain_swapped(predict, model, data, order="fit(predict, model, data)"):
        found = posterior(
            predict,
            model,
            data,
            noise=noise,
            free=free,
            priors=priors,
            fixed=options.fixed,
            batches=options.batches,
        )
        solver = _solver(solver, found)
        solver = _for_batches(solver, starts, options)
        explained = explain_derivatives(found, forward=_FORWARD, reverse=_REVERSE)
        with reading(found, solver), explained:
            fitted = _run_fit(found, solver, starts, options)
    remember(fitted, found)
    return fitted


def _for_batches(solver: Any, starts: Any, options: FitOptions) -> object:
    """The solver that goes from batch to batch, if there are any."""
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


def _run_fit(found: Posterior, solver: Any, starts: int, options: FitOptions) -> Fit:
    end = _search(found, solver, starts, options)
    rises = jnp.zeros(end.z.shape, bool)
    if looks_for_saddles(found, solver, options):
        moved, rises = leave_saddle(found, end.z)
        if not is_traced(moved) and jnp.any(moved != end.z):
            # A checkpoint is that of the search which came here.
            options = dataclasses.replace(options, checkpoint=None)
            end = _search(starting_at(found, moved), solver, 1, options)
            rises = rises & (moved == end.z)
    return _conclude(found, solver, end, rises, options)


def _search(found: Posterior, solver: Any, starts: int, options: FitOptions) -> "_End":
    inner = found
    if found.parameters.has_bounds and not _keeps_bounds(solver):
        inner = without_bounds(found)
    z = inner.parameters.z_start
    marched = None
    ours = isinstance(solver, (LevenbergMarquardt, OptaxDescent))
    is_concrete = not any(map(is_traced, jax.tree.leaves((inner, z))))
    if not is_concrete and looks_for_saddles(found, solver, options):
        z, _ = off_saddle(inner, z)
    if ours and starts == 1 and is_concrete:
        marched = run_fit_loop(inner, solver, z, options)
    if marched is None:
        end = _search_optimum(
            inner, solver, _starts(inner, z, starts, options), options.max_steps
        )
    else:
        end = _end_of_loop(solver, *marched)
    if inner is not found:
        end = _End(_within_bounds(found, inner, end.z), end.search, None, end.history)
    return end


def _keeps_bounds(solver: Any) -> bool:
    """Whether points are projected onto bounds, and the search goes on from there.

    A line search, or a Hessian made of gradients, knows nothing of a projection.
    """
    if isinstance(solver, OptaxDescent):
        return not solver.searches_lines
    return isinstance(solver, LevenbergMarquardt)


@fresh_jit
def _within_bounds(found: Posterior, inner: Posterior, z: Array) -> Array:
    """Coordinates of the bounded search; one that nearly is a bound is that bound."""
    at = found.parameters.coordinates.coordinates(inner.parameters.values(z))
    lower, upper = found.parameters.limits().values()
    near = jnp.finfo(z.dtype).eps ** 0.5 * (1 + jnp.abs(at))
    at = jnp.where(at - lower <= near, lower, at)
    return jnp.where(upper - at <= near, upper, at)


class _End(eqx.Module):
    z: Array
    search: SearchResult
    state: Any
    history: dict[str, Any]


def _end_of_loop(solver: Any, z: Array, state: Any, history: dict[str, Any]) -> _End:
    search = SearchResult(
        loss=state.value,
        result=state.result,
        steps=as_array(np.array(len(history["loss"]))),
        rejected=jnp.asarray(getattr(state, "rejected", 0)),
        non_finite=state.non_finite,
        held=as_array(np.zeros(z.shape, bool)),
    )
    complete = isinstance(solver, LevenbergMarquardt)
    return _End(z, search, state if complete else None, history)


def _search_optimum(
    found: Posterior, solver: Any, starts: Array, max_steps: int
) -> _End:
    """The pure core, compiled, from one start or from many."""
    if starts.shape[0] == 1:
        z, search = _optimum(found, solver, starts[0], max_steps)
        return _End(z, search, None, {})
    every, searches = _optima(found, solver, starts, max_steps)
    values = jax.vmap(found.parameters.values)(every)
    converged = jnp.asarray(searches.result == RESULTS.successful)
    history = {
        "starts_loss": searches.loss,
        "starts_values": values,
        "starts_converged": converged,
    }
    best = jax.tree.map(lambda x: x[0], searches)
    return _End(every[0], best, None, history)


_optimum, _optima = fresh_jit(optimum), fresh_jit(optima)


@fresh_jit
def _objective(found: Posterior, z: Array) -> Objective:
    return found.objective_at(z)


def _starts(found: Posterior, z: Array, count: int, options: FitOptions) -> Array:
    """`count` starts, the given one first, the others around it within the bounds.

    On circles they are anywhere.
    """
    key = jax.random.key(options.seed)
    away = jax.random.normal(key, (count, z.size), z.dtype).at[0].set(0)
    moves = found.parameters.scattered(away, options.start_scatter)
    return jnp.clip(z + moves, *found.parameters.limits().values())


def _conclude(
    found: Posterior, solver: Any, end: _End, rises: Array, options: FitOptions
) -> Fit:
    state = end.state
    by = solver if isinstance(solver, LevenbergMarquardt) else LevenbergMarquardt()
    # The steps of a search with ln sigma have a curvature of their own.
    if options.observed and options.covariance:
        found = found.with_observed_information()
        state = linearize_at(found, by, end.z)
    elif options.covariance if state is None else not found.is_plain:
        state = linearize_at(found.with_expected_information(slopes=True), by, end.z)
    aux = _objective(found, end.z) if state is None else state.aux
    facts = eqx.tree_at(lambda x: x.at_end, aux.extra, aux.extra.at_end | rises)
    fitted = fit_result(found, end.z, end.search, state, facts, end.history)
    if is_traced(fitted.chi2):
        return fitted
    if end.search.steps == 0 or not jnp.isfinite(fitted.chi2):
        culprit = first_not_finite(found, fitted.values)
        fitted = dataclasses.replace(fitted, culprit=culprit)
    known = options.covariance
    if not known or not is_outcome(aux.extra.result, RESULTS.successful):
        return fitted
    numbers = fitted.values, fitted.stderr, fitted.sigma_scale
    flat = on_plateau(found, *numbers)
    if flat.any():
        flat = fitted.undetermined | flat
        fitted = eqx.tree_at(lambda fit: fit.undetermined, fitted, flat)
    if not options.solver_error:
        return fitted
    error = solver_error(found, by, end.z) / fitted.sigma_scale
    return eqx.tree_at(lambda fit: fit.solver_error, fitted, error)


def _solver(
    given: Any, found: Posterior
) -> optx.AbstractLeastSquaresSolver | optx.AbstractMinimiser:
    """A solver of ours or of Optimistix that can do what the experiment asks."""
    if given is None:
        return LevenbergMarquardt()
    if isinstance(given, optax.GradientTransformation):
        return _descent(given, found.parameters)
    if inspect.isroutine(given) or isinstance(given, type):
        name = given.__name__
        call = "1e-2" if inspect.isfunction(given) else ""
        raise ValueError(
            f"solver must be an optimizer and not what makes one, got {name}; call it: "
            f"{name}({call})"
        )
    least_squares = isinstance(given, optx.AbstractLeastSquaresSolver)
    if not isinstance(given, (optx.AbstractMinimiser, LevenbergMarquardt)):
        if not least_squares:
            raise ValueError(
                "solver must be an Optax optimizer or an Optimistix least-squares "
                f"solver or minimiser, got {type(given).__name__}"
            )
        if found.varies or not found.is_plain:
            raise ValueError(
                f"solver {type(given).__name__} minimises sums of squares only, and "
                "noise that depends on the model adds ln sigma, as noise that is not "
                "Gaussian adds other terms; use LevenbergMarquardt or a minimiser"
            )
    return given


def _descent(
    given: optax.GradientTransformation, parameters: Parameters
) -> OptaxDescent:
    return OptaxDescent(
        optimizer=given, searches_lines=has_line_search(given, parameters.z_start)
    )


_MOST_NAMES = 6


def warn_of_single_precision(act: str, model: PyTree, data: PyTree):
    """Warn if JAX runs in float32, or arrays do: error bars lose digits first."""
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"{act} in float32: error bars and weak directions lose digits first; for "
            'float64 call jax.config.update("jax_enable_x64", True) first of all',
            stacklevel=3,
        )
        return
    names = _short_floats("model", model) + _short_floats("data", data)
    if names:
        more = len(names) - _MOST_NAMES
        listed = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" * (more > 0))
        warnings.warn(
            f"{act} of arrays below float64 in a float64 session: {listed}; a run "
            "takes the precision of its state, and error bars lose digits first; give "
            "jnp.asarray(x, float), or filter this warning if it is meant",
            stacklevel=3,
        )


def _short_floats(root: str, tree: PyTree) -> list[str]:
    """Names of floating arrays below double precision, with their types."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [
        f"{joined((root, *map(step_to, path)))} ({leaf.dtype})"
        for path, leaf in leaves
        if _is_short(leaf)
    ]


def _is_short(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
        return False
    return jnp.finfo(dtype).bits < 64
