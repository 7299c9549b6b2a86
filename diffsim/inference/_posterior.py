"""`Posterior`: prediction, data, noise and priors as one loss."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._jaxpr._tracing import explain_derivative_errors, explain_tracer_errors
from .._linalg import matmul
from .._results import RESULTS
from .._types import PyTree
from .._validation import as_array, as_vector, function_of
from ..simulations import Trajectory, failures_as_nan
from ._argument_order import check_not_simulation
from ._compared import Compared, FitStatistics, with_culprit
from ._curvature_rows import curvature_rows
from ._information_factor import column_norms
from ._jacobian import value_and_jacobian
from ._levenberg_marquardt_state import Objective
from ._likelihoods import (
    AbstractIndependentLikelihood,
    DataLayout,
    DataSets,
    Gaussian,
    checked_data,
    data_sets,
)
from ._parameters import Parameters, parameters


class Posterior(eqx.Module):
    r"""Negative logarithm of the posterior as a function of coordinates z.

    `data` and `layouts` are those of each data set. `expected`: whether rows stand for
    the information, as error bars do, or for a curvature that steps are safe with;
    `slopes`: see `with_expected_information`.
    `shift` is added to predictions, to see what another one would do. `curvature`: that
    of the "expected" information, or the "observed" second derivative of the loss.
    `batch`: rows of the data of which the loss is estimated, None for all.
    """

    predict: Callable
    noise: Any
    data: tuple[Float[Array, " datum"], ...] | None
    parameters: Parameters
    layouts: tuple[DataLayout, ...] | None
    expected: Bool[Array, ""] | bool = False
    slopes: Bool[Array, ""] | bool = False
    shift: tuple[Array, ...] | None = None
    batch: Int[Array, " row"] | None = None
    curvature: str = eqx.field(static=True, default="expected")

    def _outcome(self, *given: PyTree) -> tuple[PyTree, RESULTS]:
        """The prediction, NaN where a simulation failed, and how the run went."""
        with failures_as_nan(), explain_tracer_errors("predict", self.predict):
            found = self.predict(*given)
        if isinstance(found, Trajectory):
            return found.states, found.result
        return found, RESULTS.successful

    def compared(self, values: Array) -> Compared:
        """The prediction beside the data; beside itself where there are none."""
        model = self.parameters.model(values)
        sets = data_sets(self.noise, self.parameters.model(values))
        if self.batch is not None:
            return self._compared_batch(model, sets, values)
        states, result = self._outcome(model)
        _check_real(states)
        predictions, comparisons = [], []
        for i, part in enumerate(sets.split("the prediction", states)):
            likelihood = sets.likelihoods[i]
            layout = (
                likelihood.layout(part) if self.layouts is None else self.layouts[i]
            )
            flat = likelihood.flat_prediction(part, layout).astype(values.dtype)
            if self.shift is not None and self.shift[i].shape == flat.shape:
                flat = flat + self.shift[i].astype(flat.dtype)
            data = None if self.data is None else self.data[i]
            predictions.append(flat)
            comparisons.append(likelihood.compare(flat, data, layout, sets.varies[i]))
        prior = self.parameters.prior(values, self.expected, self.slopes)
        found = Compared(tuple(comparisons), tuple(predictions), prior, result)
        return eqx.tree_at(lambda x: x.result, found, with_culprit(found))

    def draw(self, keys: Array, values: Array) -> tuple[Float[Array, "..."], ...]:
        """Data of each set drawn at `values`, one for each key."""
        model = self.parameters.model(values)
        states, _ = self._outcome(model)
        sets = data_sets(self.noise, model)
        drawn = []
        for i, part in enumerate(sets.split("the prediction", states)):
            likelihood = sets.likelihoods[i]
            layout = (
                likelihood.layout(part) if self.layouts is None else self.layouts[i]
            )
            flat = likelihood.flat_prediction(part, layout).astype(values.dtype)
            own = jax.vmap(jax.random.fold_in, (0, None))(keys, i)
            draw = functools.partial(likelihood.draw, prediction=flat, layout=layout)
            drawn.append(jax.vmap(draw)(own))
        return tuple(drawn)

    def _compared_batch(self, model: PyTree, sets: DataSets, values: Array) -> Compared:
        """Rows of the data beside their prediction, as if all others were masked."""
        assert self.batch is not None and self.data is not None
        assert self.layouts is not None
        states, result = self._outcome(model, self.batch)
        (likelihood,), (layout,), (data,) = sets.likelihoods, self.layouts, self.data
        rows = layout.rows(self.batch)
        flat = as_vector(jax.tree.leaves(states)).astype(values.dtype)
        if flat.size != rows.size:
            raise ValueError(
                "predict(model, rows) must return the prediction of these rows of the "
                f"data, {rows.size} numbers, got {flat.size}"
            )
        used = jnp.zeros(layout.size, bool).at[rows].set(True)
        known = likelihood.used(layout)
        mask = layout.unflatten(used if known is None else used & known)
        chosen = eqx.tree_at(
            lambda x: x.mask, likelihood, mask, is_leaf=lambda x: x is None
        )
        full = data.astype(values.dtype).at[rows].set(flat)
        one = chosen.compare(full, data, layout, sets.varies[0])
        prior = self.parameters.prior(values, self.expected, self.slopes)
        return Compared((one,), (full,), prior, result)

    @property
    def varies(self) -> bool:
        """Whether some of the noise is a function of the model."""
        return any(map(is_function, _noises(self.noise)))

    @property
    def scale_is_unknown(self) -> bool:
        """Whether the size of the noise is judged from the residuals."""
        every = _noises(self.noise)
        return any(isinstance(x, Gaussian) and x.scale_is_unknown for x in every)

    def rows(self, z: Array, args: Any = None) -> tuple[Array, Objective]:
        """Rows e and the loss at `z`, for a solver that differentiates them to step.

        With A the derivative of the rows, Aᵀe is the gradient of the loss and AᵀA its
        curvature. That is no derivative to go on from: one that is differentiated again
        is `rows_and_jacobian`.
        """
        del args
        if self.curvature == "observed":
            # The derivative that a solver takes is the second one of the loss, and no
            # third.
            hold = jax.lax.stop_gradient
            e, jacobian, objective = self.rows_and_jacobian(hold(z))
            return hold(e) + matmul(hold(jacobian), z - hold(z)), objective
        rows, objective, _ = self.evaluated(z)
        return rows, objective

    def evaluated(self, z: Array) -> tuple[Array, Objective, Compared]:
        """Rows of the expected information, the loss, and what they are made of."""
        values = self.parameters.values(z)
        numbers, found = self.numbers(values)
        rows = self._rows_of(found)
        if not self.is_plain:
            # Steps are by this curvature; of what they reach it is no derivative.
            hold = jax.lax.stop_gradient
            away = self.whiten(hold(found), numbers - hold(numbers))
            rows = hold(rows) + away
        return rows, self.objective_of(found, values), found

    @property
    def is_plain(self) -> bool:
        """Whether rows are residuals, of which the derivative is what steps need."""
        others = any(self.parameters.distributions) or self.parameters.priors
        return not others and all(isinstance(x, Gaussian) for x in _noises(self.noise))

    def rows_and_jacobian(
        self, z: Array, **options: Any
    ) -> tuple[Array, Array, Objective]:
        """Rows e, the A of `rows`, and the loss: functions of `z` like any other.

        A is the derivative of the numbers that likelihoods depend on, whitened. That is
        done after the derivative is taken, so that the derivative of A is whole.

        **Arguments:** `options`, those of `value_and_jacobian`.
        """

        if self.curvature == "observed":
            rows, jacobian = curvature_rows(self.loss, z, positive=~self.expected)
            return rows, jacobian, self.objective_at(z)

        def numbers(z: Array):
            return self.numbers(self.parameters.values(z))

        _, jacobian, found = value_and_jacobian(numbers, z, **options)
        values = self.parameters.values(z)
        jacobian = self.whiten_columns(found, jacobian)
        objective = self.objective_of(found, values)
        if not self.is_plain:
            at_end = _reach_the_end(found, jacobian)
            objective = eqx.tree_at(lambda x: x.extra.at_end, objective, at_end)
        return self._rows_of(found), jacobian, objective

    def numbers(self, values: Array) -> tuple[Array, Compared]:
        """The numbers of all likelihoods, and whitened priors."""
        found = self.compared(values)
        numbers = [one.numbers() for one in found.comparisons]
        return jnp.concatenate([*numbers, found.prior.numbers()]), found

    def whiten(self, found: Compared, tangent: Array) -> Array:
        """A change of the `numbers` in units of the information of each likelihood."""
        rows, begin = [], 0
        for one in found.comparisons:
            end = begin + one.numbers().size
            rows.append(one.whiten(tangent[begin:end], self.expected))
            begin = end
        return jnp.concatenate([*rows, found.prior.whiten(tangent[begin:])])

    def whiten_columns(self, found: Compared, jacobian: Array) -> Array:
        """The derivative of the `numbers`, (number, parameter), in the same units."""
        whiten = eqx.filter_vmap(self.whiten, in_axes=(None, 1), out_axes=1)
        return whiten(found, jacobian)

    def _rows_of(self, found: Compared) -> Array:
        """The rows of each likelihood, and those of priors."""
        rows = [one.rows(self.expected) for one in found.comparisons]
        return jnp.concatenate([*rows, found.prior.rows()])

    def objective_of(self, found: Compared, values: Array) -> Objective:
        """The loss and the statistics of what was compared at `values`."""
        known = jnp.asarray(0.0 if self.scale_is_unknown else 1.0, values.dtype)
        facts = FitStatistics.of(found, values.size)
        return Objective(self._loss(found), known, facts)

    def with_expected_information(self, *, slopes: bool = False) -> "Posterior":
        """The same with rows that stand for the expected information.

        With `slopes` next to nothing is added to it, where a prior has a slope and no
        information, so that the gradient of the rows is whole.
        """
        both = jnp.array(True), jnp.array(slopes)
        return eqx.tree_at(lambda e: (e.expected, e.slopes), self, both)

    def with_observed_information(self) -> "Posterior":
        """The same by the second derivative of the loss."""
        expected = self.with_expected_information()
        return dataclasses.replace(expected, curvature="observed")

    def loss(self, z: Array, args: Any = None) -> Array:
        """Minus the log posterior up to a constant, for gradient descent."""
        del args
        return self.loss_at(self.parameters.values(z))

    def loss_at(self, values: Array) -> Array:
        """The loss at the physical `values`."""
        return self._loss(self.compared(values))

    def objective_at(self, z: Array) -> Objective:
        """The loss and the statistics of `z`."""
        values = self.parameters.values(z)
        return self.objective_of(self.compared(values), values)

    def _loss(self, found: Compared) -> Array:
        losses = jnp.asarray(sum(one.loss() for one in found.comparisons))
        if self.batch is not None and self.layouts is not None:
            losses = losses * (self.layouts[0].shapes[0][0] / self.batch.size)
        return losses + found.prior.loss()


def _reach_the_end(found: Compared, jacobian: Array) -> Bool[Array, " parameter"]:
    """Parameters whose error bars, alone, are 100 times the room of a prediction."""
    room = jnp.concatenate(
        [one.room().astype(jacobian.dtype) for one in found.comparisons]
    )
    rows = jnp.abs(jacobian[: room.size])
    return jnp.any(rows > 100 * column_norms(jacobian) * room[:, None], axis=0)


def _noises(noise: Any) -> list[Any]:
    """Likelihoods and functions to them."""
    return jax.tree.leaves(noise, is_leaf=is_noise)


def is_noise(node: Any) -> bool:
    """Whether a node of a pytree of noise is a likelihood or a function to one."""
    return hasattr(node, "log_prob") or callable(node)


def is_function(noise: Any) -> bool:
    """Whether noise is a function of the model."""
    return callable(noise) and not hasattr(noise, "log_prob")


def explain_derivatives(
    found: Posterior, *, forward: str, reverse: str
) -> contextlib.AbstractContextManager[None]:
    """Raise `ValueError` where JAX cannot differentiate what a user wrote."""
    if found.varies:
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


def posterior(
    predict: Any,
    model: PyTree,
    data: PyTree,
    *,
    noise: Any,
    free: Any,
    priors: Any = (),
    fixed: Any = (),
    batches: Any = None,
) -> Posterior:
    """The experiment that `fit` and `fisher` speak of, its arguments checked."""
    arguments = ("model",) if batches is None else ("model", "rows")
    function_of("predict", predict, arguments)
    check_not_simulation(data)
    found = parameters(model, free, priors, fixed)
    # The model is made, in a dozen small programs, only where something reads it.
    varies = any(map(is_function, _noises(noise)))
    sets = data_sets(noise, found.model(found.start) if varies else model)
    if any(one.scale_is_unknown for one in sets.likelihoods) and not (
        found.is_without_prior
    ):
        raise ValueError(
            "noise=Gaussian() cannot be combined with priors, whose weight depends on "
            "sigma; make sigma a parameter: noise=lambda model: Gaussian(model.sigma)"
        )
    expected = slopes = as_array(np.array(False))
    if data is None:
        return Posterior(predict, noise, None, found, None, expected, slopes)
    states = data.states if isinstance(data, Trajectory) else data
    vectors, layouts = checked_data(states, sets)
    shift = tuple(as_array(np.zeros(x.shape, x.dtype)) for x in vectors)
    made = Posterior(predict, noise, vectors, found, layouts, expected, slopes, shift)
    if batches is not None:
        made = dataclasses.replace(made, batch=all_rows(sets, layouts))
    parts = zip(sets.likelihoods, layouts, sets.varies, strict=True)
    if all(one.has_information(layout.size, moves) for one, layout, moves in parts):
        return made
    return dataclasses.replace(made, curvature="observed")


def all_rows(sets: DataSets, layouts: tuple[DataLayout, ...]) -> Array:
    """Indices of all rows of data that can be taken in batches."""
    independent = all(
        isinstance(one, AbstractIndependentLikelihood)
        or (isinstance(one, Gaussian) and one.covariance is None)
        for one in sets.likelihoods
    )
    one_array = len(layouts) == 1 and len(layouts[0].shapes) == 1
    if not one_array or not layouts[0].shapes[0] or not independent:
        raise ValueError(
            "batches are of data that are one array, by rows along its first axis, "
            "with independent noise; take all data at once"
        )
    return jnp.arange(layouts[0].shapes[0][0])


def likelihoods_of(found: Posterior) -> DataSets:
    """The likelihoods at the start."""
    return data_sets(found.noise, found.parameters.model(found.parameters.start))
