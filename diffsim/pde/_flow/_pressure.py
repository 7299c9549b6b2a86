"""The pressure that leaves no divergence: a Poisson problem, by transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._primitives import Mapped, Maps, linear
from .._axes import on_axis, product_along
from .._elliptic._waves import around, waves
from ._staggered import Faces, Staggered
from ._walls import is_open


#: Of each axis: None if periodic, else what pressure is at both walls.
Kinds = tuple[tuple[str, str] | None, ...]


def kinds_of(space: Staggered) -> Kinds:
    """Even at closed sides, which no gradient crosses, odd at open ones."""

    def kind(side):
        return "odd" if is_open(side) else "even"

    return tuple(
        None if space.periodic(i) else (kind(low), kind(high))
        for i, (low, high) in enumerate(space.walls)
    )


def potential(space: Staggered, r: Array) -> Array:
    r"""The p with $\nabla^2 p = r$, of mean zero where only differences matter.

    Symmetric, so that it is its own transpose.
    """
    maps = Maps(*4 * [Mapped(_solved, (kinds_of(space),))])
    return linear(maps, [1 / space.grid.spacing**2], [r], [jax.typeof(r)])[0]


def projected(space: Staggered, rate: Faces, t: Any) -> tuple[Faces, Array]:
    """`rate` without what would make the flow diverge, and the pressure that took it.

    At no time, None, nothing crosses the walls.
    """
    p = potential(space, space.outward_rate(rate, t))
    return _less_gradient(space, rate, p), p


def solenoidal(space: Staggered, u: Faces, t: Any) -> Faces:
    """The nearest velocity without divergence that obeys the walls at the time t."""
    return _less_gradient(space, u, potential(space, space.outward(u, t)))


def _less_gradient(space: Staggered, u: Faces, p: Array) -> Faces:
    return tuple(a - g for a, g in zip(u, space.gradient(p), strict=True))


def _solved(kinds: Kinds, known, arguments) -> list[Array]:
    (scales,), (x,) = known, arguments
    periodic = [i for i, kind in enumerate(kinds) if kind is None]
    matrices, eigenvalues = {}, jnp.zeros((), x.dtype)
    for i, (kind, n) in enumerate(zip(kinds, x.shape, strict=True)):
        if kind is None:
            values = jnp.asarray(around(n, real=i == periodic[-1]), x.dtype)
        else:
            matrices[i], values = waves(kind, None, n, x.dtype)
        eigenvalues = eigenvalues + scales[i] * on_axis(values, i, x.ndim)
    singular = not any("odd" in kind for kind in kinds if kind is not None)
    for i, matrix in matrices.items():
        x = product_along(i, matrix, x)
    if periodic:
        lengths = [x.shape[i] for i in periodic]
        x = jnp.fft.rfftn(x, axes=periodic)
        x = jnp.fft.irfftn(_divided(x, -eigenvalues, singular), lengths, periodic)
    else:
        x = _divided(x, -eigenvalues, singular)
    for i, matrix in matrices.items():
        x = product_along(i, matrix.T, x)
    return [x]


def _divided(x: Array, eigenvalues: Array, singular: bool) -> Array:
    if not singular:
        return x / eigenvalues
    lost = np.zeros(x.shape, bool)
    lost[(0,) * x.ndim] = True
    return jnp.where(lost, 0, x / jnp.where(lost, 1, eigenvalues))
