"""`ToeplitzCovariance`: stationary noise on an even grid."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import toeplitz
from jaxtyping import Array, Float

from ..._linalg import matmul
from ..._validation import array_of, finite, is_traced
from ._covariance import (
    AbstractCovariance,
    AbstractMatrixFactor,
    DenseFactor,
    without_masked,
)


class ToeplitzCovariance(AbstractCovariance):
    r"""A covariance that depends on the distance of two data only.

    $$C_{ij} = c_{|i - j|}$$

    ```python
    t = jnp.arange(500) / 50.0  # as many a unit of time

    def wave(model):
        return model["height"] * jnp.sin(2 * jnp.pi * t + model["phase"])

    column = 0.04 * jnp.exp(-t / 0.1)  # the autocovariance of the noise
    noise = inference.Gaussian(covariance=inference.ToeplitzCovariance(column))
    ds.fisher(wave, {"height": 1.0, "phase": 0.3}, noise=noise).stderr
    ```

    **Arguments**

    - `column`: the autocovariance at distances 0, 1, …, N − 1 of the even grid on which
        the data lie, shape (datum,).

    The recursion of Levinson and Durbin costs N² operations and N numbers. With a mask
    the matrix is no longer of this form and a dense factor is made of it.

    **References:** Durbin 1960, doi 10.2307/1401322.
    """

    column: Float[Array, " datum"]

    def __init__(self, column: Any):
        hint = "the covariance at distances 0, 1, 2, ..."
        self.column = finite("column", array_of("column", column, (None,), hint))
        if is_traced(self.column):
            return
        variances = np.asarray(jax.jit(_variances)(self.column))
        if not np.all(variances > 0):
            wrong = int(np.argmin(variances > 0))
            raise ValueError(
                "column must be the autocovariance of noise, a positive definite "
                f"matrix; that of the first {wrong + 1} data is none. Add the white "
                "noise of each datum to column[0]"
            )

    def factor(self, used, size, dtype):
        """That of the recursion, or a dense one where data are missing."""
        array_of("column", self.column, (size,), "an entry for each datum")
        column = self.column.astype(dtype)
        if used is None:
            return ToeplitzFactor(column)
        matrix = without_masked(toeplitz(column), used)
        return DenseFactor(jnp.linalg.cholesky(matrix), matrix)


class ToeplitzFactor(AbstractMatrixFactor):
    """The factor by prediction errors: of each datum by all before it."""

    column: Float[Array, " datum"]

    def size(self):
        """Number of data."""
        return self.column.size

    def whiten(self, vector):
        """Prediction errors over their standard deviations."""

        def error(i: Array, weights: Array, variance: Array) -> Array:
            # Data i − 1, i − 2, …, of which the prediction of datum i is made.
            before = jnp.roll(vector[::-1], i - vector.size)
            known = jnp.arange(vector.size) < i
            predicted = matmul(weights, jnp.where(known, before, 0))
            return (vector[i] - predicted) / jnp.sqrt(variance)

        return _durbin(self.column, error)

    def correlate(self, vector):
        """By the Cholesky factor, which is the same."""
        return matmul(jnp.linalg.cholesky(toeplitz(self.column)), vector)

    def standard_deviations(self):
        """The same for all."""
        return jnp.sqrt(jnp.full_like(self.column, self.column[0]))

    def half_log_det(self):
        """Half the sum of the logarithms of the variances of prediction errors."""
        return jnp.sum(jnp.log(_variances(self.column))) / 2

    def numbers(self):
        """The column."""
        return self.column

    def tangent_matrix(self, tangent):
        """The matrix of another column."""
        return toeplitz(tangent)


def _variances(column: Array) -> Array:
    return _durbin(column, lambda i, weights, variance: variance)


def _durbin(column: Array, output: Any) -> Array:
    """`output(i, weights, variance)` for each datum i, predicted by those before."""
    n = column.size
    index = jnp.arange(n)

    def lags(i: Array) -> Array:  # c_i, c_{i−1}, …, c_1
        return jnp.where(index < i, column[jnp.clip(i - index, 0, n - 1)], 0)

    def step(carry: tuple[Array, Array], i: Array):
        weights, variance = carry
        made = output(i, weights, variance)
        # Reflection: what datum i says of datum i + 1 beyond those between.
        gap = column[jnp.minimum(i + 1, n - 1)] - matmul(weights, lags(i))
        reflection = gap / variance
        flipped = jnp.where(index < i, jnp.roll(weights[::-1], i), 0)
        weights = weights - reflection * flipped
        weights = jnp.where(index == i, reflection, weights)
        return (weights, variance * (1 - reflection**2)), made

    start = jnp.zeros(n, column.dtype), column[0]
    return jax.lax.scan(step, start, index)[1]
