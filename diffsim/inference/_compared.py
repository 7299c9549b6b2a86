"""`Compared`: predictions beside their data, and statistics of them."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._linalg import matmul
from .._results import RESULTS, equals
from ._likelihoods import AbstractComparison
from ._priors import PriorTerm


class Compared(eqx.Module):
    """A prediction beside its data, a part for each data set, and how the run went."""

    comparisons: tuple[AbstractComparison, ...]
    predictions: tuple[Array, ...]
    prior: PriorTerm
    result: RESULTS

    @property
    def masked_predictions(self) -> tuple[Float[Array, " number"], ...]:
        """The prediction of each data set; 0 where masked."""
        pairs = zip(self.comparisons, self.predictions, strict=True)
        return tuple(_masked(one.used, x) for one, x in pairs)

    @property
    def prediction(self) -> Float[Array, " number"]:
        """All predictions as one vector; 0 where masked."""
        return jnp.concatenate(self.masked_predictions)

    @property
    def residuals(self) -> Float[Array, " datum"]:
        """All standardized residuals as one vector; 0 where masked."""
        return jnp.concatenate([one.residuals() for one in self.comparisons])


def _masked(used: Array | None, prediction: Array) -> Array:
    """A prediction, 0 where nothing is used; it may have several numbers a datum."""
    if used is None:
        return prediction
    return jnp.where(jnp.repeat(used, prediction.size // used.size), prediction, 0)


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
    def of(cls, found: Compared, count: int) -> "FitStatistics":
        """Sums over the data that are used."""
        residuals = found.residuals
        log_prob = sum(one.log_prob() for one in found.comparisons)
        size = sum(jnp.asarray(one.size(), int) for one in found.comparisons)
        # An array even if nothing ran that could fail, so that states keep their type.
        result = RESULTS.where(jnp.array(False), RESULTS.successful, found.result)
        chi2 = matmul(residuals, residuals)
        none = jnp.zeros(count, bool)
        return cls(chi2, jnp.asarray(log_prob), jnp.asarray(size), result, none)

    @classmethod
    def none(cls, z: Array) -> "FitStatistics":
        """Of no data, in the types that `of` returns."""
        zero, size = jnp.zeros((), z.dtype), jnp.zeros((), int)
        result = RESULTS.where(jnp.array(False), RESULTS.successful, RESULTS.successful)
        return cls(zero, zero, size, result, jnp.zeros(z.shape, bool))


def with_culprit(found: Compared) -> RESULTS:
    """The outcome, or that the likelihood of a finite prediction is not."""
    result = found.result
    losses = [one.loss() for one in found.comparisons]
    prediction = found.prediction
    blamed = jnp.all(jnp.isfinite(prediction)) & equals(result, RESULTS.successful)
    for one, loss in zip(found.comparisons, losses, strict=True):
        squares = jnp.sum(one.residuals() ** 2)
        overflows = (
            blamed & ~jnp.isfinite(squares) & ~jnp.any(jnp.isnan(one.residuals()))
        )
        undefined = blamed & ~jnp.isfinite(loss) & ~overflows
        result = RESULTS.where(overflows, RESULTS.chi2_not_finite, result)
        result = RESULTS.where(undefined, RESULTS.likelihood_not_finite, result)
    wrong = jnp.asarray(equals(result, RESULTS.successful)) & ~jnp.isfinite(
        found.prior.loss()
    )
    return RESULTS.where(wrong, RESULTS.prior_not_finite, result)
