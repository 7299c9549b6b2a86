"""Prediction, data and noise as one function of the coordinates of the parameters."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._checks import check_takes
from .._products import product
from .._results import RESULTS
from .._user_code import explain_tracer_errors
from ..simulations import Trajectory, failures_as_nan
from ._argument_order import object_to_simulations
from ._levenberg_marquardt import Objective
from ._noise import Layout, checked_data, layout, noise_at
from ._parameters import Parameters, parameters


class Whitened(eqx.Module):
    """A prediction beside its data; 0 and 0, with σ = 1, where masked."""

    prediction: Float[Array, " datum"]
    difference: Float[Array, " datum"]
    sigma: Float[Array, " datum"]
    used: Bool[Array, " datum"]
    result: RESULTS

    @property
    def distance(self) -> Array:
        """(prediction − data)/σ, with σ = 1 if it is unknown; 0 where masked."""
        return self.difference / self.sigma

    @property
    def log_sigma(self) -> Array:
        return jnp.log(self.sigma)


class Facts(eqx.Module):
    """What a report says about a prediction."""

    chi2: Float[Array, ""]
    log_sigma: Float[Array, ""]
    size: Int[Array, ""]
    result: RESULTS

    @classmethod
    def of(cls, found: Whitened) -> "Facts":
        """Sums over the data that are used."""
        chi2 = product(found.distance, found.distance)
        good = RESULTS.successful
        # An array even if nothing ran that could fail, so that states keep their type.
        result = RESULTS.where(jnp.array(False), good, found.result)
        return cls(chi2, jnp.sum(found.log_sigma), jnp.sum(found.used), result)

    @classmethod
    def none(cls, dtype: Any) -> "Facts":
        """Of no data, in the types that `of` returns."""
        nothing = jnp.zeros(0, dtype)
        good = RESULTS.successful
        return cls.of(Whitened(nothing, nothing, nothing, nothing > 0, good))


class Experiment(eqx.Module):
    r"""What is fitted: $-\ln$ posterior as a function of coordinates z.

    With noise that does not depend on the model the objective is half the sum of the
    squared rows; else $\sum\tfrac12\rho_i^2 + \ln\sigma_i$.

    `expected`: whether rows stand for the expected information, as error bars do, or
    for a curvature in $\ln\sigma$ that steps are safe with.
    """

    predict: Callable
    noise: Any
    data: Float[Array, " datum"] | None
    parameters: Parameters
    layout: Layout | None
    expected: Bool[Array, ""] | bool = False

    def _outcome(self, values: Array) -> tuple[PyTree, RESULTS]:
        """The prediction, NaN where a simulation failed, and how the run went."""
        with failures_as_nan(), explain_tracer_errors("predict", self.predict):
            found = self.predict(self.parameters.model(values))
        if isinstance(found, Trajectory):
            return found.states, found.result
        return found, RESULTS.successful

    def whitened(self, values: Array) -> Whitened:
        """The prediction beside the data; beside itself where there are none."""
        states, result = self._outcome(values)
        shape = layout(states) if self.layout is None else self.layout
        _check_real(states)
        prediction = shape.flat("the prediction", states).astype(values.dtype)
        noise = noise_at(self.noise, self.parameters.model(values))
        sigma = self._sigma(noise, shape, prediction)
        used = jnp.ones(prediction.shape, bool)
        if noise.mask is not None:
            used = shape.flat("mask", noise.mask)
        # Data that are yet to come do not follow the parameters: only the prediction
        # varies in the difference, so that its derivative is that of the prediction.
        data = jax.lax.stop_gradient(prediction) if self.data is None else self.data
        # What is masked goes before anything is made of it: NaN times zero is NaN, and
        # that is what the derivative of a choice made afterwards is.
        data, sigma = jnp.where(used, data, 0), jnp.where(used, sigma, 1)
        prediction = jnp.where(used, prediction, 0)
        difference = prediction - data.astype(values.dtype)
        return Whitened(prediction, difference, sigma, used, result)

    def sigma(self, values: Array) -> Array:
        """Of each datum; 1 where it is unknown."""
        assert self.layout is not None and self.data is not None
        noise = noise_at(self.noise, self.parameters.model(values))
        return self._sigma(noise, self.layout, self.data)

    def _sigma(self, noise: Any, shape: Layout, like: Array) -> Array:
        if noise.sigma is None:
            return jnp.ones_like(like)
        return shape.spread("sigma", noise.sigma).astype(like.dtype)

    def rows(self, z: Array, args: Any = None) -> tuple[Array, Objective]:
        """Rows e and the loss at the coordinates `z`, for a least-squares solver.

        With A the derivative of the rows, Aᵀe is the gradient of the loss and AᵀA its
        curvature: that of the mean, and one in ln σ by `expected`.
        """
        del args
        values = self.parameters.values(z)
        found = self.whitened(values)
        known = jnp.asarray(0.0 if self.scale_is_unknown else 1.0, z.dtype)
        loss = self._loss(found, values)
        rows = self.rows_of(found, values, expected=self.expected)
        return rows, Objective(loss, known, Facts.of(found))

    def rows_of(self, found: Whitened, values: Array, *, expected: Any) -> Array:
        """A row for each datum, for each ln σ if it varies, and for each prior."""
        prior = self.parameters.prior_rows(values)
        if not callable(self.noise):
            return jnp.concatenate([found.distance, prior])
        return jnp.concatenate([*_scoring_rows(found, expected), prior])

    def with_expected_information(self) -> "Experiment":
        """The same with rows that stand for the expected information."""
        return eqx.tree_at(lambda e: e.expected, self, jnp.array(True))

    def loss(self, z: Array, args: Any = None) -> Array:
        """Minus the log posterior up to a constant, for gradient descent."""
        del args
        return self.loss_at(self.parameters.values(z))

    def loss_at(self, values: Array) -> Array:
        """The loss at the physical `values`."""
        return self._loss(self.whitened(values), values)

    @property
    def scale_is_unknown(self) -> bool:
        return not callable(self.noise) and self.noise.sigma is None

    def _loss(self, found: Whitened, values: Array) -> Array:
        prior = self.parameters.prior_rows(values)
        squares = product(found.distance, found.distance) + product(prior, prior)
        loss = squares / 2
        if callable(self.noise):
            loss += jnp.sum(found.log_sigma)
        return loss


def _check_real(states: PyTree):
    """A cast would drop the imaginary part."""
    for leaf in jax.tree.leaves(states):
        if jnp.iscomplexobj(leaf):
            raise ValueError(
                f"the prediction must be real numbers, got dtype {leaf.dtype}; return "
                "its real and imaginary parts, jnp.stack([z.real, z.imag]), and give "
                "data and sigma of that shape"
            )


def _scoring_rows(found: Whitened, expected: Any) -> list[Array]:
    r"""Rows of the mean and of ln σ: a curvature that is a sum of squares.

    The gradient, rows times their derivative, is exact. Where `expected`, the curvature
    is the expected information, $(\mu'/\sigma)^2 + 2(\sigma'/\sigma)^2$. Far from the
    optimum that is none to step by: with a σ that is f times too small the gradient in
    ln σ is $1 - f^2$ a datum and the step $f^2/2$, e-folds beyond the optimum. The mean
    of the expected and the observed curvature, $1 + \rho^2$, makes the step tanh of
    what there is to go, from either side.
    """
    # The derivatives of what is held constant would put the residuals of these very
    # data into the curvature.
    hold = jax.lax.stop_gradient
    mean = jnp.where(found.used, found.difference / hold(found.sigma), 0)
    square = hold(found.distance) ** 2
    weight = jnp.sqrt(jnp.where(expected, 2.0, 1 + square))
    score = jnp.where(found.used, (1 - square) / weight, 0)
    change = found.log_sigma - hold(found.log_sigma)
    return [mean, score + weight * change]


def experiment(
    predict: Any, model: PyTree, data: PyTree, *, noise: Any, free: Any
) -> Experiment:
    """The experiment that `fit` and `fisher` speak of, its arguments checked."""
    check_takes("predict", predict, ("model",))
    object_to_simulations(data)
    found = parameters(model, free)
    first = noise_at(noise, found.model(found.start))
    if first.sigma is None and found.has_prior:
        raise ValueError(
            "noise=Gaussian() cannot be combined with priors, whose weight depends on "
            "sigma; make sigma a parameter: noise=lambda model: Gaussian(model.sigma)"
        )
    if data is None:
        return Experiment(predict, noise, None, found, None, jnp.array(False))
    states = data.states if isinstance(data, Trajectory) else data
    flat, shape = checked_data(states, first)
    return Experiment(predict, noise, flat, found, shape, jnp.array(False))
