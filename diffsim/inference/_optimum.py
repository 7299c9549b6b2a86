"""Differentiable, batchable search for the optimum."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, Float, Int

from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS
from .._validation import is_traced
from ..implicit import ImplicitAdjoint, ImplicitEquation, implicit_solve
from ..simulations import failures_as_nan
from ._levenberg_marquardt import LevenbergMarquardt
from ._likelihoods import is_noise, is_noise_function
from ._optax_minimiser import OptaxDescent
from ._posterior import Posterior


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
    # Values that `predict` and `noise` close over become visible to the derivative.
    model = experiment.parameters.model(experiment.parameters.start)
    # A trial step that fails does not raise: the context counts while JAX traces.
    with failures_as_nan():
        predict = eqx.filter_closure_convert(experiment.predict, model)
    noise = jax.tree.map(
        lambda x: eqx.filter_closure_convert(x, model) if is_noise_function(x) else x,
        experiment.noise,
        is_leaf=is_noise,
    )
    experiment = eqx.tree_at(
        lambda e: (e.predict, e.noise), experiment, (predict, noise)
    )
    # The search itself has no part in the derivative.
    constant, solver, z = jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x,
        (experiment, solver, z),
    )
    z, search = _search(constant, solver, z, max_steps)
    equation = ImplicitEquation(
        _stationarity, (experiment, search.held), None, _guess_is_root
    )
    (z, loss), _ = implicit_solve(equation, (z, search.loss), ImplicitAdjoint())
    return z, eqx.tree_at(lambda s: s.loss, search, loss)


def _guess_is_root(how, function, y, theta):
    del how, function, theta
    return y, (), None


def optima(
    experiment: Posterior, solver: Any, starts: Array, max_steps: int
) -> tuple[Array, SearchResult]:
    """`optimum` from every start at once, the best first."""
    ends = jax.vmap(lambda z: optimum(experiment, solver, z, max_steps))(starts)
    order = jnp.argsort(jnp.where(jnp.isfinite(ends[1].loss), ends[1].loss, jnp.inf))
    return jax.tree.map(lambda x: x[order], ends)


def _search(
    experiment: Posterior, solver: Any, z: Array, max_steps: int
) -> tuple[Array, SearchResult]:
    keywords: dict[str, Any] = {"max_steps": max_steps, "throw": False}
    lower, upper = experiment.parameters.limits
    keywords["options"] = {"lower": lower, "upper": upper}
    if isinstance(solver, optx.AbstractLeastSquaresSolver):
        rows = experiment.rows
        solution = optx.least_squares(rows, solver, z, has_aux=True, **keywords)
    else:
        solution = optx.minimise(experiment.loss, solver, z, **keywords)
    state, none = solution.state, jnp.zeros(z.shape, bool)
    result = RESULTS.promote(solution.result)
    if isinstance(solver, (LevenbergMarquardt, OptaxDescent)):
        loss, non_finite = state.value, state.non_finite
        is_fine = jnp.asarray(state.result == RESULTS.successful)
        result = RESULTS.where(is_fine, result, state.result)
    else:
        loss, non_finite, state = experiment.loss(solution.value), jnp.array(0), None
        finite = jnp.isfinite(loss)
        result = RESULTS.where(finite, result, RESULTS.prediction_not_finite)
    return solution.value, SearchResult(
        loss=loss,
        result=result,
        steps=jnp.asarray(solution.stats["num_steps"]),
        rejected=jnp.asarray(getattr(state, "rejected", 0)),
        non_finite=non_finite,
        held=getattr(state, "held", none),
    )


def _stationarity(y, theta):
    """Return the gradient, which vanishes at an optimum, and the loss there."""
    (z, loss), (experiment, held) = y, theta
    value, gradient = jax.value_and_grad(experiment.loss)(z)
    lower, upper = experiment.parameters.limits
    side = jnp.where(jnp.abs(z - lower) < jnp.abs(z - upper), lower, upper)
    gradient = jnp.where(held, z - jnp.where(held, side, 0), gradient)
    return gradient, loss - value


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
    lower, upper = experiment.parameters.limits
    moved = jnp.clip(jnp.where(z < upper, z + step, z - step), lower, upper)
    return moved, flat & (curvature > 0)


def leave_saddle(experiment: Posterior, z: Array) -> tuple[Array, Array]:
    """`off_saddle` where a value is 0, as nowhere else a slope vanishes exactly."""
    if is_traced(z) or jnp.all(_values(experiment, z)):
        return z, jnp.zeros(z.shape, bool)
    return _off_saddle(experiment, z)


@fresh_jit
def starting_at(experiment: Posterior, z: Array) -> Posterior:
    """The same fit from another start."""
    start = experiment.parameters.values(z)
    return eqx.tree_at(
        lambda e: (e.parameters.start, e.parameters.z_start), experiment, (start, z)
    )


_off_saddle = fresh_jit(off_saddle)
_values = fresh_jit(lambda experiment, z: experiment.parameters.values(z))
