"""Covariances of Gaussian noise: the factor L of C = LLᵀ, and their information."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from ..._linalg import matmul
from ..._validation import array_of, as_floating, finite, is_traced


class AbstractCovarianceFactor(eqx.Module):
    r"""The factor L of a covariance $C = LL^T$ of as many data as there are.

    `numbers` are those that C is made of, linear in all but standard deviations. With
    $z = L^{-1}(\mu - d)$ and $B = L^{-1}\,dC\,L^{-T}$ the loss changes by
    $\tfrac12\mathrm{tr}\,B - \tfrac12z^TBz$, and their expected information is
    $\tfrac12\mathrm{tr}\,B^2$: B itself, as rows.
    """

    @abc.abstractmethod
    def whiten(self, vector: Float[Array, " datum"]) -> Float[Array, " datum"]:
        """L⁻¹ v."""

    @abc.abstractmethod
    def correlate(self, vector: Float[Array, " datum"]) -> Float[Array, " datum"]:
        """L v: noise of this covariance from independent one."""

    @abc.abstractmethod
    def standard_deviations(self) -> Float[Array, " datum"]:
        """The root of the diagonal of C."""

    @abc.abstractmethod
    def half_log_det(self) -> Float[Array, ""]:
        """½ ln det C."""

    @abc.abstractmethod
    def numbers(self) -> Float[Array, " number"]:
        """The numbers that the covariance is made of."""

    @abc.abstractmethod
    def whiten_numbers(
        self, tangent: Float[Array, " number"], z: Array, expected: Any
    ) -> Float[Array, " row"]:
        """A change of the numbers in units of their information."""

    @abc.abstractmethod
    def number_rows(self, z: Float[Array, " datum"], expected: Any) -> Array:
        """The gradient of the loss in these units."""


class AbstractCovariance(eqx.Module):
    """A covariance of data as users give it to `Gaussian(covariance=...)`."""

    @abc.abstractmethod
    def factor(
        self, used: Bool[Array, " datum"] | None, size: int, dtype: Any
    ) -> AbstractCovarianceFactor:
        """The factor, in which data that are not used are independent of all.

        `used` is None if all are; `size` is their number.
        """


#: Beyond so many data the N(N + 1)/2 rows of B are too many: 134 million numbers for
#: each parameter.
MOST_DATA = 4096


class AbstractMatrixFactor(AbstractCovarianceFactor):
    """A factor whose information goes by the matrix B, its lower half as rows."""

    @abc.abstractmethod
    def tangent_matrix(self, tangent: Float[Array, " number"]) -> Array:
        """The change of C by a change of the numbers."""

    @abc.abstractmethod
    def size(self) -> int:
        """Number of data."""

    def whiten_numbers(self, tangent, z, expected):
        """The lower half of B, in units in which all of B has half its squares."""
        del z, expected
        if self.size() > MOST_DATA:
            raise ValueError(
                "the expected information of a covariance that depends on the model "
                f"takes N(N + 1)/2 rows for N data, got N = {self.size()}, of "
                f"{MOST_DATA} at most; take kind='sampled', or kind='observed' with "
                "data"
            )
        half = _whiten_columns(self, self.tangent_matrix(tangent))
        whole = _whiten_columns(self, half.T)
        row, column = np.tril_indices(self.size())
        return whole[row, column] * _half_weights(row, column, whole.dtype)

    def number_rows(self, z, expected):
        """Half of 1 − zzᵀ in the same units."""
        del expected
        row, column = np.tril_indices(self.size())
        score = jnp.where(row == column, 1.0, 0.0) - z[row] * z[column]
        return score * _half_weights(row, column, z.dtype)


def _whiten_columns(factor: AbstractCovarianceFactor, matrix: Array) -> Array:
    return eqx.filter_vmap(factor.whiten, in_axes=1, out_axes=1)(matrix)


def _half_weights(row: np.ndarray, column: np.ndarray, dtype: Any) -> Array:
    """√½ on the diagonal, and 1 where an entry stands for two."""
    return jnp.asarray(np.where(row == column, np.sqrt(0.5), 1.0), dtype)


class DenseFactor(AbstractMatrixFactor):
    """A triangle L; the numbers are the lower half of C."""

    root: Float[Array, "datum datum"]
    matrix: Float[Array, "datum datum"] | None

    def size(self):
        """Number of data."""
        return self.root.shape[0]

    def whiten(self, vector):
        """L⁻¹ v."""
        return solve_triangular(self.root, vector, lower=True)

    def correlate(self, vector):
        """L v."""
        return matmul(self.root, vector)

    def standard_deviations(self):
        """Norms of the rows of L."""
        return jnp.linalg.norm(self.root, axis=1)

    def half_log_det(self):
        """Σ ln L_ii."""
        return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(self.root))))

    def numbers(self):
        """The lower half of C."""
        whole = matmul(self.root, self.root.T) if self.matrix is None else self.matrix
        return whole[np.tril_indices(self.size())]

    def tangent_matrix(self, tangent):
        """A symmetric matrix of its lower half."""
        return symmetric(tangent, self.size())


class DenseCovariance(AbstractCovariance):
    """A covariance matrix C of data in the order in which they are flattened."""

    matrix: Float[Array, "datum datum"]

    def __init__(self, matrix: Any):
        self.matrix = _square("covariance", matrix)
        if is_traced(self.matrix):
            return
        known = np.asarray(self.matrix, float)
        size = np.sqrt(np.abs(np.diagonal(known)))
        asymmetry = np.abs(known - known.T) > 1e-6 * np.outer(size, size)
        if np.any(asymmetry):
            i, j = np.argwhere(asymmetry)[0]
            raise ValueError(
                f"covariance must be symmetric, got {known[i, j]:.6g} at [{i}, {j}] "
                f"and {known[j, i]:.6g} at [{j}, {i}]"
            )
        eigenvalue = _smallest_eigenvalue(known)
        if not eigenvalue > 0:
            raise ValueError(
                "covariance must be positive definite; in units of its diagonal its "
                f"smallest eigenvalue is {eigenvalue:.3g}. Add the white noise of each "
                "datum to its diagonal, or leave data that repeat others out by mask="
            )

    def factor(self, used, size, dtype):
        """Its Cholesky factor, with 1 on the diagonal for what is not used."""
        array_of("covariance", self.matrix, (size, size), "a row for each datum")
        matrix = without_masked(self.matrix.astype(dtype), used)
        return DenseFactor(jnp.linalg.cholesky(matrix), matrix)


class CholeskyFactor(AbstractCovariance):
    """The lower triangle L of a covariance C = LLᵀ."""

    root: Float[Array, "datum datum"]

    def __init__(self, root: Any):
        self.root = _square("cholesky", root)
        if is_traced(self.root):
            return
        known = np.asarray(self.root)
        if np.any(np.triu(known, 1)) or not np.all(np.diagonal(known) > 0):
            raise ValueError(
                "cholesky must be a lower triangle with a positive diagonal, as "
                "numpy.linalg.cholesky returns; give covariance= for the matrix itself"
            )

    def factor(self, used, size, dtype):
        """The triangle; of a part of the data it is that of their covariance."""
        array_of("cholesky", self.root, (size, size), "a row for each datum")
        root = self.root.astype(dtype)
        if used is None:
            return DenseFactor(root, None)
        # Rows of the rest scatter by all columns: QR brings them to a triangle, which
        # squares nothing, as a factorization of LLᵀ would.
        kept = jnp.where(used[:, None], root, 0)
        alone = jnp.diag(jnp.where(used, 0, 1).astype(dtype))
        triangle = jnp.linalg.qr(jnp.concatenate([kept, alone], axis=1).T, mode="r").T
        return DenseFactor(triangle * jnp.sign(jnp.diagonal(triangle)), None)


def symmetric(half: Array, n: int) -> Array:
    """The symmetric matrix of a lower half."""
    lower = jnp.zeros((n, n), half.dtype).at[np.tril_indices(n)].set(half)
    return lower + lower.T - jnp.diag(jnp.diagonal(lower))


def without_masked(matrix: Array, used: Array | None) -> Array:
    """The matrix with rows and columns of the identity for data that are not used."""
    if used is None:
        return matrix
    both = used[:, None] & used[None, :]
    return jnp.where(both, matrix, jnp.eye(matrix.shape[0], dtype=matrix.dtype))


def _square(name: str, matrix: Any) -> Array:
    array = as_floating(name, matrix)
    shape = 2 * (array.shape[:1] or (1,))
    return finite(name, array_of(name, array, shape, "a row for each datum"))


def _smallest_eigenvalue(matrix: np.ndarray) -> float:
    diagonal = np.diagonal(matrix)
    if not np.all(diagonal > 0):
        return float(np.min(diagonal))
    size = np.sqrt(diagonal)
    scaled = jnp.asarray(matrix / np.outer(size, size))
    root = np.asarray(jax.jit(jnp.linalg.cholesky)(scaled))
    if np.all(np.isfinite(root)):
        return 1.0
    return float(np.linalg.eigvalsh(matrix / np.outer(size, size))[0])
