"""`LogNormal`: noise by a factor."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._types import PyTree
from ._independent import AbstractIndependentLikelihood
from ._likelihood import as_scale, check_mask, where_used


class LogNormal(AbstractIndependentLikelihood):
    r"""Noise by a factor: ln data = ln prediction + σ · N(0, 1).

    $$-\ln L = \sum_i \tfrac12\left(\frac{\ln d_i - \ln\mu_i}{\sigma_i}\right)^2
        + \ln\sigma_i + \ln d_i + \tfrac12\ln 2\pi$$

    The prediction is the median of a datum, not its mean.

    ```python
    t = jnp.arange(10.0)
    true = 100 * jnp.exp(-0.3 * t)
    data = true * jnp.exp(0.1 * jax.random.normal(jax.random.key(0), t.shape))

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    noise = inference.LogNormal(0.1)  # ten percent
    ds.fit(decay, {"height": 50.0, "rate": 0.2}, data, noise=noise)
    ```

    **Arguments**

    - `sigma`: the standard deviation of ln data, as in `Gaussian`.
    - `mask`: as in `Gaussian`.

    **Raises:** `ValueError` for data that are not positive. A trial step to a
    prediction that is not is rejected.
    """

    sigma: PyTree[Any]
    mask: PyTree[Any]

    def __init__(self, sigma: PyTree[Any], *, mask: PyTree[Any] = None):
        check_mask(mask)
        self.sigma = as_scale("sigma", sigma, mask)
        self.mask = mask

    @property
    def neutral(self):
        """1, whose logarithm is 0."""
        return 1.0

    @property
    def convention(self):
        """Clause on the source of error bars."""
        return "sigma given: error bars follow from it and are not rescaled by chi2"

    def check_data(self, data):
        """Data are positive."""
        if np.any(data <= 0):
            raise ValueError(
                "data under LogNormal noise must be positive, got "
                f"{np.min(data):g}; leave them out by mask=, or take Gaussian noise"
            )

    def numbers(self, prediction, layout, used):
        """µ and ln σ."""
        sigma = layout.broadcast("sigma", self.sigma).astype(prediction.dtype)
        return prediction, jnp.log(where_used(used, sigma, 1))

    def kernel(self, data, numbers):
        """½ρ²."""
        return self.residual(data, numbers) ** 2 / 2

    def normalization(self, data, numbers):
        """ln σ, ln d and the constant."""
        return numbers[1] + jnp.log(data) + 0.5 * np.log(2 * np.pi)

    def scores(self, data, numbers, varies):
        """ρ, and (1 − ρ²)/√2 of ln σ."""
        rho = self.residual(data, numbers)
        return (rho, (1 - rho**2) / np.sqrt(2)) if varies else (rho,)

    def whitened(self, tangents, numbers):
        """dμ/(μσ), and √2 d ln σ."""
        prediction, log_sigma = numbers
        row = tangents[0] / prediction / jnp.exp(log_sigma)
        return (row, *(np.sqrt(2) * x for x in tangents[1:]))

    def residual(self, data, numbers):
        """(ln µ − ln d)/σ."""
        prediction, log_sigma = numbers
        return (jnp.log(prediction) - jnp.log(data)) / jnp.exp(log_sigma)

    def moments(self, numbers):
        """The median µ, and µσ."""
        prediction, log_sigma = numbers
        return prediction, prediction * jnp.exp(log_sigma)

    def draw(self, key, prediction, layout):
        """The prediction times a factor."""
        _, log_sigma = self.numbers(prediction, layout, None)
        normal = jax.random.normal(key, prediction.shape, prediction.dtype)
        return prediction * jnp.exp(jnp.exp(log_sigma) * normal)
