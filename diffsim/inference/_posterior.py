"""`Posterior`: prediction, data, noise and priors as one loss."""

import contextlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._linalg import matmul
from .._results import RESULTS, equals
from .._tracer_errors import explain_derivative_errors, explain_tracer_errors
from .._types import PyTree
from .._validation import as_array, check_signature
from ..simulations import Trajectory, failures_as_nan
from ._argument_order import check_not_simulation
from ._jacobian import value_and_jacobian
from ._levenberg_marquardt_state import Objective
from ._noise import DataLayout, checked_data, data_layout, noise_at
from ._parameters import Parameters, parameters


class WhitenedResiduals(eqx.Module):
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


class FitStatistics(eqx.Module):
    """Statistics of a prediction, for the report."""

    chi2: Float[Array, ""]
    log_sigma: Float[Array, ""]
    size: Int[Array, ""]
    result: RESULTS

    @classmethod
    def of(cls, found: WhitenedResiduals) -> "FitStatistics":
        """Sums over the data that are used."""
        chi2 = matmul(found.distance, found.distance)
        good = RESULTS.successful
        # An array even if nothing ran that could fail, so that states keep their type.
        result = RESULTS.where(jnp.array(False), good, found.result)
        return cls(chi2, jnp.sum(found.log_sigma), jnp.sum(found.used), result)

    @classmethod
    def none(cls, dtype: Any) -> "FitStatistics":
        """Of no data, in the types that `of` returns."""
        nothing = jnp.zeros(0, dtype)
        numbers = nothing, nothing, nothing, nothing > 0
        return cls.of(WhitenedResiduals(*numbers, RESULTS.successful))


class Posterior(eqx.Module):
    r"""Negative logarithm of the posterior as a function of coordinates z.

    With noise that does not depend on the model the objective is half the sum of the
    squared rows; else $\sum\tfrac12\rho_i^2 + \ln\sigma_i$.

    `expected`: whether rows stand for the expected information, as error bars do, or
    for a curvature in $\ln\sigma$ that steps are safe with.
    """

    predict: Callable
    noise: Any
    data: Float[Array, " datum"] | None
    parameters: Parameters
    layout: DataLayout | None
    expected: Bool[Array, ""] | bool = False

    def _outcome(self, values: Array) -> tuple[PyTree, RESULTS]:
        """The prediction, NaN where a simulation failed, and how the run went."""
        with failures_as_nan(), explain_tracer_errors("predict", self.predict):
            found = self.predict(self.parameters.model(values))
        if isinstance(found, Trajectory):
            return found.states, found.result
        return found, RESULTS.successful

    def whitened(self, values: Array) -> WhitenedResiduals:
        """The prediction beside the data; beside itself where there are none."""
        states, result = self._outcome(values)
        shape = data_layout(states) if self.layout is None else self.layout
        _check_real(states)
        prediction = shape.flat("the prediction", states).astype(values.dtype)
        noise = noise_at(self.noise, self.parameters.model(values))
        sigma = self._sigma(noise, shape, prediction)
        used = jnp.ones(prediction.shape, bool)
        if noise.mask is not None:
            used = shape.flat("mask", noise.mask)
        data = prediction if self.data is None else self.data
        # What is masked goes before anything is made of it: NaN times zero is NaN, and
        # that is what the derivative of a choice made afterwards is.
        data, sigma = jnp.where(used, data, 0), jnp.where(used, sigma, 1)
        prediction = jnp.where(used, prediction, 0)
        difference = prediction - data.astype(values.dtype)
        result = _with_culprit(difference, sigma, result)
        return WhitenedResiduals(prediction, difference, sigma, used, result)

    def sigma(self, values: Array) -> Array:
        """Of each datum; 1 where it is unknown."""
        assert self.layout is not None and self.data is not None
        noise = noise_at(self.noise, self.parameters.model(values))
        return self._sigma(noise, self.layout, self.data)

    def _sigma(self, noise: Any, shape: DataLayout, like: Array) -> Array:
        if noise.sigma is None:
            return jnp.ones_like(like)
        return shape.broadcast("sigma", noise.sigma).astype(like.dtype)

    def rows(self, z: Array, args: Any = None) -> tuple[Array, Objective]:
        """Rows e and the loss at `z`, for a solver that differentiates them to step.

        With A the derivative of the rows, Aᵀe is the gradient of the loss and AᵀA its
        curvature, if σ varies with the model. That is no derivative to go on from: one
        that is differentiated again is `rows_and_jacobian`.
        """
        del args
        values = self.parameters.values(z)
        numbers, found = self.numbers(values)
        rows = self._rows_of(found, values)
        if callable(self.noise):
            # Steps are by this curvature; of what they reach it is no derivative.
            hold = jax.lax.stop_gradient
            away = (numbers - hold(numbers)) / hold(self.units(found))
            rows = hold(rows) + away
        return rows, self._objective(found, values)

    def rows_and_jacobian(
        self, z: Array, **options: Any
    ) -> tuple[Array, Array, Objective]:
        """Rows e, the A of `rows`, and the loss: functions of `z` like any other.

        A is the derivative of the mean and of ln σ over what these are measured in. It
        is divided after the derivative is taken, so that the derivative of A is whole.

        **Arguments:** `options`, those of `value_and_jacobian`.
        """

        def numbers(z: Array):
            return self.numbers(self.parameters.values(z))

        _, jacobian, found = value_and_jacobian(numbers, z, **options)
        values = self.parameters.values(z)
        jacobian = jacobian / self.units(found)[:, None]
        return self._rows_of(found, values), jacobian, self._objective(found, values)

    def numbers(self, values: Array) -> tuple[Array, WhitenedResiduals]:
        """The mean, ln σ if it varies and whitened priors, of which rows are made."""
        found = self.whitened(values)
        log_sigma = [found.log_sigma] if callable(self.noise) else []
        prior = self.parameters.prior_rows(values)
        return jnp.concatenate([found.prediction, *log_sigma, prior]), found

    def units(self, found: WhitenedResiduals) -> Array:
        r"""Units of the `numbers`: σ for the mean, and 1 for a prior.

        For ln σ where `expected`: √½, of the expected information,
        $(\mu'/\sigma)^2 + 2(\sigma'/\sigma)^2$. Far from the optimum that is none to
        step by: with a σ that is f times too small the gradient in ln σ is $1 - f^2$ a
        datum and the step $f^2/2$, e-folds beyond the optimum. The mean of the expected
        and the observed curvature, $1 + \rho^2$, makes the step tanh of what there is
        to go, from either side.
        """
        log_sigma = [1 / self._weight(found)] if callable(self.noise) else []
        prior = jnp.ones(len(self.parameters.has_prior), found.sigma.dtype)
        return jnp.concatenate([found.sigma, *log_sigma, prior])

    def _weight(self, found: WhitenedResiduals) -> Array:
        return jnp.sqrt(jnp.where(self.expected, 2.0, 1 + found.distance**2))

    def _rows_of(self, found: WhitenedResiduals, values: Array) -> Array:
        """A row for each datum, for each ln σ if it varies, and for each prior."""
        prior = self.parameters.prior_rows(values)
        if not callable(self.noise):
            return jnp.concatenate([found.distance, prior])
        score = (1 - found.distance**2) / self._weight(found)
        score = jnp.where(found.used, score, 0)
        return jnp.concatenate([found.distance, score, prior])

    def _objective(self, found: WhitenedResiduals, values: Array) -> Objective:
        known = jnp.asarray(0.0 if self.scale_is_unknown else 1.0, values.dtype)
        return Objective(self._loss(found, values), known, FitStatistics.of(found))

    def with_expected_information(self) -> "Posterior":
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

    def _loss(self, found: WhitenedResiduals, values: Array) -> Array:
        prior = self.parameters.prior_rows(values)
        squares = matmul(found.distance, found.distance) + matmul(prior, prior)
        loss = squares / 2
        if callable(self.noise):
            loss += jnp.sum(found.log_sigma)
        return loss


def explain_derivatives(
    found: Posterior, *, forward: str, reverse: str
) -> contextlib.AbstractContextManager[None]:
    """Raise `ValueError` where JAX cannot differentiate what a user wrote."""
    if callable(found.noise):
        # Where JAX says so, it is not known in which of them it is.
        name, function = "predict or noise", None
    else:
        name, function = "predict", found.predict
    return explain_derivative_errors(name, function, forward=forward, reverse=reverse)


def _check_real(states: PyTree):
    """A cast would drop the imaginary part."""
    for leaf in jax.tree.leaves(states):
        if jnp.iscomplexobj(leaf):
            raise ValueError(
                f"the prediction must be real numbers, got dtype {leaf.dtype}; return "
                "its real and imaginary parts, jnp.stack([z.real, z.imag]), and give "
                "data and sigma of that shape"
            )


def _with_culprit(difference: Array, sigma: Array, result: RESULTS) -> RESULTS:
    """`result`, or that sigma is what makes χ² infinite."""
    overflows = jnp.all(jnp.isfinite(difference)) & ~jnp.isfinite(
        jnp.sum((difference / sigma) ** 2)
    )
    blamed = overflows & equals(result, RESULTS.successful)
    return RESULTS.where(blamed, RESULTS.chi2_not_finite, result)


def posterior(
    predict: Any, model: PyTree, data: PyTree, *, noise: Any, free: Any
) -> Posterior:
    """The experiment that `fit` and `fisher` speak of, its arguments checked."""
    check_signature("predict", predict, ("model",))
    check_not_simulation(data)
    found = parameters(model, free)
    # The model is made, in a dozen small programs, only where something reads it.
    first = noise_at(noise, found.model(found.start) if callable(noise) else model)
    if first.sigma is None and found.has_prior:
        raise ValueError(
            "noise=Gaussian() cannot be combined with priors, whose weight depends on "
            "sigma; make sigma a parameter: noise=lambda model: Gaussian(model.sigma)"
        )
    expected = as_array(np.array(False))
    if data is None:
        return Posterior(predict, noise, None, found, None, expected)
    states = data.states if isinstance(data, Trajectory) else data
    flat, shape = checked_data(states, first)
    return Posterior(predict, noise, flat, found, shape, expected)
