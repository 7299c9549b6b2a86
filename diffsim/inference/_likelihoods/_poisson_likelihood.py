"""`Poisson`: counts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array

from ..._types import PyTree
from ._independent import AbstractIndependentLikelihood
from ._likelihood import check_mask


class Poisson(AbstractIndependentLikelihood):
    r"""Counts: data are Poisson-distributed, and the prediction is their mean.

    $$-\ln L = \sum_i \mu_i - d_i\ln\mu_i + \ln d_i!, \qquad
        F = \sum_i \frac{\partial\mu_i\,\partial\mu_i^T}{\mu_i}$$

    ```python
    energy = jnp.linspace(0.0, 10.0, 41)

    def spectrum(model):  # a line over a background
        line = jnp.exp(-0.5 * (energy - model["center"]) ** 2)
        return model["counts"] * line + model["background"]

    truth = {"counts": 50.0, "center": 6.0, "background": 3.0}
    data = jax.random.poisson(jax.random.key(0), spectrum(truth))
    free = {name: ds.Free(transform="log") for name in truth}
    start = {"counts": 30.0, "center": 5.0, "background": 5.0}
    ds.fit(spectrum, start, data, noise=inference.Poisson(), free=free)
    ```

    The residuals of reports are Pearson's, (d − µ)/√µ.

    **Arguments**

    - `mask`: as in `Gaussian`.

    **Good values:** `Free(transform="log")` or `bounds=(0.0, None)` for what makes the
    mean, which must be positive wherever there are counts: a trial step to another one
    is rejected.

    **Raises:** `ValueError` for negative counts. Fractions are allowed, for expected
    ("Asimov") data.

    **Limits:** by fewer than five counts a datum χ² is no measure of the fit
    (mathematics). At a mean of 0 the information diverges: an error bar of 1e-77 stands
    for 0 there, and a fit that ends there says `at_bound` (mathematics).
    """

    mask: PyTree[Any]

    def __init__(self, *, mask: PyTree[Any] = None):
        check_mask(mask)
        self.mask = mask

    @property
    def convention(self):
        """Clause on the source of error bars."""
        return "by counting statistics (Poisson), not rescaled"

    @property
    def neutral(self):
        """A count of 1 where 1 is expected."""
        return 1.0

    def check_data(self, data):
        """Counts are not negative."""
        if np.any(data < 0):
            raise ValueError(
                f"data under Poisson noise must be counts, 0 or more, got "
                f"{np.min(data):g}; subtract no background, predict it"
            )

    def numbers(self, prediction, layout, used):
        """µ."""
        del layout, used
        return (prediction,)

    def kernel(self, data, numbers):
        """Half the deviance, µ − d + d ln(d/µ); not finite for a negative mean."""
        (mean,) = numbers
        some = data > 0
        ratio = jnp.where(some, data, 1) / jnp.where(some, mean, 1)
        half = mean - data + jnp.where(some, data * jnp.log(ratio), 0)
        return jnp.where(mean < 0, jnp.nan, half)

    def normalization(self, data, numbers):
        """The rest of −ln p: that of a mean as large as the count."""
        del numbers
        return data - xlogy(data, data) + gammaln(data + 1)

    def scores(self, data, numbers, varies):
        """(µ − d)/√µ."""
        del varies
        return (self.residual(data, numbers),)

    def whitened(self, tangents, numbers):
        """dµ/√µ."""
        return (tangents[0] * _inverse_root(numbers[0]),)

    def end_slope(self, data, numbers):
        """Of a count of 0, dµ/dµ."""
        return jnp.where((data == 0) | (numbers[0] == 0), 1, jnp.zeros_like(data))

    def residual(self, data, numbers):
        """Pearson's."""
        (mean,) = numbers
        return (mean - data) * _inverse_root(mean)

    def moments(self, numbers):
        """µ and √µ."""
        return numbers[0], jnp.sqrt(numbers[0])

    def draw(self, key, prediction, layout):
        """Counts."""
        del layout
        return jax.random.poisson(key, prediction).astype(prediction.dtype)


def _inverse_root(mean: Array) -> Array:
    """1/√µ; 0 where nothing is expected."""
    none = mean == 0
    return jnp.where(none, 0, 1 / jnp.sqrt(jnp.where(none, 1, mean)))
