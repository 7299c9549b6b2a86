"""`Categorical`: one of several outcomes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..._types import PyTree
from ..._validation import as_vector
from ._likelihood import (
    AbstractComparison,
    AbstractLikelihood,
    DataLayout,
    check_mask,
    count_used,
    where_used,
)


class Categorical(AbstractLikelihood):
    r"""One of K outcomes a datum; the prediction is the probability of each.

    $$-\ln L = -\sum_i \ln p_{i,d_i}, \qquad
        F = \sum_{ik} \frac{\partial p_{ik}\,\partial p_{ik}^T}{p_{ik}}$$

    ```python
    color = jnp.array([0.2, 0.4, 0.5, 0.7, 1.1, 1.4])
    kind = jnp.array([0, 0, 1, 0, 1, 2])

    def classes(model):  # shape (6, 3)
        first, second = model["a"] * color, model["b"] * color**2
        return jnp.stack([0 * color, first, second], axis=-1)

    noise = inference.Categorical(logits=True)
    free = {"a": ds.Free(prior=(0.0, 3.0)), "b": ds.Free(prior=(0.0, 3.0))}
    ds.fit(classes, {"a": 0.0, "b": 0.0}, kind, noise=noise, free=free)
    ```

    **Arguments**

    - `logits`: whether predictions are logarithms of probabilities up to a constant of
        each datum, as a classifier's, or probabilities, which are divided by their sum.
    - `mask`: as in `Gaussian`, in the shape of the data.

    Data are labels 0, 1, …, K − 1 of any shape; predictions have one more axis, the
    last, of K entries.

    **Raises:** `ValueError` for labels that are no integers, or negative. One of K or
    more makes the likelihood NaN, and the fit says so.
    """

    logits: bool = eqx.field(static=True)
    mask: PyTree[Any]

    def __init__(self, *, logits: bool = False, mask: PyTree[Any] = None):
        check_mask(mask)
        self.logits, self.mask = logits, mask

    @property
    def judges_misfit(self):
        """No: labels are too few a cell for χ²."""
        return False

    @property
    def convention(self):
        """Clause on the source of error bars."""
        return "by the expected information of categorical data, not rescaled"

    def check_data(self, data):
        """Labels are integers from 0."""
        if np.any(data != np.round(data)) or np.any(data < 0):
            wrong = data[(data != np.round(data)) | (data < 0)][0]
            raise ValueError(
                f"data under Categorical noise must be labels 0, 1, 2, …, got {wrong:g}"
            )

    def layout(self, prediction):
        """That of the prediction without its last axis."""
        _check_categories(prediction)
        labels = jax.tree.map(lambda x: np.empty(np.shape(x)[:-1]), prediction)
        leaves, structure = jax.tree.flatten(labels)
        return DataLayout(structure, tuple(np.shape(leaf) for leaf in leaves))

    def flat_prediction(self, prediction, layout):
        """All categories of the first datum, of the second, …"""
        _check_categories(prediction)
        leaves = jax.tree.leaves(prediction)
        widths = {np.shape(x)[-1] for x in leaves}
        if len(widths) > 1:
            raise ValueError(
                "the prediction of Categorical noise must have as many categories for "
                f"all data, got {sorted(widths)}; give the data as a dict, each with a "
                "Categorical of its own"
            )
        layout.flat("the prediction without its last axis", _first(prediction))
        return as_vector(leaves)

    def compare(self, prediction, data, layout, varies=False):
        """Probabilities beside labels."""
        used = self.used(layout)
        given = prediction.reshape(layout.size, -1)
        spread = None if used is None else used[:, None]
        given = where_used(spread, given, 0.0 if self.logits else 1.0)
        if self.logits:
            log_chance = jax.nn.log_softmax(given)
        else:
            log_chance = jnp.log(given) - jnp.log(jnp.sum(given, axis=1))[:, None]
            outside = jnp.any(given < 0, axis=1)
            log_chance = jnp.where(outside[:, None], jnp.nan, log_chance)
        labels = None
        if data is not None:
            labels = where_used(used, data, 0).astype(int)
        return CategoricalComparison(
            log_chance=log_chance, labels=labels, used=used, varies=varies
        )

    def draw(self, key, prediction, layout):
        """Labels."""
        given = prediction.reshape(layout.size, -1)
        logits = given if self.logits else jnp.log(given)
        labels = jax.random.categorical(key, logits)
        return labels.astype(prediction.dtype)


class CategoricalComparison(AbstractComparison):
    """Logarithms of probabilities, (datum, category), and labels."""

    log_chance: Float[Array, "datum category"]
    labels: Int[Array, " datum"] | None
    used: Bool[Array, " datum"] | None
    varies: bool = eqx.field(static=True)

    def numbers(self):
        """Logarithms of the probabilities."""
        return self.log_chance.reshape(-1)

    def losses(self):
        """−ln p of what happened."""
        return -self._log_probs()

    def loss(self):
        """−Σ ln p of what happened, by expectation where there are no data."""
        return -self.log_prob()

    def log_prob(self):
        """Σ ln p of what happened."""
        return jnp.sum(self._log_probs())

    def _log_probs(self) -> Array:
        if self.labels is None:
            every = jnp.sum(jnp.exp(self.log_chance) * self.log_chance, axis=1)
        else:
            every = jnp.take_along_axis(
                self.log_chance, self.labels[:, None], axis=1, mode="fill"
            )[:, 0]
        return where_used(self.used, every, 0)

    def rows(self, expected):
        """(p − y)/√p of every category, since changes of p sum to 0."""
        del expected
        return self._pearson().reshape(-1)

    def whiten(self, tangent, expected):
        """√p d ln p."""
        del expected
        return jnp.exp(self.numbers() / 2) * tangent

    def room(self):
        """√p of what did not happen."""
        room = jnp.exp(self.log_chance / 2)
        if self.labels is None:
            return jnp.full_like(self.numbers(), jnp.inf)
        happened = jax.nn.one_hot(self.labels, room.shape[1], dtype=bool)
        if self.used is not None:
            happened = happened | ~self.used[:, None]
        return jnp.where(happened, jnp.inf, room).reshape(-1)

    def moments(self):
        """None: labels are no quantities."""
        raise ValueError(
            "labels of Categorical noise have no mean and standard deviation; compare "
            "the probabilities that predict returns with how often each label occurs"
        )

    def size(self):
        """Number of data that are used."""
        return count_used(self.used, self.log_chance.shape[0])

    def residuals(self):
        """The root of Pearson's χ² of each datum, over as many categories less one."""
        count = max(self.log_chance.shape[1] - 1, 1)
        return jnp.sqrt(jnp.sum(self._pearson() ** 2, axis=1) / count)

    def _pearson(self) -> Array:
        root = jnp.exp(self.log_chance / 2)
        if self.labels is None:
            return jnp.zeros_like(root)
        happened = jax.nn.one_hot(self.labels, root.shape[1], dtype=root.dtype)
        rows = root - happened / jnp.where(root > 0, root, 1)
        return rows if self.used is None else jnp.where(self.used[:, None], rows, 0)


def _check_categories(prediction: PyTree[Any]):
    for leaf in jax.tree.leaves(prediction):
        if np.ndim(leaf) < 1:
            raise ValueError(
                "the prediction of Categorical noise must have a last axis of "
                "probabilities, one for each category, got a number"
            )


def _first(prediction: PyTree[Any]) -> PyTree[Any]:
    return jax.tree.map(lambda x: x[..., 0], prediction)
