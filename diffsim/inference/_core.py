"""The pure core of a fit: traceable, batchable, and differentiable at the optimum."""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from jaxtyping import Array, Bool, Float, Int
from optimistix.internal import implicit_jvp

from .._results import RESULTS
from ._descent import Descent
from ._experiment import Experiment
from ._levenberg_marquardt import LevenbergMarquardt


class Search(eqx.Module):
    """How a search ended, and the loss there."""

    loss: Float[Array, ""]
    result: RESULTS
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    non_finite: Int[Array, ""]
    held: Bool[Array, " parameter"]


def optimum(
    experiment: Experiment, solver: Any, z: Array, max_steps: int
) -> tuple[Float[Array, " parameter"], Search]:
    r"""Coordinates of the best fit from the start `z`.

    Its derivative is that of the condition $\nabla_z\,\text{loss} = 0$, not of the
    steps: $dz = -H^{-1}\,d(\nabla\text{loss})$, with 0 for what a bound holds.
    """
    inputs = _hoisted(experiment), solver, z, max_steps
    # implicit_jvp insists on plain functions; a type checker may have wrapped them.
    functions = inspect.unwrap(_searched), inspect.unwrap(_stationarity)
    linear = lx.AutoLinearSolver(well_posed=None)
    return implicit_jvp(*functions, inputs, frozenset(), linear)


def optima(
    experiment: Experiment, solver: Any, starts: Array, max_steps: int
) -> tuple[Array, Search]:
    """`optimum` from every start at once, the best first."""
    found = jax.vmap(lambda z: optimum(experiment, solver, z, max_steps))(starts)
    loss = jnp.where(jnp.isfinite(found[1].loss), found[1].loss, jnp.inf)
    order = jnp.argsort(loss)
    return jax.tree.map(lambda x: x[order], found)


def _hoisted(experiment: Experiment) -> Experiment:
    """Values that `predict` and `noise` close over become visible to the derivative."""
    parameters = experiment.parameters
    model = parameters.model(parameters.start)
    predict = eqx.filter_closure_convert(experiment.predict, model)
    noise = experiment.noise
    if callable(noise):
        noise = eqx.filter_closure_convert(noise, model)
    return Experiment(predict, noise, experiment.data, parameters, experiment.layout)


def _searched(inputs):
    experiment, solver, z, max_steps = inputs
    options = experiment.parameters.limits()
    given = {"max_steps": max_steps, "throw": False}
    if isinstance(solver, optx.AbstractLeastSquaresSolver):
        found = optx.least_squares(
            experiment.rows, solver, z, options=options, has_aux=True, **given
        )
    else:
        found = optx.minimise(experiment.loss, solver, z, options=options, **given)
    if isinstance(solver, (LevenbergMarquardt, Descent)):
        return found.value, _ended(found)
    return found.value, _ended_elsewhere(found, experiment)


def _ended(found: Any) -> Search:
    """In the words of our solvers."""
    state = found.state
    fine = jnp.asarray(state.result == RESULTS.successful)
    none = jnp.zeros(found.value.shape, bool)
    return Search(
        loss=state.value,
        result=RESULTS.where(fine, RESULTS.promote(found.result), state.result),
        steps=jnp.asarray(found.stats["num_steps"]),
        rejected=jnp.asarray(getattr(state, "rejected", 0)),
        non_finite=state.non_finite,
        held=getattr(state, "held", none),
    )


def _ended_elsewhere(found: Any, experiment: Experiment) -> Search:
    """In the words of any Optimistix solver."""
    loss, none = experiment.loss(found.value), jnp.array(0)
    result = RESULTS.promote(found.result)
    return Search(
        loss=loss,
        result=RESULTS.where(jnp.isfinite(loss), result, RESULTS.prediction_not_finite),
        steps=jnp.asarray(found.stats["num_steps"]),
        rejected=none,
        non_finite=none,
        held=jnp.zeros(found.value.shape, bool),
    )


def _stationarity(z, search, inputs):
    experiment, *_ = inputs
    gradient = jax.grad(experiment.loss)(z)
    lower, upper = experiment.parameters.limits().values()
    side = jnp.where(jnp.abs(z - lower) < jnp.abs(z - upper), lower, upper)
    return jnp.where(search.held, z - jnp.where(search.held, side, 0), gradient)
