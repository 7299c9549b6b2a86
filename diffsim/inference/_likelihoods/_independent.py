"""`AbstractIndependentLikelihood`: data that scatter each on its own."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._likelihood import (
    AbstractComparison,
    AbstractLikelihood,
    DataLayout,
    count_used,
    where_used,
)


#: Arrays over data: the prediction, and what else the distribution of a datum has.
Numbers = tuple[Array, ...]


class AbstractIndependentLikelihood(AbstractLikelihood):
    r"""A likelihood that is a product over data.

    Subclasses write five functions of arrays over data. `kernel` + `normalization` is
    −ln p of each datum; the second does not depend on the prediction.
    """

    @abc.abstractmethod
    def numbers(
        self, prediction: Array, layout: DataLayout, used: Array | None
    ) -> Numbers:
        """The prediction and the other numbers, harmless where nothing is used."""

    @abc.abstractmethod
    def kernel(self, data: Array, numbers: Numbers) -> Float[Array, " datum"]:
        """The part of −ln p that depends on the prediction."""

    @abc.abstractmethod
    def normalization(self, data: Array, numbers: Numbers) -> Float[Array, " datum"]:
        """The rest of −ln p."""

    @abc.abstractmethod
    def scores(self, data: Array, numbers: Numbers, varies: bool) -> Numbers:
        """The gradient of −ln p by the numbers in units of `whitened`."""

    @abc.abstractmethod
    def whitened(self, tangents: Numbers, numbers: Numbers) -> Numbers:
        """A change of the numbers in units of their expected information."""

    @abc.abstractmethod
    def residual(self, data: Array, numbers: Numbers) -> Float[Array, " datum"]:
        """(prediction − data) in standard deviations."""

    @abc.abstractmethod
    def moments(self, numbers: Numbers) -> tuple[Array, Array]:
        """Mean, or median, and standard deviation of each datum."""

    def end_slope(self, data: Array, numbers: Numbers) -> Float[Array, " datum"]:
        """The slope of −ln p by the prediction at the end of its range.

        It counts where the datum lies at that end, as a count of 0 does, and the
        prediction goes there; 0 for any other datum.
        """
        del numbers
        return jnp.zeros_like(data)

    @property
    def neutral(self) -> float:
        """A datum that any prediction of the same value explains."""
        return 0.0

    def compare(self, prediction, data, layout, varies=False):
        """The prediction beside the data; what is masked is set to `neutral`."""
        used = self.used(layout)
        # Masked data are replaced first: the derivative of a choice made afterwards
        # would be zero times NaN.
        prediction = where_used(used, prediction, self.neutral)
        data = prediction if data is None else data.astype(prediction.dtype)
        data = where_used(used, data, self.neutral)
        numbers = self.numbers(prediction, layout, used)
        return IndependentComparison(
            likelihood=self, data=data, values=numbers, used=used, varies=varies
        )


class IndependentComparison(AbstractComparison):
    """Sums over data, each of which has numbers of its own."""

    likelihood: AbstractIndependentLikelihood
    data: Float[Array, " datum"]
    values: Numbers
    used: Bool[Array, " datum"] | None
    varies: bool = eqx.field(static=True)

    def numbers(self):
        """The prediction, followed by the others if they vary."""
        return jnp.concatenate(self.values if self.varies else self.values[:1])

    def losses(self):
        """The kernel of each datum, and its normalization if that varies."""
        every = self.likelihood.kernel(self.data, self.values)
        if self.varies:
            every = every + self.likelihood.normalization(self.data, self.values)
        return where_used(self.used, every, 0)

    def loss(self):
        """Sum over data."""
        return jnp.sum(self.losses())

    def log_prob(self):
        """Minus the sum over data of kernel and normalization."""
        every = self.likelihood.kernel(self.data, self.values)
        every = every + self.likelihood.normalization(self.data, self.values)
        return -jnp.sum(where_used(self.used, every, 0))

    def rows(self, expected):
        """A row for each number of each datum."""
        first, *others = self.likelihood.scores(self.data, self.values, self.varies)
        unit, at_end = self._unit_at_end(expected)
        first = jnp.where(at_end, self._slope() / unit, first)
        return jnp.concatenate([where_used(self.used, x, 0) for x in (first, *others)])

    def whiten(self, tangent: Any, expected: Any):
        """A row for each number of each datum."""
        tangents = tuple(tangent.reshape(-1, self.data.size))
        first, *others = self.likelihood.whitened(tangents, self.values)
        unit, at_end = self._unit_at_end(expected)
        return jnp.concatenate([jnp.where(at_end, unit * tangents[0], first), *others])

    def room(self):
        """The residual of data that lie at the end of the range."""
        far = jnp.full(self.rows(False).size - self.data.size, jnp.inf)
        room = jnp.where(self._slope() != 0, jnp.abs(self.residuals()), jnp.inf)
        return jnp.concatenate([room, far.astype(room.dtype)])

    def _slope(self) -> Array:
        slope = self.likelihood.end_slope(self.data, self.values)
        return where_used(self.used, slope, 0)

    def _unit_at_end(self, expected: Any) -> tuple[Array, Array]:
        """The unit of a prediction at the end of its range, and where one is.

        The information diverges there: a huge number is its limit. Steps are in units
        in which the loss rises by 1.
        """
        slope = jnp.abs(self._slope())
        at_end = (slope > 0) & (self.residuals() == 0)
        huge = float(jnp.finfo(slope.dtype).tiny) ** -0.25
        slope = jnp.where(at_end, slope, 1)
        return slope * jnp.where(expected, huge, 1.0).astype(slope.dtype), at_end

    def residuals(self):
        """Standardized residuals."""
        residuals = self.likelihood.residual(self.data, self.values)
        return where_used(self.used, residuals, 0)

    def moments(self):
        """Of each datum."""
        return self.likelihood.moments(self.values)

    def size(self):
        """Number of data that are used."""
        return count_used(self.used, self.data.size)
