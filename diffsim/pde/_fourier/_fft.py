"""Real fields to Fourier modes and back: linear maps that are each other's transposes.

JAX transposes a transform of real fields by one of complex fields, at twice the cost,
and a cut by a padding. `shape` is that of the grid, the last axes of a field,
`max_mode` the largest index of the modes along each; the last axis has none below zero.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._primitives import HashablePartial, LinearMapRules, linear


Shape = tuple[int, ...]


def mode_indices(shape: Shape, max_mode: Shape) -> list[np.ndarray]:
    """Indices of the modes along each axis, in their order."""
    found = []
    for n, m in zip(shape[:-1], max_mode[:-1], strict=True):
        index = np.fft.fftfreq(n, 1 / n)
        found.append(
            index if _keeps_all(n, m) else np.r_[index[: m + 1], index[n - m :]]
        )
    return [*found, np.arange(min(max_mode[-1], shape[-1] // 2) + 1.0)]


def fft(shape: Shape, max_mode: Shape, u: Array) -> Array:
    """Modes of real fields."""
    return _apply_linear(_forward, _forward_transposed, shape, max_mode, u)


def ifft(shape: Shape, max_mode: Shape, z: Array) -> Array:
    """Real fields of modes, of which all others are zero."""
    return _apply_linear(_backward, _backward_transposed, shape, max_mode, z)


def truncate_modes(shape: Shape, max_mode: Shape, z: Array) -> Array:
    """Truncate all modes that the grid has to those up to the highest."""
    return _apply_linear(_truncate, _zero_pad, shape, max_mode, z)


def zero_pad_modes(shape: Shape, max_mode: Shape, z: Array) -> Array:
    """Pad with zeros to all modes that the grid has."""
    return _apply_linear(_zero_pad, _truncate, shape, max_mode, z)


def project_real(shape: Shape, z: Array) -> Array:
    """`fft` of `ifft`: a mode whose conjugate is there too is that of it."""
    alone = hermitian_weights(shape[-1], z.shape[-1]) == 1
    if len(shape) == 1:
        return jax.lax.complex(z.real, jnp.where(alone, 0, z.imag))
    others = tuple(range(1 - len(shape), 0))
    for m in np.flatnonzero(alone):
        plane = z[..., m]
        opposite = jnp.conj(jnp.roll(jnp.flip(plane, others), 1, others))
        mean = 0.5 * (plane + opposite)
        z = jax.lax.dynamic_update_index_in_dim(z, mean, m, -1)
    return z


def hermitian_weights(n: int, count: int) -> np.ndarray:
    """How many modes of a real field each of the first `count` stands for.

    Along the last axis, of n cells. Two, itself and its conjugate, but for the mean and
    the mode n/2 of an even n.
    """
    return np.where(2 * np.arange(count) % n == 0, 1, 2)


def _apply_linear(there: Callable, back: Callable, shape, max_mode, a: Array) -> Array:
    there, back = (_as_map(f, shape, max_mode) for f in (there, back))
    kind = jax.eval_shape(lambda a: there([], [a]), a)
    kinds = [jax.typeof(a).update(shape=k.shape, dtype=k.dtype) for k in kind]
    return linear(LinearMapRules(there, back, there, back), [], [a], kinds)[0]


def _as_map(function: Callable, shape: Shape, max_mode: Shape) -> HashablePartial:
    return HashablePartial(_call_on_one, (function, shape, max_mode))


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
    """Append zeros."""
    shape = list(z.shape)
    shape[axis] = size - shape[axis]
    if shape[axis] == 0:
        return z
    return jnp.concatenate([z, jnp.zeros(shape, z.dtype)], axis)
