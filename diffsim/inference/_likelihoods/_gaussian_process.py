"""`GaussianProcess`: noise that is correlated by a kernel."""

from types import ModuleType
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._extras import optional_module
from ..._types import PyTree
from ..._validation import as_floating, is_traced
from ._covariance import (
    AbstractCovariance,
    AbstractMatrixFactor,
    DenseFactor,
    symmetric,
    without_masked,
)
from ._likelihood import as_scale


class GaussianProcess(AbstractCovariance):
    r"""The covariance of a Gaussian process by a kernel of `tinygp`, and white noise.

    $$C_{ij} = k(x_i, x_j) + \sigma_i^2\,\delta_{ij}$$

    ```python
    import tinygp

    t = jnp.linspace(0.0, 30.0, 60)

    def orbit(model):
        return model["K"] * jnp.sin(2 * jnp.pi * t / 4.2 + model["phase"])

    def noise(model):  # a spotted star that turns in 10 days
        spots = tinygp.kernels.quasisep.SHO(0.6, 5.0, jnp.exp(model["ln_spots"]))
        process = inference.GaussianProcess(spots, t, sigma=1.0)
        return inference.Gaussian(covariance=process)

    model = {"K": 5.0, "phase": 0.3, "ln_spots": 1.0}
    ds.fisher(orbit, model, noise=noise).stderr
    ```

    **Arguments**

    - `kernel`: a `tinygp` kernel. One of `tinygp.kernels.quasisep` (celerite's, Matérn,
        SHO) costs N operations for N data, any other N³. Its numbers may come from the
        model: derivatives by them are exact.
    - `x`: where the data lie, times mostly, shape (datum,) or (datum, dimension);
        increasing for a quasiseparable kernel.
    - `sigma`: standard deviation of white noise, a number or (datum,).

    **Raises:** `ImportError` with what to install; `ValueError` for data that are not
    in order, as a quasiseparable kernel needs them.

    **Limits:** the expected information of numbers of the kernel takes the dense matrix
    of up to 4096 data (convenience); of more, error bars are by the observed one.

    **References:** Foreman-Mackey et al. 2017, doi 10.3847/1538-3881/aa9332.
    """

    kernel: Any
    x: Float[Array, "..."]
    sigma: PyTree[Any]

    def __init__(self, kernel: Any, x: Any, *, sigma: Any = 0.0):
        kernels = _tinygp().kernels
        if not isinstance(kernel, kernels.Kernel):
            raise ValueError(
                "kernel must be one of tinygp, tinygp.kernels.Matern32(...) or "
                "tinygp.kernels.quasisep.SHO(...), got a "
                f"{type(kernel).__name__}"
            )
        self.kernel = kernel
        self.x = as_floating("x", x)
        if np.ndim(self.x) not in (1, 2):
            raise ValueError(
                f"x must have shape (datum,) or (datum, dimension), got "
                f"{np.shape(self.x)}"
            )
        zero = not is_traced(sigma) and np.ndim(sigma) == 0 and sigma == 0
        self.sigma = (
            as_floating("sigma", sigma) if zero else as_scale("sigma", sigma, None)
        )
        if self._in_line and not is_traced(self.x):
            gaps = np.diff(np.asarray(self.x))
            if np.any(gaps < 0):
                where = int(np.argmax(gaps < 0))
                raise ValueError(
                    "x must increase for a quasiseparable kernel, and falls after "
                    f"datum {where}; sort the data by x, np.argsort(x)"
                )

    @property
    def _in_line(self) -> bool:
        """Whether the kernel is one that a recursion along x factorizes."""
        return isinstance(self.kernel, _tinygp().kernels.quasisep.Quasisep)

    def factor(self, used, size, dtype):
        """In N operations for a quasiseparable kernel, dense for any other."""
        if self.x.shape[0] != size:
            raise ValueError(
                f"x must have an entry for each datum, {size}, got shape {self.x.shape}"
            )
        x = self.x.astype(dtype)
        variance = jnp.broadcast_to(jnp.asarray(self.sigma, dtype) ** 2, (size,))
        if not self._in_line:
            matrix = self.kernel(x, x) + jnp.diag(variance)
            matrix = without_masked(matrix, used)
            return DenseFactor(jnp.linalg.cholesky(matrix), matrix)
        return QuasiseparableFactor(_solver(self.kernel, x, variance, used))


class QuasiseparableFactor(AbstractMatrixFactor):
    """The factor of data in line, in a recursion from each to the next."""

    solver: Any

    def size(self):
        """Number of data."""
        return self.solver.X.shape[0]

    def whiten(self, vector):
        """L⁻¹ v."""
        return self.solver.solve_triangular(vector)

    def correlate(self, vector):
        """L v."""
        return self.solver.dot_triangular(vector)

    def standard_deviations(self):
        """Of kernel and white noise."""
        return jnp.sqrt(self.solver.variance())

    def half_log_det(self):
        """By the diagonal of the factor."""
        return self.solver.normalization() - self.size() * (0.5 * np.log(2 * np.pi))

    def numbers(self):
        """The lower half of the dense matrix, which only their information needs."""
        return self.solver.covariance()[np.tril_indices(self.size())]

    def tangent_matrix(self, tangent):
        """A symmetric matrix of its lower half."""
        return symmetric(tangent, self.size())


def _solver(kernel: Any, x: Array, variance: Array, used: Array | None) -> object:
    """The solver of `tinygp`, in which a datum that is not used has no neighbors."""
    tinygp = _tinygp()
    noise = tinygp.noise.Diagonal(variance)
    matrix = kernel.to_symm_qsm(x) + noise.to_qsm()
    if used is not None:
        lower = matrix.lower
        matrix = eqx.tree_at(
            lambda m: (m.lower.p, m.lower.q, m.diag.d),
            matrix,
            (
                jnp.where(used[:, None], lower.p, 0),
                jnp.where(used[:, None], lower.q, 0),
                jnp.where(used, matrix.diag.d, 1),
            ),
        )
    return tinygp.solvers.QuasisepSolver(kernel, x, noise, covariance=matrix)


def _tinygp() -> ModuleType:
    return optional_module("tinygp", "a Gaussian process needs")
