r"""Eigenvectors of second differences: of one axis, and of all axes at once.

Products with a matrix, or Fourier transforms along periodic axes. Where ghosts are
$a_l$ and $a_r$ times the cell beside them, $|a| \le 1$,

$$v_i = \cos(\theta (i + \tfrac12) - \varphi_l), \quad
  \tan\varphi = \frac{1 - a}{1 + a}\cot\tfrac\theta2, \quad
  n\theta = \varphi_l + \varphi_r + j\pi, \quad \lambda = 4 \sin^2\tfrac\theta2 .$$
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._grid import multiply_along_axis, on_axis


#: For each axis what a field is at both ends, None if periodic.
Kinds = Sequence[tuple[str, str] | None]


def eigenvectors(
    kinds: Kinds, walls: Sequence[Any], shape: tuple[int, ...], sizes: Sequence[Array]
) -> tuple[list[Array | None], Array]:
    """Eigenvectors along each axis, None where periodic, and eigenvalues of the sum.

    `sizes` are what second differences along each axis are multiplied by.
    """
    matrices, dtype = [], sizes[0].dtype
    total = jnp.zeros((), dtype)
    periodic = [i for i, pair in enumerate(kinds) if pair is None]
    for axis, (pair, n) in enumerate(zip(kinds, shape, strict=True)):
        if pair is None:
            # In the order of `rfft` along the last periodic axis, else of `fft`.
            modes = np.arange(n // 2 + 1 if axis == periodic[-1] else n)
            matrix = None
            values = jnp.asarray(4 * np.sin(modes * (np.pi / n)) ** 2, dtype)
        else:
            matrix, values = eigenvectors_1d(pair, walls[axis], n, dtype)
        total = total + sizes[axis] * on_axis(values, axis, len(shape))
        matrices.append(matrix)
    return matrices, total


def apply_in_eigenbasis(
    matrices: list[Array | None], x: Array, scaled: Callable[[Array], Array]
) -> Array:
    """Q f(Qᵀ x), of the eigenvectors Q."""
    periodic = [i for i, matrix in enumerate(matrices) if matrix is None]
    for axis, matrix in enumerate(matrices):
        x = x if matrix is None else multiply_along_axis(axis, matrix, x)
    if periodic:
        lengths = [x.shape[i] for i in periodic]
        z = jnp.fft.rfftn(x, axes=periodic)
        x = jnp.fft.irfftn(scaled(z), lengths, periodic)
    else:
        x = scaled(x)
    for axis, matrix in enumerate(matrices):
        x = x if matrix is None else multiply_along_axis(axis, matrix.T, x)
    return x


def eigenvectors_1d(kinds: tuple[str, str], walls: Any, n: int, dtype: Any):
    """Orthonormal eigenvectors, shape (wave, cell), and their eigenvalues."""
    if not {"other", "gain"}.isdisjoint(kinds):
        low, high = (jnp.clip(own.sum(), -1, 1) for own in walls)
        return _eigenvectors_between_walls(low, high, n)
    return tuple(jnp.asarray(a, dtype) for a in _eigenvectors_of_kinds(kinds, n))


def _eigenvectors_of_kinds(
    kinds: tuple[str, str], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The sines and cosines of ends that are even or odd, exact for all n."""
    half = 2 * np.arange(n) + (kinds[0] == "odd") + (kinds[1] == "odd")
    # Whole multiples of π/4n, so that large ones lose no digits.
    turns = half[:, None] * (2 * np.arange(n) + 1) % (8 * n)
    wave = np.cos if kinds[0] == "even" else np.sin
    vectors = wave(turns * (np.pi / (4 * n)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, 4 * np.sin(half * (np.pi / (4 * n))) ** 2


def _eigenvectors_between_walls(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Eigenvectors between ends with ghosts `low` and `high` times the last cell."""
    j = jnp.arange(n, dtype=low.dtype)

    def phase(a, theta):
        return jnp.arctan2((1 - a) * jnp.cos(theta / 2), (1 + a) * jnp.sin(theta / 2))

    def bisect(_, bounds):
        below, above = bounds
        theta = (below + above) / 2
        # All phases are decreasing functions of θ, hence there is one root.
        late = n * theta > phase(low, theta) + phase(high, theta) + j * jnp.pi
        return jnp.where(late, below, theta), jnp.where(late, theta, above)

    bits = jnp.finfo(low.dtype).nmant + 8
    bounds = (0 * j, 0 * j + jnp.pi)
    below, above = jax.lax.fori_loop(0, bits, bisect, bounds)
    theta = (below + above) / 2
    # From the nearer end, whose phase has the smaller error.
    cell = jnp.arange(n) + 0.5
    near = jnp.cos(theta[:, None] * cell - phase(low, theta)[:, None])
    far = jnp.cos(theta[:, None] * (n - cell) - phase(high, theta)[:, None])
    vectors = jnp.where(cell < n / 2, near, far * (1 - 2 * (j % 2))[:, None])
    size = jnp.sqrt(jnp.sum(vectors**2, axis=1, keepdims=True))
    return vectors / size, 4 * jnp.sin(theta / 2) ** 2
