"""Differentiable, batchable search for the optimum."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, Float, Int

from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS
from .._types import PyTree
from .._validation import is_traced
from ..implicit import ImplicitAdjoint, ImplicitEquation, implicit_solve
from ..simulations import failures_as_nan
from ._fit_loop import FitOptions
from ._levenberg_marquardt import LevenbergMarquardt
from ._optax_minimiser import OptaxDescent
from ._posterior import Posterior, is_function, is_noise


class SearchResult(eqx.Module):
    """How a search ended, and the loss there."""

    loss: Float[Array, ""]
    result: RESULTS
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    non_finite: Int[Array, ""]
    held: Bool[Array, " parameter"]


def optimum(
    experiment: Posterior, solver: Any, z: Array, max_steps: int
) -> tuple[Float[Array, " parameter"], SearchResult]:
    r"""Coordinates of the best fit from the start `z`.

    Its derivative is that of the condition $\nabla_z\,\text{loss} = 0$, not of the
    steps: $dz = -H^{-1}\,d(\nabla\text{loss})$, with 0 for what a bound holds, and NaN
    where the data leave a direction undetermined. That of the loss follows it.
    """
    experiment = _closure_convert(experiment)
    # What finds the optimum has no part in its derivative.
    z, search = _search(_stop_gradient((experiment, solver, z)), max_steps)
    equation = ImplicitEquation(
        _stationarity, (experiment, search.held), None, _guess_is_root
    )
    (z, loss), _ = implicit_solve(equation, (z, search.loss), ImplicitAdjoint())
    return z, eqx.tree_at(lambda s: s.loss, search, loss)


def _stop_gradient(tree: PyTree) -> PyTree:
    """`tree` without derivatives, which are those of the condition and not of steps."""
    return jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, tree
    )


def _guess_is_root(how, function, y, theta):
    del how, function, theta
    return y, (), None


def optima(
    experiment: Posterior, solver: Any, starts: Array, max_steps: int
) -> tuple[Array, SearchResult]:
    """`optimum` from every start at once, the best first."""
    found = jax.vmap(lambda z: optimum(experiment, solver, z, max_steps))(starts)
    loss = jnp.where(jnp.isfinite(found[1].loss), found[1].loss, jnp.inf)
    order = jnp.argsort(loss)
    return jax.tree.map(lambda x: x[order], found)


def _closure_convert(experiment: Posterior) -> Posterior:
    """Values that `predict` and `noise` close over become visible to the derivative."""
    parameters = experiment.parameters
    model = parameters.model(parameters.start)
    # Traced here, and so told here that a trial step which fails does not raise.
    with failures_as_nan():
        predict = eqx.filter_closure_convert(experiment.predict, model)
    noise = jax.tree.map(
        lambda x: eqx.filter_closure_convert(x, model) if is_function(x) else x,
        experiment.noise,
        is_leaf=is_noise,
    )
    return eqx.tree_at(lambda e: (e.predict, e.noise), experiment, (predict, noise))


def _search(given, max_steps: int):
    experiment, solver, z = given
    options = experiment.parameters.limits()
    given = {"max_steps": max_steps, "throw": False}
    if isinstance(solver, optx.AbstractLeastSquaresSolver):
        found = optx.least_squares(
            experiment.rows, solver, z, options=options, has_aux=True, **given
        )
    else:
        found = optx.minimise(experiment.loss, solver, z, options=options, **given)
    if isinstance(solver, (LevenbergMarquardt, OptaxDescent)):
        return found.value, _search_result(found)
    return found.value, _search_result_of_minimiser(found, experiment)


def _search_result(found: Any) -> SearchResult:
    """In the words of our solvers."""
    state = found.state
    fine = jnp.asarray(state.result == RESULTS.successful)
    none = jnp.zeros(found.value.shape, bool)
    return SearchResult(
        loss=state.value,
        result=RESULTS.where(fine, RESULTS.promote(found.result), state.result),
        steps=jnp.asarray(found.stats["num_steps"]),
        rejected=jnp.asarray(getattr(state, "rejected", 0)),
        non_finite=state.non_finite,
        held=getattr(state, "held", none),
    )


def _search_result_of_minimiser(found: Any, experiment: Posterior) -> SearchResult:
    """In the words of any Optimistix solver."""
    loss, none = experiment.loss(found.value), jnp.array(0)
    result = RESULTS.promote(found.result)
    return SearchResult(
        loss=loss,
        result=RESULTS.where(jnp.isfinite(loss), result, RESULTS.prediction_not_finite),
        steps=jnp.asarray(found.stats["num_steps"]),
        rejected=none,
        non_finite=none,
        held=jnp.zeros(found.value.shape, bool),
    )


def _stationarity(y, theta):
    """Return the gradient, which vanishes at an optimum, and the loss there."""
    (z, loss), (experiment, held) = y, theta
    value, gradient = jax.value_and_grad(experiment.loss)(z)
    lower, upper = experiment.parameters.limits().values()
    side = jnp.where(jnp.abs(z - lower) < jnp.abs(z - upper), lower, upper)
    gradient = jnp.where(held, z - jnp.where(held, side, 0), gradient)
    return gradient, loss - value


def looks_for_saddles(found: Posterior, solver: Any, options: FitOptions) -> bool:
    """Whether noise has parameters, and derivatives are taken forward anyway."""
    is_ours = isinstance(solver, LevenbergMarquardt)
    forward = solver.mode != "reverse" if is_ours else options.covariance
    return found.varies and forward


def off_saddle(experiment: Posterior, z: Array) -> tuple[Array, Array]:
    """`z` moved off where the loss falls without a slope, and where it rises so.

    A jitter of 0 has no slope: what the data say of it, the second derivative tells.
    The move is one standard deviation of that curvature.
    """

    def along(direction: Array) -> tuple[Array, Array]:
        def slope(z: Array) -> Array:
            return jax.jvp(experiment.loss, (z,), (direction,))[1]

        return jax.jvp(slope, (z,), (direction,))

    every = jnp.eye(z.size, dtype=z.dtype)
    slope, curvature = jax.lax.map(along, every, batch_size=128)
    flat = slope == 0
    falls = flat & (curvature < 0)
    step = jnp.where(falls, 1 / jnp.sqrt(jnp.where(falls, -curvature, 1)), 0)
    lower, upper = experiment.parameters.limits().values()
    moved = jnp.clip(jnp.where(z < upper, z + step, z - step), lower, upper)
    return moved, flat & (curvature > 0)


def leave_saddle(found: Posterior, z: Array) -> tuple[Array, Array]:
    """`off_saddle` where a value is 0, as nowhere else a slope vanishes exactly."""
    if is_traced(z) or jnp.all(_values(found, z)):
        return z, jnp.zeros(z.shape, bool)
    return _off_saddle(found, z)


@fresh_jit
def starting_at(found: Posterior, z: Array) -> Posterior:
    """The same fit from another start."""
    start = found.parameters.values(z)
    return eqx.tree_at(
        lambda e: (e.parameters.start, e.parameters.z_start), found, (start, z)
    )


@fresh_jit
def _values(found: Posterior, z: Array) -> Array:
    return found.parameters.values(z)


_off_saddle = fresh_jit(off_saddle)
