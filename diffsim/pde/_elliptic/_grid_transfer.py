"""Grid transfer: restriction to half as many cells, and prolongation."""

import math

import jax.numpy as jnp
from jax.lax import slice_in_dim
from jaxtyping import Array

from ... import _tuning
from ._helmholtz_operator import HelmholtzOperator


def halved_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which cells are joined in pairs."""
    enough = math.prod(shape) <= _tuning.COARSEST_CELLS
    return () if enough else tuple(i for i, n in enumerate(shape) if n % 2 == 0)


def coarsen(system: HelmholtzOperator) -> HelmholtzOperator:
    """The same problem for cells twice as long along every axis that can be halved.

    Fine faces beside each other conduct together, those behind each other in turn: the
    arithmetic mean across a flux and the harmonic mean along it, without which cycles
    fall behind where k varies much from cell to cell.
    """
    axes = halved_axes(system.shape)
    faces = []
    for axis, c in enumerate(system.faces):
        if c.ndim:
            for other in axes:
                on_wall = system.walls[axis] is not None
                c = (
                    _full_weighting(c, axis, on_wall)
                    if other == axis
                    else _pair_means(c, other)
                )
        faces.append(c / 4 if axis in axes else c)
    alpha = system.alpha
    for axis in axes if alpha.ndim else ():
        alpha = _pair_means(alpha, axis)
    walls = tuple(
        (_farther_weights(pair[0]), _farther_weights(pair[1]))
        if pair and axis in axes
        else pair
        for axis, pair in enumerate(system.walls)
    )
    shape = tuple(n // 2 if i in axes else n for i, n in enumerate(system.shape))
    return HelmholtzOperator(
        alpha, tuple(faces), walls, system.sigma, shape, system.kinds
    )


#: For each axis that is halved what the even and the odd cell of a pair take of the
#: next pair on their side, the rest of their own.
Weights = dict[int, tuple[Array, Array]]


def transfer_weights(system: HelmholtzOperator) -> Weights:
    """Weights by which the same flux passes all faces between two coarse centers.

    By the resistances of the faces on the way, of numbers a quarter: lines between the
    centers would lead through a layer that insulates.
    """
    weights, axes = {}, halved_axes(system.shape)
    for axis in axes:
        c = system.faces[axis]
        if not c.ndim:
            weights[axis] = (jnp.full_like(c, 0.25),) * 2
            continue
        # Axes before this one are coarse when cells are joined along it.
        for other in axes[: axes.index(axis)]:
            c = _pair_means(c, other)
        n = c.shape[axis] - 1
        below, above = (slice_in_dim(c, i, i + n - 1, 2, axis) for i in (0, 2))
        inside = slice_in_dim(c, 1, n, 2, axis)
        first, last = _layer(inside, 0, axis), _layer(inside, n // 2 - 1, axis)
        ends = (first, last) if system.walls[axis] is not None else (last, first)
        before = jnp.concatenate(
            [ends[0], slice_in_dim(inside, 0, n // 2 - 1, axis=axis)], axis
        )
        after = jnp.concatenate(
            [slice_in_dim(inside, 1, n // 2, axis=axis), ends[1]], axis
        )
        weights[axis] = tuple(
            1 / (1 + inside * (2 / face + 1 / beyond))
            for face, beyond in ((below, before), (above, after))
        )
    return weights


def restrict(r: Array, system: HelmholtzOperator, weights: Weights) -> Array:
    """The transpose of `prolong`, of mean weights."""
    for axis in halved_axes(system.shape):
        even, odd = _split_even_odd(r, axis)
        lower, upper = weights[axis]
        down, up = lower * even, upper * odd
        n = even.shape[axis]
        pair = system.walls[axis]
        if pair is None:
            before, after = _layer(up, n - 1, axis), _layer(down, 0, axis)
        else:
            low, high = (_farther_weights(own)[0, 0] for own in pair)
            before = low * _layer(down, 0, axis)
            after = high * _layer(up, n - 1, axis)
        left = jnp.concatenate([before, slice_in_dim(up, 0, n - 1, axis=axis)], axis)
        right = jnp.concatenate([slice_in_dim(down, 1, n, axis=axis), after], axis)
        r = (even - down + odd - up + left + right) / 2
    return r


def prolong(u: Array, system: HelmholtzOperator, weights: Weights) -> Array:
    """A field of the coarse grid on that of `system`, by `transfer_weights`."""
    for axis in reversed(halved_axes(system.shape)):
        lower, upper = weights[axis]
        n, pair = u.shape[axis], system.walls[axis]
        first, last = _layer(u, 0, axis), _layer(u, n - 1, axis)
        if pair is None:
            before, after = last, first
        else:
            low, high = (_farther_weights(own)[0, 0] for own in pair)
            before, after = low * first, high * last
        left = jnp.concatenate([before, slice_in_dim(u, 0, n - 1, axis=axis)], axis)
        right = jnp.concatenate([slice_in_dim(u, 1, n, axis=axis), after], axis)
        both = jnp.stack([u + lower * (left - u), u + upper * (right - u)], axis + 1)
        u = both.reshape(*u.shape[:axis], 2 * n, *u.shape[axis + 1 :])
    return u


def grid_levels(system: HelmholtzOperator) -> list[HelmholtzOperator]:
    """Return the operators on all grids, the finest first."""
    found = [system]
    while halved_axes(found[-1].shape):
        found.append(coarsen(found[-1]))
    return found


def coarsest_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape where no axis can be halved any more."""
    while axes := halved_axes(shape):
        shape = tuple(n // 2 if i in axes else n for i, n in enumerate(shape))
    return shape


def _farther_weights(own: Array) -> Array:
    """The ghost at twice the distance: a condition α u + β u_n = 0 stays what it is."""
    return (3 * own - 1) / (3 - own)


def _split_even_odd(r: Array, axis: int) -> tuple[Array, Array]:
    pairs = r.reshape(*r.shape[:axis], -1, 2, *r.shape[axis + 1 :])
    even, odd = (
        slice_in_dim(pairs, k, k + 1, axis=axis + 1).squeeze(axis + 1) for k in (0, 1)
    )
    return even, odd


def _layer(u: Array, i: int, axis: int) -> Array:
    return slice_in_dim(u, i, i + 1, axis=axis)


def _pair_means(c: Array, axis: int) -> Array:
    even, odd = _split_even_odd(c, axis)
    return (even + odd) / 2


def _full_weighting(c: Array, axis: int, on_wall: bool) -> Array:
    """Weigh every second face by a half, those before and behind it by a quarter."""
    n = c.shape[axis] - 1
    here = slice_in_dim(c, 0, n + 1, 2, axis)
    between = slice_in_dim(c, 1, n, 2, axis)
    first, last = _layer(between, 0, axis), _layer(between, n // 2 - 1, axis)
    before, after = (first, last) if on_wall else (last, first)
    left = jnp.concatenate([before, between], axis)
    right = jnp.concatenate([between, after], axis)
    return 4 / (2 / here + 1 / left + 1 / right)
