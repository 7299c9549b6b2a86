"""`BandedCovariance`: noise that is correlated among near data only."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._linalg import matmul
from ..._validation import array_of, as_floating, finite, is_traced
from ._covariance import AbstractCovariance, AbstractMatrixFactor


class BandedCovariance(AbstractCovariance):
    r"""A covariance that is 0 farther than b data from its diagonal.

    $$C_{i,i-k} = \text{bands}_{k,i}, \quad k = 0 \dots b$$

    ```python
    t = jnp.linspace(0.0, 10.0, 200)

    def line(model):
        return model["height"] + model["slope"] * t

    # Each datum shares a third of its noise with the next one.
    bands = jnp.stack([0.04 * jnp.ones(200), 0.01 * jnp.ones(200)])
    noise = inference.Gaussian(covariance=inference.BandedCovariance(bands))
    ds.fisher(line, {"height": 3.0, "slope": 0.5}, noise=noise).stderr
    ```

    **Arguments**

    - `bands`: the lower bands, shape (b + 1, datum); `bands[k, i]` is the covariance of
        datum i with datum i − k, and `bands[k, :k]` is not used. (It is SciPy's lower
        form for `cholesky_banded` with each band moved right by k.)

    Costs N b² operations and N b numbers, in a loop over data.
    """

    bands: Float[Array, "band datum"]

    def __init__(self, bands: Any):
        self.bands = as_floating("bands", bands)
        shape = np.shape(self.bands)
        if len(shape) != 2 or shape[0] > shape[1]:
            raise ValueError(
                "bands must have shape (b + 1, datum), the diagonal first, with fewer "
                f"bands than data, got shape {shape}"
            )
        if is_traced(self.bands):
            return
        finite("bands", self.bands)
        root = np.asarray(jax.jit(_banded_cholesky)(self.bands))
        if not np.all(np.isfinite(root)):
            raise ValueError(
                "bands must be those of a positive definite covariance, and are not; "
                "the diagonal is bands[0]"
            )

    def factor(self, used, size, dtype):
        """The banded Cholesky factor."""
        array_of("bands", self.bands, (None, size), "a column for each datum")
        count, bands = self.bands.shape[0], self.bands.astype(dtype)
        # Both of a pair must be there; of one alone the variance is 1.
        used = jnp.ones(size, bool) if used is None else used
        pair = jnp.stack([used & _shifted(used, k, False) for k in range(count)])
        alone = jnp.where(jnp.arange(count)[:, None] == 0, 1.0, 0.0).astype(dtype)
        bands = jnp.where(pair, bands, alone)
        return BandedFactor(_banded_cholesky(bands), bands)


class BandedFactor(AbstractMatrixFactor):
    """The lower bands of L, `root[k, i]` = L[i, i − k]."""

    root: Float[Array, "band datum"]
    bands: Float[Array, "band datum"]

    def size(self):
        """Number of data."""
        return self.root.shape[1]

    def whiten(self, vector):
        """L⁻¹ v, by forward substitution."""
        b = self.root.shape[0] - 1

        def solve(before: Array, row: tuple[Array, Array]):
            own, right = row
            found = (right - matmul(own[1:], before)) / own[0]
            return jnp.concatenate([found[None], before])[:b], found

        start = jnp.zeros(b, vector.dtype)
        return jax.lax.scan(solve, start, (self.root.T, vector))[1]

    def correlate(self, vector):
        """L v."""
        count = self.root.shape[0]
        return sum(self.root[k] * _shifted(vector, k, 0) for k in range(count))

    def standard_deviations(self):
        """By the diagonal."""
        return jnp.sqrt(self.bands[0])

    def half_log_det(self):
        """Σ ln L_ii."""
        return jnp.sum(jnp.log(self.root[0]))

    def numbers(self):
        """The bands."""
        return self.bands.reshape(-1)

    def tangent_matrix(self, tangent):
        """The matrix of these bands."""
        n = self.size()
        lower = [
            jnp.diag(band[k:], -k)
            for k, band in enumerate(tangent.reshape(self.bands.shape))
        ]
        below = sum(lower[1:], jnp.zeros((n, n), tangent.dtype))
        return lower[0] + below + below.T


def _shifted(x: Array, by: int, fill: Any) -> Array:
    """`x[i − by]`, and `fill` before the first."""
    return jnp.concatenate([jnp.full(by, fill, x.dtype), x[: x.size - by]])


def _banded_cholesky(bands: Array) -> Array:
    """Lower bands of the Cholesky factor, a row of it at a time."""
    b = bands.shape[0] - 1

    def row(before: Array, own: Array):
        # before[k] is the row i − 1 − k of L, its diagonal first.
        entries: list[Any] = [None] * (b + 1)
        for k in range(b, 0, -1):
            above = before[k - 1]  # row i − k
            products = [entries[m] * above[m - k] for m in range(k + 1, b + 1)]
            # In the first rows there is nothing above.
            pivot = jnp.where(above[0] == 0, 1, above[0])
            found = (own[k] - sum(products)) / pivot
            entries[k] = jnp.where(above[0] == 0, 0, found)
        squares = sum(entry**2 for entry in entries[1:])
        entries[0] = jnp.sqrt(own[0] - squares)
        made = jnp.stack(entries)
        return jnp.concatenate([made[None], before])[:b], made

    start = jnp.zeros((b, b + 1), bands.dtype)
    return jax.lax.scan(row, start, bands.T)[1].T
