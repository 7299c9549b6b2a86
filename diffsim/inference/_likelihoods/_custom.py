"""Likelihoods of users: any object with `log_prob(prediction, data)`."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from ..._linalg import matmul
from ..._types import PyTree
from ..._validation import as_vector, function_of
from ._likelihood import AbstractComparison, AbstractLikelihood, DataLayout, count_used


class CustomLikelihood(AbstractLikelihood):
    """An object of a user's as a likelihood.

    It has `log_prob(prediction, data)`, and may have `information(prediction)`, the
    expected information of a prediction, an array like it or a matrix of its size, or
    `sample(key, prediction)`, which draws data.
    """

    given: Any
    mask: PyTree[Any]

    def __init__(self, given: Any):
        function_of("log_prob", given.log_prob, ("prediction", "data"))
        if hasattr(given, "information"):
            function_of("information", given.information, ("prediction",))
        self.given = given
        self.mask = getattr(given, "mask", None)

    @property
    def judges_misfit(self):
        """No: it has no residuals of unit variance."""
        return False

    def has_information(self, size, varies):
        """Whether the object says it, which it does for the prediction only."""
        del size
        return hasattr(self.given, "information") and not varies

    @property
    def can_draw(self):
        """Whether the object has `sample`."""
        return hasattr(self.given, "sample")

    @property
    def convention(self):
        """Clause on the source of error bars."""
        return f"by the log_prob of {type(self.given).__name__}, not rescaled"

    def compare(self, prediction, data, layout, varies=False):
        """The prediction beside the data, as they are."""
        used = self.used(layout)
        if data is not None:
            data = data.astype(prediction.dtype)
        # Fields that are no arrays pass transformations unchanged.
        arrays, rest = eqx.partition(self.given, eqx.is_array)
        return CustomComparison(
            arrays=arrays,
            rest=rest,
            prediction=prediction,
            data=data,
            layout=layout,
            used=used,
            varies=varies,
        )

    def draw(self, key, prediction, layout):
        """By its own `sample`."""
        drawn = self.given.sample(key, layout.unflatten(prediction))
        return layout.flat("what sample returns", drawn).astype(prediction.dtype)


class CustomComparison(AbstractComparison):
    """A prediction and data, whose probability a user's object gives."""

    arrays: PyTree[Any]
    rest: Any = eqx.field(static=True)
    prediction: Float[Array, " datum"]
    data: Float[Array, " datum"] | None
    layout: DataLayout
    used: Bool[Array, " datum"] | None
    varies: bool = eqx.field(static=True)

    @property
    def given(self) -> object:
        """The user's object."""
        return eqx.combine(self.arrays, self.rest)

    def numbers(self):
        """The prediction."""
        return self.prediction

    def losses(self):
        """The output of `log_prob`, if that is an array like the data."""
        every = self._log_probs(self.prediction)
        if jax.tree.structure(every) != self.layout.structure or any(
            jnp.shape(x) != shape
            for x, shape in zip(jax.tree.leaves(every), self.layout.shapes, strict=True)
        ):
            return AbstractComparison.losses(self)
        return -self.layout.flat("what log_prob returns", every)

    def loss(self):
        """−ln L with all constants."""
        return -self.log_prob()

    def log_prob(self):
        """The sum of what `log_prob` returns."""
        return self._log_prob(self.prediction)

    def _log_prob(self, prediction: Array) -> Array:
        if self.data is None:
            return jnp.zeros((), prediction.dtype)
        every = jax.tree.leaves(self._log_probs(prediction))
        return jnp.asarray(sum(jnp.sum(leaf) for leaf in every))

    def _log_probs(self, prediction: Array) -> PyTree[Any]:
        unflatten = self.layout.unflatten
        given: Any = self.given
        assert self.data is not None
        return given.log_prob(unflatten(prediction), unflatten(self.data))

    def rows(self, expected):
        """The gradient over the root of the information."""
        del expected
        gradient = -jax.grad(self._log_prob)(self.prediction)
        root = self._root()
        if root.ndim == 2:
            return solve_triangular(root, gradient, lower=True)
        return jnp.where(root > 0, gradient / jnp.where(root > 0, root, 1), 0)

    def whiten(self, tangent, expected):
        """The root of the information times a change of the prediction."""
        del expected
        root = self._root()
        return matmul(root.T, tangent) if root.ndim == 2 else root * tangent

    def moments(self):
        """The prediction, and 0: what scatters about it is not known."""
        return self.prediction, jnp.zeros_like(self.prediction)

    def size(self):
        """Number of data that are used."""
        return count_used(self.used, self.prediction.size)

    def residuals(self):
        """The rows where there are any."""
        if not hasattr(self.given, "information") or self._root().ndim == 2:
            return jnp.zeros_like(self.prediction)
        return self.rows(True)

    def _root(self) -> Array:
        given: Any = self.given
        found = given.information(self.layout.unflatten(self.prediction))
        n = self.prediction.size
        if np.shape(found) == (n, n) and n > 1:
            return jnp.linalg.cholesky(jnp.asarray(found, self.prediction.dtype))
        if jax.tree.structure(found) != self.layout.structure:
            raise ValueError(
                "information(prediction) must return an array like the prediction, or "
                f"a matrix ({n}, {n}), got {jax.tree.structure(found)}"
            )
        flat = self.layout.flat("what information returns", found)
        return jnp.sqrt(as_vector([flat]).astype(self.prediction.dtype))
