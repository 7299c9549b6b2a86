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

from ..._primitives import HashablePartial, LinearMapRules, linear


Shape = tuple[int, ...]


def indices(shape: Shape, max_mode: Shape) -> list[np.ndarray]:
    """Of the modes along each axis, in their order."""
    found = []
    for n, m in zip(shape[:-1], max_mode[:-1], strict=True):
        index = np.fft.fftfreq(n, 1 / n)
        found.append(index if _all(n, m) else np.r_[index[: m + 1], index[n - m :]])
    return [*found, np.arange(min(max_mode[-1], shape[-1] // 2) + 1.0)]


def forward(shape: Shape, max_mode: Shape, u: Array) -> Array:
    """Modes of real fields."""
    return _applied(_forward, _forward_transposed, shape, max_mode, u)


def backward(shape: Shape, max_mode: Shape, z: Array) -> Array:
    """Real fields of modes, of which all others are zero."""
    return _applied(_backward, _backward_transposed, shape, max_mode, z)


def taken(shape: Shape, max_mode: Shape, z: Array) -> Array:
    """The modes up to the highest, of all that the grid has."""
    return _applied(_taken, _filled, shape, max_mode, z)


def filled(shape: Shape, max_mode: Shape, z: Array) -> Array:
    """All modes that the grid has, zero above the highest."""
    return _applied(_filled, _taken, shape, max_mode, z)


def projected(shape: Shape, z: Array) -> Array:
    """`forward` of `backward`: a mode whose conjugate is there too is that of it."""
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
    """Modes of a real field that each of the first `count` along the last axis stands for.

    Two, itself and its conjugate, but for the mean and, of an even number n of cells,
    the mode n/2.
    """
    return np.where(2 * np.arange(count) % n == 0, 1, 2)


def _applied(there: Callable, back: Callable, shape, max_mode, a: Array) -> Array:
    there, back = (_as_map(f, shape, max_mode) for f in (there, back))
    kind = jax.eval_shape(lambda a: there([], [a]), a)
    kinds = [jax.typeof(a).update(shape=k.shape, dtype=k.dtype) for k in kind]
    return linear(LinearMapRules(there, back, there, back), [], [a], kinds)[0]


def _as_map(function: Callable, shape: Shape, max_mode: Shape) -> HashablePartial:
    return HashablePartial(_of_one, (function, shape, max_mode))


def _of_one(function, shape, max_mode, known, arguments):
    del known
    return [function(shape, max_mode, *arguments)]


def _forward(shape, max_mode, u):
    ndim = len(shape)
    if _every(shape, max_mode):
        return jnp.fft.rfftn(u, axes=range(-ndim, 0))
    z = jnp.fft.rfft(u)[..., : max_mode[-1] + 1]
    for axis in range(-2, -ndim - 1, -1):
        z = _cut(jnp.fft.fft(z, axis=axis), max_mode[axis], axis)
    return z


def _backward(shape, max_mode, z):
    ndim = len(shape)
    if _every(shape, max_mode):
        return jnp.fft.irfftn(z, shape, axes=range(-ndim, 0))
    for axis in range(-ndim, -1):
        z = jnp.fft.ifft(_spread(z, shape[axis], max_mode[axis], axis), axis=axis)
    return jnp.fft.irfft(_lengthened(z, shape[-1] // 2 + 1, -1), shape[-1])


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


def _taken(shape, max_mode, z):
    for axis in range(-len(shape), -1):
        z = _cut(z, max_mode[axis], axis)
    return z[..., : min(max_mode[-1], shape[-1] // 2) + 1]


def _filled(shape, max_mode, z):
    for axis in range(-len(shape), -1):
        z = _spread(z, shape[axis], max_mode[axis], axis)
    return _lengthened(z, shape[-1] // 2 + 1, -1)


def _all(n: int, m: int) -> bool:
    return 2 * m >= n - 1


def _every(shape: Shape, max_mode: Shape) -> bool:
    return all(map(_all, shape, max_mode))


def _cut(z: Array, m: int, axis: int) -> Array:
    """Without the modes above m along an axis that has them all."""
    n = z.shape[axis]
    if _all(n, m):
        return z
    parts = _sliced(z, 0, m + 1, axis), _sliced(z, n - m, n, axis)
    return jnp.concatenate(parts, axis)


def _spread(z: Array, n: int, m: int, axis: int) -> Array:
    """With zeros for the modes above m along an axis, up to all n."""
    if _all(n, m):
        return z
    low = _lengthened(_sliced(z, 0, m + 1, axis), n - m, axis)
    return jnp.concatenate([low, _sliced(z, m + 1, 2 * m + 1, axis)], axis)


def _sliced(z: Array, start: int, stop: int, axis: int) -> Array:
    return jax.lax.slice_in_dim(z, start, stop, axis=axis % z.ndim)


def _lengthened(z: Array, size: int, axis: int) -> Array:
    """With zeros behind it."""
    shape = list(z.shape)
    shape[axis] = size - shape[axis]
    if shape[axis] == 0:
        return z
    return jnp.concatenate([z, jnp.zeros(shape, z.dtype)], axis)
