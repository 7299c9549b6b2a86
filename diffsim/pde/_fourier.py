"""`FourierBasis`: the Fourier modes of a periodic grid, and transforms."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._jaxpr._primitives import HashablePartial, LinearMapRules, linear
from .._linalg import real_times
from ._grid import Grid, on_axis


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
        highest = tuple(n // 2 for n in grid.shape)
        self.max_mode = highest if max_mode is None else tuple(max_mode)
        pairs = zip(self.max_mode, highest, strict=False)
        if len(self.max_mode) != grid.ndim or not all(0 <= m <= n for m, n in pairs):
            raise ValueError(
                f"max_mode must be an index of a mode for each axis, at most half its "
                f"cells of {grid.shape}, got {max_mode}"
            )

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
        return self._apply_linear(_forward, _forward_transposed, u)

    @eqx.filter_jit
    def ifft(self, z: Array) -> Array:
        """The fields, shape (..., *grid), without any other mode."""
        return self._apply_linear(_backward, _backward_transposed, z)

    def project_real(self, z: Array) -> Array:
        """Project z to what real fields have: `fft` of `ifft`, without a transform."""
        # Modes whose conjugates are there too are made theirs.
        ndim = self.grid.ndim
        alone = hermitian_weights(self.grid.shape[-1], z.shape[-1]) == 1
        if ndim == 1:
            return jax.lax.complex(z.real, jnp.where(alone, 0, z.imag))
        others = tuple(range(1 - ndim, 0))
        for m in np.flatnonzero(alone):
            plane = z[..., m]
            opposite = jnp.conj(jnp.roll(jnp.flip(plane, others), 1, others))
            mean = 0.5 * (plane + opposite)
            z = jax.lax.dynamic_update_index_in_dim(z, mean, m, -1)
        return z

    @eqx.filter_jit
    def truncate_modes(self, z: Array) -> Array:
        """Truncate all modes that the grid has to these."""
        return self._apply_linear(_truncate, _zero_pad, z)

    @eqx.filter_jit
    def zero_pad_modes(self, z: Array) -> Array:
        """Pad with zeros to all modes that the grid has."""
        return self._apply_linear(_zero_pad, _truncate, z)

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
        """Indices of the modes along each axis, in their order."""
        indices = []
        for n, m in zip(self.grid.shape[:-1], self.max_mode[:-1], strict=True):
            index = np.fft.fftfreq(n, 1 / n)
            kept = index if _keeps_all(n, m) else np.r_[index[: m + 1], index[n - m :]]
            indices.append(kept)
        last = min(self.max_mode[-1], self.grid.shape[-1] // 2)
        return [*indices, np.arange(last + 1.0)]

    def _on_axis(self, axis: int, values: np.ndarray) -> Array:
        return on_axis(jnp.asarray(values, self.grid.lower.dtype), axis, self.grid.ndim)

    def _apply_linear(self, there: Callable, back: Callable, a: Array) -> Array:
        """`there` as a linear map whose transpose is `back`."""
        there, back = (
            HashablePartial(_call_on_one, (f, self.grid.shape, self.max_mode))
            for f in (there, back)
        )
        shapes = jax.eval_shape(lambda a: there([], [a]), a)
        types = [jax.typeof(a).update(shape=s.shape, dtype=s.dtype) for s in shapes]
        return linear(LinearMapRules(there, back, there, back), [], [a], types)[0]


Shape = tuple[int, ...]

# Transforms are linear maps that are each other's transposes: JAX transposes one of
# real fields by one of complex fields, at twice the cost, and a cut by a padding.
# `shape` is that of the grid, the last axes of a field, `max_mode` the largest index of
# the modes along each; the last axis has none below zero.


def hermitian_weights(n: int, count: int) -> np.ndarray:
    """How many modes of a real field each of the first `count` stands for.

    Along the last axis, of n cells. Two, itself and its conjugate, but for the mean and
    the mode n/2 of an even n.
    """
    return np.where(2 * np.arange(count) % n == 0, 1, 2)


def _call_on_one(function, shape, max_mode, known, arguments):
    del known
    return [function(shape, max_mode, *arguments)]


def _forward(shape, max_mode, u):
    ndim = len(shape)
    if _keeps_every(shape, max_mode):
        return jnp.fft.rfftn(u, axes=range(-ndim, 0))
    z = jnp.fft.rfft(u)[..., : max_mode[-1] + 1]
    for axis in range(-2, -ndim - 1, -1):
        z = _remove_modes(jnp.fft.fft(z, axis=axis), max_mode[axis], axis)
    return z


def _backward(shape, max_mode, z):
    ndim = len(shape)
    if _keeps_every(shape, max_mode):
        return jnp.fft.irfftn(z, shape, axes=range(-ndim, 0))
    for axis in range(-ndim, -1):
        z = jnp.fft.ifft(_insert_zeros(z, shape[axis], max_mode[axis], axis), axis=axis)
    return jnp.fft.irfft(_append_zeros(z, shape[-1] // 2 + 1, -1), shape[-1])


def _forward_transposed(shape, max_mode, bar):
    once = _weights(shape, bar)
    return np.prod(shape) * _backward(shape, max_mode, jnp.conj(bar) / once)


def _backward_transposed(shape, max_mode, bar):
    z = _forward(shape, max_mode, bar)
    return jnp.conj(z) * (_weights(shape, z) / np.prod(shape))


def _weights(shape: Shape, z: Array) -> Array:
    return jnp.asarray(
        hermitian_weights(shape[-1], z.shape[-1]), jnp.finfo(z.dtype).dtype
    )


def _truncate(shape, max_mode, z):
    for axis in range(-len(shape), -1):
        z = _remove_modes(z, max_mode[axis], axis)
    return z[..., : min(max_mode[-1], shape[-1] // 2) + 1]


def _zero_pad(shape, max_mode, z):
    for axis in range(-len(shape), -1):
        z = _insert_zeros(z, shape[axis], max_mode[axis], axis)
    return _append_zeros(z, shape[-1] // 2 + 1, -1)


def _keeps_all(n: int, m: int) -> bool:
    return 2 * m >= n - 1


def _keeps_every(shape: Shape, max_mode: Shape) -> bool:
    return all(map(_keeps_all, shape, max_mode))


def _remove_modes(z: Array, m: int, axis: int) -> Array:
    """Remove the modes above m along an axis that has them all."""
    n = z.shape[axis]
    if _keeps_all(n, m):
        return z
    parts = _slice(z, 0, m + 1, axis), _slice(z, n - m, n, axis)
    return jnp.concatenate(parts, axis)


def _insert_zeros(z: Array, n: int, m: int, axis: int) -> Array:
    """Insert zeros for the modes above m along an axis, up to all n."""
    if _keeps_all(n, m):
        return z
    low = _append_zeros(_slice(z, 0, m + 1, axis), n - m, axis)
    return jnp.concatenate([low, _slice(z, m + 1, 2 * m + 1, axis)], axis)


def _slice(z: Array, start: int, stop: int, axis: int) -> Array:
    return jax.lax.slice_in_dim(z, start, stop, axis=axis % z.ndim)


def _append_zeros(z: Array, size: int, axis: int) -> Array:
    shape = list(z.shape)
    shape[axis] = size - shape[axis]
    if shape[axis] == 0:
        return z
    return jnp.concatenate([z, jnp.zeros(shape, z.dtype)], axis)
