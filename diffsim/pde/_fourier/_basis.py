"""`FourierBasis`: the Fourier modes of a periodic grid."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._linalg import real_times
from .._grid import Grid, on_axis
from ._fft import fft, ifft, mode_indices, project_real, truncate_modes, zero_pad_modes


class FourierBasis(eqx.Module):
    r"""Fourier basis of a periodic grid: the modes $|m_a| \le M_a$, all or the lowest.

    $$\hat u_m = \sum_j u_j\,e^{-i k_m\cdot(x_j - x_0)}, \qquad
      k_{m,a} = 2\pi m_a/(u_a - l_a)$$

    with $x_0$ the center of the first cell. Of real fields, so that the last axis has
    $m \ge 0$ alone; the order along the others is that of `numpy.fft`: 0, 1, ..., M,
    −M, ..., −1.

    ```python
    grid = pde.Grid(64, 0.0, 2 * np.pi)
    u, modes = jnp.sin(3 * grid.centers[0]), pde.FourierBasis(grid)
    slope = modes.ifft(modes.derivative(0) * modes.fft(u))  # 3 cos 3x
    ```

    **Arguments**

    - `grid`: a `Grid`, periodic along every axis.
    - `max_mode`: M along each axis; None keeps every mode.
    """

    grid: Grid
    max_mode: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, grid: Grid, max_mode: tuple[int, ...] | None = None):
        self.grid = grid
        self.max_mode = tuple(n // 2 for n in grid.shape)
        if max_mode is not None:
            self.max_mode = _check_max_mode(tuple(max_mode), grid)

    def dealiased(self, degree: int = 2) -> "FourierBasis":
        """Modes in which products of `degree` of their fields have no aliasing error.

        What the grid folds back lies beyond them: (degree + 1) M < n.
        """
        cut = ((n - 1) // (degree + 1) for n in self.grid.shape)
        return FourierBasis(self.grid, tuple(cut))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of modes along each axis."""
        return tuple(map(len, self._indices))

    @property
    def wavenumbers(self) -> list[Float[Array, "..."]]:
        """k along each axis, in shapes that broadcast to one another."""
        steps = 2 * jnp.pi / (self.grid.upper - self.grid.lower)
        return [
            step * self._on_axis(axis, index)
            for axis, (step, index) in enumerate(zip(steps, self._indices, strict=True))
        ]

    @property
    def wavenumber_squared(self) -> Float[Array, " *modes"]:
        """|k|²."""
        first, *rest = (k**2 for k in self.wavenumbers)
        return sum(rest, start=first)

    def derivative(self, axis: int, order: int = 1) -> Array:
        r"""Symbol $(ik)^{\text{order}}$ along an axis, real where the order is even.

        The mode n/2 of an even number of cells has no sine, so no odd derivative.
        """
        k = self.wavenumbers[axis]
        power = (-1) ** (order // 2) * k**order
        if order % 2 == 0:
            return power
        paired = 2 * np.abs(self._indices[axis]) < self.grid.shape[axis]
        odd = self._on_axis(axis, paired) * power
        return jax.lax.complex(jnp.zeros_like(odd), odd)

    @eqx.filter_jit
    def fft(self, u: Array) -> Array:
        """û, shape (..., *modes), of real fields, shape (..., *grid)."""
        return fft(self.grid.shape, self.max_mode, u)

    @eqx.filter_jit
    def ifft(self, z: Array) -> Array:
        """The fields, shape (..., *grid), without any other mode."""
        return ifft(self.grid.shape, self.max_mode, z)

    def project_real(self, z: Array) -> Array:
        """Project z to what real fields have: `fft` of `ifft`, without a transform."""
        return project_real(self.grid.shape, z)

    @eqx.filter_jit
    def truncate_modes(self, z: Array) -> Array:
        """Truncate all modes that the grid has to these."""
        return truncate_modes(self.grid.shape, self.max_mode, z)

    @eqx.filter_jit
    def zero_pad_modes(self, z: Array) -> Array:
        """Pad with zeros to all modes that the grid has."""
        return zero_pad_modes(self.grid.shape, self.max_mode, z)

    def gradient(self, z: Array) -> Array:
        """The transform of ∇u, the axes first."""
        return jnp.stack([self.derivative(a) * z for a in range(self.grid.ndim)])

    def laplacian(self, z: Array) -> Array:
        """The transform of ∇²u."""
        return real_times(-self.wavenumber_squared, z)

    def inverse_laplacian(self, z: Array) -> Array:
        """The transform of the ψ of mean zero with ∇²ψ = u, u without its mean."""
        nonzero = self.wavenumber_squared > 0
        over = jnp.where(
            nonzero, -1 / jnp.where(nonzero, self.wavenumber_squared, 1), 0
        )
        return real_times(over, z)

    @property
    def _indices(self) -> list[np.ndarray]:
        return mode_indices(self.grid.shape, self.max_mode)

    def _on_axis(self, axis: int, values: np.ndarray) -> Array:
        return on_axis(jnp.asarray(values, self.grid.lower.dtype), axis, self.grid.ndim)


def _check_max_mode(max_mode: tuple[int, ...], grid: Grid) -> tuple[int, ...]:
    pairs = zip(max_mode, grid.shape, strict=False)
    if len(max_mode) != grid.ndim or not all(0 <= m <= n // 2 for m, n in pairs):
        raise ValueError(
            f"max_mode must be an index of a mode for each axis, at most half its "
            f"cells of {grid.shape}, got {max_mode}"
        )
    return max_mode
