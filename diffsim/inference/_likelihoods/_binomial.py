"""`Binomial`: successes among trials."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlog1py, xlogy
from jaxtyping import Array

from ..._types import PyTree
from ..._validation import as_floating, is_traced
from ._independent import AbstractIndependentLikelihood
from ._likelihood import check_mask, where_used


class Binomial(AbstractIndependentLikelihood):
    r"""Successes among n trials; the prediction is the probability p of one.

    $$-\ln L = -\sum_i k_i\ln p_i + (n_i - k_i)\ln(1 - p_i) + \ln\tbinom{n_i}{k_i},
        \qquad F = \sum_i \frac{n_i\,\partial p_i\,\partial p_i^T}{p_i(1 - p_i)}$$

    ```python
    dose = jnp.array([1.0, 2.0, 4.0, 8.0])
    ill = jnp.array([1.0, 5.0, 12.0, 19.0])  # of 20 each

    def risk(model):
        return jax.nn.sigmoid(model["slope"] * (jnp.log(dose) - model["middle"]))

    start = {"slope": 1.0, "middle": 1.0}
    ds.fit(risk, start, ill, noise=inference.Binomial(20))
    ```

    The residuals of reports are Pearson's, (k − np)/√(np(1 − p)).

    **Arguments**

    - `trials`: n, a number or what broadcasts to the data. 1 for yes and no.
    - `mask`: as in `Gaussian`.

    **Raises:** `ValueError` for counts below 0 or above n. A trial step to a p outside
    of 0 to 1 is rejected; make it `jax.nn.sigmoid(...)` of what may be any number.
    """

    trials: PyTree[Any]
    mask: PyTree[Any]

    def __init__(self, trials: PyTree[Any], *, mask: PyTree[Any] = None):
        check_mask(mask)
        self.trials = jax.tree.map(lambda x: as_floating("trials", x), trials)
        for leaf in jax.tree.leaves(self.trials):
            known = np.zeros(0) if is_traced(leaf) else np.ravel(np.asarray(leaf))
            wrong = known[(known < 0) | (known != np.round(known))]
            if wrong.size:
                raise ValueError(
                    f"trials must be whole numbers of trials, got {wrong[0]:g}"
                )
        self.mask = mask

    @property
    def convention(self):
        """Clause on the source of error bars."""
        return "by binomial statistics, not rescaled"

    def check_data(self, data):
        """Not negative; those above n are met by `kernel`, which knows n."""
        if np.any(data < 0):
            raise ValueError(
                "data under Binomial noise must be numbers of successes, 0 or more, "
                f"got {np.min(data):g}"
            )
        most = jax.tree.leaves(self.trials)
        if any(map(is_traced, most)):
            return
        largest = max(float(np.max(np.asarray(leaf))) for leaf in most)
        if np.any(data > largest):
            raise ValueError(
                f"data under Binomial noise must be at most trials, {largest:g}, got "
                f"{np.max(data):g}"
            )

    def numbers(self, prediction, layout, used):
        """The probability, inside of the range where nothing is used, and n."""
        trials = layout.broadcast("trials", self.trials).astype(prediction.dtype)
        return where_used(used, prediction, 0.5), where_used(used, trials, 0)

    def kernel(self, data, numbers):
        """Half the deviance; not finite where p is no probability or k above n."""
        chance, trials = numbers
        rest = trials - data
        half = _share(data, trials * chance) + _share(rest, trials * (1 - chance))
        outside = (chance < 0) | (chance > 1) | (rest < 0)
        return jnp.where(outside, jnp.nan, half)

    def normalization(self, data, numbers):
        """The rest of −ln p: that of p = k/n."""
        _, trials = numbers
        rest = trials - data
        safe = jnp.where(trials > 0, trials, 1)
        choose = gammaln(trials + 1) - gammaln(data + 1) - gammaln(rest + 1)
        best = xlogy(data, data / safe) + xlog1py(rest, -data / safe)
        return -choose - best

    def scores(self, data, numbers, varies):
        """(np − k)/√(np(1 − p)); n is no parameter."""
        row = self.residual(data, numbers)
        return (row, jnp.zeros_like(row)) if varies else (row,)

    def whitened(self, tangents, numbers):
        """dp √(n/(p(1 − p)))."""
        chance, trials = numbers
        row = tangents[0] * jnp.sqrt(trials) * _inverse_root(chance * (1 - chance))
        return (row, *(jnp.zeros_like(x) for x in tangents[1:]))

    def end_slope(self, data, numbers):
        """n where nothing succeeds, −n where everything does."""
        chance, trials = numbers
        none, every = (data == 0) | (chance == 0), (data == trials) | (chance == 1)
        return trials * (jnp.where(none, 1, 0) - jnp.where(every & ~none, 1, 0))

    def residual(self, data, numbers):
        """Pearson's."""
        chance, trials = numbers
        spread = trials * chance * (1 - chance)
        return (trials * chance - data) * _inverse_root(spread)

    def moments(self, numbers):
        """np and √(np(1 − p))."""
        chance, trials = numbers
        return trials * chance, jnp.sqrt(trials * chance * (1 - chance))

    def draw(self, key, prediction, layout):
        """Numbers of successes."""
        trials = layout.broadcast("trials", self.trials).astype(prediction.dtype)
        return jax.random.binomial(key, trials, prediction).astype(prediction.dtype)


def _share(count: Array, mean: Array) -> Array:
    """k ln(k/m), and 0 for none."""
    some = count > 0
    ratio = jnp.where(some, count, 1) / jnp.where(some, mean, 1)
    return jnp.where(some, count * jnp.log(ratio), 0)


def _inverse_root(variance: Array) -> Array:
    """1/√v; 0 where it is certain what happens."""
    none = variance == 0
    return jnp.where(none, 0, 1 / jnp.sqrt(jnp.where(none, 1, variance)))
