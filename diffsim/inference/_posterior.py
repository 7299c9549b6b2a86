"""`Posterior`: prediction, data, noise and priors as one loss."""

import contextlib
import dataclasses
import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._jaxpr._tracing import explain_derivative_errors, explain_tracer_errors
from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul
from .._paths import joined, step_to
from .._results import RESULTS, equals
from .._types import PyTree
from .._validation import as_array, as_vector, function_of, is_traced
from ..simulations import Trajectory, failures_as_nan, refined_steps
from ._information_factor import column_norms, curvature_rows, value_and_jacobian
from ._levenberg_marquardt import Objective
from ._likelihoods import (
    AbstractComparison,
    AbstractIndependentLikelihood,
    AbstractLikelihood,
    DataLayout,
    DataSets,
    Gaussian,
    checked_data,
    data_sets,
    is_noise,
    is_noise_function,
)
from ._parameters import Parameters, parameters
from ._priors import PriorTerm


_Result = TypeVar("_Result")


class Compared(eqx.Module):
    """A prediction beside its data, a part for each data set, and how the run went."""

    comparisons: tuple[AbstractComparison, ...]
    predictions: tuple[Array, ...]
    prior: PriorTerm
    result: RESULTS

    @property
    def masked_predictions(self) -> tuple[Float[Array, " number"], ...]:
        """The prediction of each data set; 0 where masked."""
        masked = []
        for comparison, x in zip(self.comparisons, self.predictions, strict=True):
            used = comparison.used
            if used is not None:  # a prediction may have several numbers a datum
                x = jnp.where(jnp.repeat(used, x.size // used.size), x, 0)
            masked.append(x)
        return tuple(masked)

    @property
    def prediction(self) -> Float[Array, " number"]:
        """All predictions as one vector; 0 where masked."""
        return jnp.concatenate(self.masked_predictions)

    @property
    def residuals(self) -> Float[Array, " datum"]:
        """All standardized residuals as one vector; 0 where masked."""
        return jnp.concatenate([part.residuals() for part in self.comparisons])


class FitStatistics(eqx.Module):
    """Statistics of a prediction, for the report.

    `at_end` are parameters whose error bars reach far beyond the end of the range of a
    prediction, where the loss has a slope and no minimum.
    """

    chi2: Float[Array, ""]
    log_prob: Float[Array, ""]
    size: Int[Array, ""]
    result: RESULTS
    at_end: Bool[Array, " parameter"]

    @classmethod
    def of(cls, compared: Compared, count: int) -> "FitStatistics":
        """Sums over the data that are used."""
        residuals = compared.residuals
        log_prob = sum(part.log_prob() for part in compared.comparisons)
        size = sum(jnp.asarray(part.size(), int) for part in compared.comparisons)
        # An array even if nothing ran that could fail, so that states keep their type.
        result = RESULTS.where(jnp.array(False), RESULTS.successful, compared.result)
        chi2 = matmul(residuals, residuals)
        none = jnp.zeros(count, bool)
        return cls(chi2, jnp.asarray(log_prob), jnp.asarray(size), result, none)

    @classmethod
    def none(cls, z: Array) -> "FitStatistics":
        """Of no data, in the types that `of` returns."""
        zero, size = jnp.zeros((), z.dtype), jnp.zeros((), int)
        result = RESULTS.where(jnp.array(False), RESULTS.successful, RESULTS.successful)
        return cls(zero, zero, size, result, jnp.zeros(z.shape, bool))


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
            prediction = self.predict(*given)
        if isinstance(prediction, Trajectory):
            return prediction.states, prediction.result
        return prediction, RESULTS.successful

    def _parts(
        self, sets: DataSets, states: PyTree, dtype: Any
    ) -> list[tuple[AbstractLikelihood, DataLayout, Array]]:
        """The likelihood, layout and flat prediction of each data set."""
        parts = []
        for i, part in enumerate(sets.split("the prediction", states)):
            likelihood, layouts = sets.likelihoods[i], self.layouts
            layout = likelihood.layout(part) if layouts is None else layouts[i]
            flat = likelihood.flat_prediction(part, layout).astype(dtype)
            parts.append((likelihood, layout, flat))
        return parts

    def compared(self, values: Array) -> Compared:
        """The prediction beside the data; beside itself where there are none."""
        model = self.parameters.model(values)
        sets = data_sets(self.noise, self.parameters.model(values))
        if self.batch is not None:
            return self._compared_batch(model, sets, values)
        states, result = self._outcome(model)
        for leaf in jax.tree.leaves(states):
            if jnp.iscomplexobj(leaf):  # a cast would drop the imaginary part
                raise ValueError(
                    f"the prediction must be real numbers, got dtype {leaf.dtype}; "
                    "return jnp.stack([z.real, z.imag]), and data and sigma like it"
                )
        predictions, comparisons = [], []
        for i, part in enumerate(self._parts(sets, states, values.dtype)):
            likelihood, layout, flat = part
            if self.shift is not None and self.shift[i].shape == flat.shape:
                flat = flat + self.shift[i].astype(flat.dtype)
            data = None if self.data is None else self.data[i]
            predictions.append(flat)
            comparisons.append(likelihood.compare(flat, data, layout, sets.varies[i]))
        prior = self.parameters.prior(values, self.expected, self.slopes)
        compared = Compared(tuple(comparisons), tuple(predictions), prior, result)
        return eqx.tree_at(lambda x: x.result, compared, _result_of(compared))

    def draw(self, keys: Array, values: Array) -> tuple[Float[Array, "..."], ...]:
        """Data of each set drawn at `values`, one for each key."""
        model = self.parameters.model(values)
        states, _ = self._outcome(model)
        drawn = []
        for i, part in enumerate(
            self._parts(data_sets(self.noise, model), states, values.dtype)
        ):
            likelihood, layout, flat = part
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
        unmasked = likelihood.used(layout)
        mask = layout.unflatten(used if unmasked is None else used & unmasked)
        likelihood = eqx.tree_at(
            lambda x: x.mask, likelihood, mask, is_leaf=lambda x: x is None
        )
        full = data.astype(values.dtype).at[rows].set(flat)
        comparison = likelihood.compare(full, data, layout, sets.varies[0])
        prior = self.parameters.prior(values, self.expected, self.slopes)
        return Compared((comparison,), (full,), prior, result)

    @property
    def varies(self) -> bool:
        """Whether some of the noise is a function of the model."""
        return any(map(is_noise_function, _noises(self.noise)))

    @property
    def scale_is_unknown(self) -> bool:
        """Whether the size of the noise is judged from the residuals."""
        noises = _noises(self.noise)
        return any(isinstance(x, Gaussian) and x.scale_is_unknown for x in noises)

    def rows(self, z: Array, args: Any = None) -> tuple[Array, Objective]:
        """Rows e and the loss at `z`, for a solver that differentiates them to step.

        With A the derivative of the rows, Aᵀe is the gradient of the loss and AᵀA its
        curvature. That is no derivative to go on from: one that is differentiated again
        is `rows_and_jacobian`.
        """
        del args
        if self.curvature == "observed":
            # A solver takes the second derivative of the loss, and no third.
            hold = jax.lax.stop_gradient
            e, jacobian, objective = self.rows_and_jacobian(hold(z))
            return hold(e) + matmul(hold(jacobian), z - hold(z)), objective
        rows, objective, _ = self.evaluated(z)
        return rows, objective

    def evaluated(self, z: Array) -> tuple[Array, Objective, Compared]:
        """Rows of the expected information, the loss, and what they are made of."""
        values = self.parameters.values(z)
        numbers, compared = self.numbers(values)
        rows = self._rows_of(compared)
        if not self.is_plain:
            # Steps use this curvature; it is no derivative of the optimum.
            hold = jax.lax.stop_gradient
            away = self.whiten(hold(compared), numbers - hold(numbers))
            rows = hold(rows) + away
        return rows, self.objective_of(compared, values), compared

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

        _, jacobian, compared = value_and_jacobian(numbers, z, **options)
        values = self.parameters.values(z)
        jacobian = self.whiten_columns(compared, jacobian)
        objective = self.objective_of(compared, values)
        if not self.is_plain:
            # Error bars that, alone, are 100 times the room of a prediction.
            room = jnp.concatenate(
                [part.room().astype(jacobian.dtype) for part in compared.comparisons]
            )
            size = jnp.abs(jacobian[: room.size])
            at_end = jnp.any(
                size > 100 * column_norms(jacobian) * room[:, None], axis=0
            )
            objective = eqx.tree_at(lambda x: x.extra.at_end, objective, at_end)
        return self._rows_of(compared), jacobian, objective

    def numbers(self, values: Array) -> tuple[Array, Compared]:
        """The numbers of all likelihoods, and whitened priors."""
        compared = self.compared(values)
        numbers = [part.numbers() for part in compared.comparisons]
        return jnp.concatenate([*numbers, compared.prior.numbers()]), compared

    def whiten(self, compared: Compared, tangent: Array) -> Array:
        """A change of the `numbers` in units of the information of each likelihood."""
        rows, begin = [], 0
        for part in compared.comparisons:
            end = begin + part.numbers().size
            rows.append(part.whiten(tangent[begin:end], self.expected))
            begin = end
        return jnp.concatenate([*rows, compared.prior.whiten(tangent[begin:])])

    def whiten_columns(self, compared: Compared, jacobian: Array) -> Array:
        """The derivative of the `numbers`, (number, parameter), in the same units."""
        whiten = eqx.filter_vmap(self.whiten, in_axes=(None, 1), out_axes=1)
        return whiten(compared, jacobian)

    def _rows_of(self, compared: Compared) -> Array:
        """The rows of each likelihood, and those of priors."""
        rows = [part.rows(self.expected) for part in compared.comparisons]
        return jnp.concatenate([*rows, compared.prior.rows()])

    def objective_of(self, compared: Compared, values: Array) -> Objective:
        """The loss and the statistics of what was compared at `values`."""
        sigma = jnp.asarray(0.0 if self.scale_is_unknown else 1.0, values.dtype)
        statistics = FitStatistics.of(compared, values.size)
        return Objective(self._loss(compared), sigma, statistics)

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

    def _loss(self, compared: Compared) -> Array:
        losses = jnp.asarray(sum(part.loss() for part in compared.comparisons))
        if self.batch is not None and self.layouts is not None:
            losses = losses * (self.layouts[0].shapes[0][0] / self.batch.size)
        return losses + compared.prior.loss()


def _noises(noise: Any) -> list[Any]:
    """Likelihoods and functions to them."""
    return jax.tree.leaves(noise, is_leaf=is_noise)


def explain_derivatives(
    experiment: Posterior, *, forward: str, reverse: str
) -> contextlib.AbstractContextManager[None]:
    """Raise `ValueError` where JAX cannot differentiate what a user wrote."""
    name, function = "predict", experiment.predict
    if experiment.varies:  # JAX does not say in which of them
        name, function = "predict or noise", None
    return explain_derivative_errors(name, function, forward=forward, reverse=reverse)


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
    free_parameters = parameters(model, free, priors, fixed)
    # The model is made, in a dozen small programs, only where something reads it.
    if any(map(is_noise_function, _noises(noise))):
        model = free_parameters.model(free_parameters.start)
    sets = data_sets(noise, model)
    scale_is_unknown = any(one.scale_is_unknown for one in sets.likelihoods)
    if scale_is_unknown and not free_parameters.is_without_prior:
        raise ValueError(
            "noise=Gaussian() cannot be combined with priors, whose weight depends on "
            "sigma; make sigma a parameter: noise=lambda model: Gaussian(model.sigma)"
        )
    no = as_array(np.array(False))
    if data is None:
        return Posterior(predict, noise, None, free_parameters, None, no, no)
    states = data.states if isinstance(data, Trajectory) else data
    vectors, layouts = checked_data(states, sets)
    shift = tuple(as_array(np.zeros(x.shape, x.dtype)) for x in vectors)
    parts = zip(sets.likelihoods, layouts, sets.varies, strict=True)
    has_information = all(
        one.has_information(layout.size, varies) for one, layout, varies in parts
    )
    return Posterior(
        predict,
        noise,
        vectors,
        free_parameters,
        layouts,
        no,
        no,
        shift,
        batch=None if batches is None else _all_rows(sets, layouts),
        curvature="expected" if has_information else "observed",
    )


def _all_rows(sets: DataSets, layouts: tuple[DataLayout, ...]) -> Array:
    """Indices of all rows of data that can be taken in batches."""
    independent = all(
        isinstance(one, AbstractIndependentLikelihood)
        or (isinstance(one, Gaussian) and one.covariance is None)
        for one in sets.likelihoods
    )
    shapes = [shape for layout in layouts for shape in layout.shapes]
    if len(shapes) != 1 or not shapes[0] or not independent:
        raise ValueError(
            "batches are of data that are one array, by rows along its first axis, "
            "with independent noise; take all data at once"
        )
    return jnp.arange(shapes[0][0])


def likelihoods_of(experiment: Posterior) -> DataSets:
    """The likelihoods at the start."""
    parameters = experiment.parameters
    return data_sets(experiment.noise, parameters.model(parameters.start))


def _result_of(compared: Compared) -> RESULTS:
    """The outcome, or that the likelihood of a finite prediction is not finite."""
    result = compared.result
    losses = [part.loss() for part in compared.comparisons]
    ran = equals(result, RESULTS.successful)
    blamed = jnp.all(jnp.isfinite(compared.prediction)) & ran
    for part, loss in zip(compared.comparisons, losses, strict=True):
        squares = jnp.sum(part.residuals() ** 2)
        no_nan = ~jnp.any(jnp.isnan(part.residuals()))
        overflows = blamed & ~jnp.isfinite(squares) & no_nan
        undefined = blamed & ~jnp.isfinite(loss) & ~overflows
        result = RESULTS.where(overflows, RESULTS.chi2_not_finite, result)
        result = RESULTS.where(undefined, RESULTS.likelihood_not_finite, result)
    ran = jnp.asarray(equals(result, RESULTS.successful))
    wrong = ran & ~jnp.isfinite(compared.prior.loss())
    return RESULTS.where(wrong, RESULTS.prior_not_finite, result)


#: By the identity of a result; an entry goes with its result.
_kept: dict[int, tuple[Any, Posterior]] = {}


def remember(result: Any, experiment: Posterior):
    """Keep the experiment for as long as the result lives; nothing that is traced."""
    if any(map(is_traced, jax.tree.leaves((result, experiment)))):
        return
    key = id(result)
    reference = weakref.ref(result, lambda _: _kept.pop(key, None))
    _kept[key] = reference, experiment


def recall(result: Any, what: str) -> Posterior:
    """The experiment of a result; raises `ValueError` where it is not known."""
    reference, experiment = _kept.get(id(result), (None, None))
    if experiment is None or reference is None or reference() is not result:
        kind = type(result).__name__.lower()
        raise ValueError(
            f"{what} needs predict and the data, and this {kind} no longer has them: "
            "it was loaded, copied, batched or returned by jit; call it on the very "
            f"object that ds.{kind}(...) returned"
        )
    return experiment


def warn_of_single_precision(act: str, model: PyTree, data: PyTree):
    """Warn if JAX runs in float32, or arrays do: error bars lose digits first."""
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"{act} in float32: error bars and weak directions lose digits first; for "
            'float64 call jax.config.update("jax_enable_x64", True) first of all',
            stacklevel=3,
        )
        return
    names = [
        f"{joined((root, *map(step_to, path)))} ({leaf.dtype})"
        for root, tree in (("model", model), ("data", data))
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
        if jnp.issubdtype(dtype := getattr(leaf, "dtype", int), jnp.inexact)
        and jnp.finfo(dtype).bits < 64
    ]
    if names:
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        warnings.warn(
            f"{act} of arrays below float64 in a float64 session: "
            f"{', '.join(names[:6])}{more}; a run takes the precision of its state, "
            "and error bars lose digits first; give jnp.asarray(x, float), or filter "
            "this warning if it is meant",
            stacklevel=3,
        )


@fresh_jit
def at_finer_steps(
    function: Callable[[Posterior, Array], _Result], experiment: Posterior, at: Array
) -> _Result | None:
    """`function(experiment, at)` by finer steps; None where there are none."""
    with refined_steps() as methods:
        result = function(experiment, at)
    return result if methods else None
