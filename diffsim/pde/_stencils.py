"""Finite volume stencils: linear maps between cells and faces, with their transposes.

A slice is transposed into a field of zeros with a slice in it, and XLA makes one for
each neighbor; differentiated that way a step of diffusion costs thirty of its own.
Written as what it is, another stencil, it costs two. Every operator of this package
is made of the three maps of this file and of what happens at a face.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import slice_in_dim
from jaxtyping import Array

from .._jaxpr._materialize import compute_once
from .._jaxpr._primitives import HashablePartial, LinearMapRules, linear
from ._boundaries import GhostCells


#: Ghosts at both ends of an axis, None where it is periodic.
Ends = tuple[GhostCells, GhostCells] | None


def face_neighbors(
    u: Array, ends: Sequence[Ends], boundary_values: Sequence[Any], width: int
) -> list[list[Array]]:
    """Return for each axis the cells beside its faces, `width` a side, left to right.

    `u` has the grid as its last axes, one for each of `ends`; `boundary_values` has
    those at both ends of an axis, of length one across the boundary.
    """
    constants, arguments = [], [u]
    for axis, (pair, values) in enumerate(zip(ends, boundary_values, strict=True)):
        if pair is None:
            continue
        for ghosts, value in zip(pair, values, strict=True):
            constants.append(ghosts.interior_weights)
            shape = _with_length(u.shape, axis - len(ends), width)
            weights = _along_axis(
                ghosts.boundary_weight, axis - len(ends), u.ndim, len(ends)
            )
            arguments.append(jnp.broadcast_to(weights * value, shape).astype(u.dtype))
    walls = tuple(pair is not None for pair in ends)
    fixed = (walls, width)
    maps = LinearMapRules.plain(
        HashablePartial(_neighbors, fixed),
        HashablePartial(_neighbors_transposed, fixed),
    )
    types = [
        jax.typeof(u).update(shape=_with_length(u.shape, -i, u.shape[-i] + 1))
        for i in range(len(ends), 0, -1)
        for _ in range(2 * width)
    ]
    views = linear(maps, constants, arguments, types)
    size = 2 * width
    return [views[i * size : (i + 1) * size] for i in range(len(ends))]


def divergence(fluxes: Sequence[Array]) -> Array:
    """The sum over axes of the differences of what is on the faces of every cell."""
    count = len(fluxes)
    maps = LinearMapRules.plain(
        HashablePartial(_differences),
        HashablePartial(_differences_transposed, (count,)),
    )
    first = fluxes[0]
    shape = _with_length(first.shape, -count, first.shape[-count] - 1)
    return linear(maps, [], fluxes, [jax.typeof(first).update(shape=shape)])[0]


def difference(face: Array, axis: int) -> Array:
    """The upper minus the lower face of every cell across `axis` < 0."""
    return _cells(face, axis, -1.0)


def average(face: Array, axis: int) -> Array:
    """The mean of both faces of every cell across `axis` < 0."""
    return _cells(face, axis, 1.0) / 2


def _cells(face: Array, axis: int, sign: float) -> Array:
    """The upper face of every cell, and the lower one times `sign`."""
    maps = LinearMapRules.plain(
        HashablePartial(_combine, (axis, sign)),
        HashablePartial(_combine_transposed, (axis, sign)),
    )
    shape = _with_length(face.shape, axis, face.shape[axis] - 1)
    return linear(maps, [], [face], [jax.typeof(face).update(shape=shape)])[0]


def _neighbors(walls, width, constants, arguments):
    u, *values = arguments
    weights, values, ends = iter(constants), iter(values), []
    for i, wall in enumerate(walls):
        axis = i - len(walls)
        n = u.shape[axis]
        if not wall:
            ends.append((_cut(u, n - width, n, axis), _cut(u, 0, width, axis)))
            continue
        low = _ghosts(next(weights), _cut, u, axis, len(walls)) + next(values)
        high = _ghosts(next(weights), _cut_from_end, u, axis, len(walls)) + next(values)
        ends.append((jnp.flip(low, axis), high))
    padded = pad_with_ghost_cells(u, ends)
    views = []
    for i in range(-len(walls), 0):
        lines = _strip_ghosts(padded, width, i, len(walls))
        size = u.shape[i] + 1
        views += [_cut(lines, k, k + size, i) for k in range(2 * width)]
    return views


def _ghosts(weights: Array, cut, u: Array, axis: int, count: int) -> Array:
    """A u, of the cells that `cut` counts from the boundary."""
    parts = [
        _along_axis(weights[..., j], axis, u.ndim, count) * cut(u, j, j + 1, axis)
        for j in range(weights.shape[-1])
    ]
    return sum(parts[1:], start=parts[0])


def _neighbors_transposed(walls, width, constants, bars):
    """The transpose of `_neighbors`: what every cell was, and every ghost."""
    constants, size = iter(constants), 2 * width
    around = [bars[i : i + size] for i in range(0, len(bars), size)]
    beside, thin = [], []
    for axis, views in enumerate(around, -len(walls)):
        beside += [_right(views[width - 1], axis), _left(views[width], axis)]
        thin.append(_ghost_totals(views, width, axis))
    u = compute_once(sum(beside[1:], start=beside[0]))
    for axis, views in enumerate(around, -len(walls)):
        u = _add_inner_faces(u, views, width, axis)
    boundary_bars = []
    for i, wall in enumerate(walls):
        axis = i - len(walls)
        n, (low, high) = u.shape[axis], thin[i]
        if not wall:
            u = _add_at(u, low, n - width, axis)
            u = _add_at(u, high, 0, axis)
            continue
        low = jnp.flip(low, axis)
        for end, ghosts in enumerate((low, high)):
            interior = next(constants)
            for j in range(interior.shape[-1]):
                weights = _along_axis(interior[..., j], axis, u.ndim, len(walls))
                bar = jnp.sum(weights * ghosts, axis, keepdims=True)
                u = _add_at(u, bar, n - 1 - j if end else j, axis)
            boundary_bars.append(ghosts)
    return [u, *boundary_bars]


def _add_inner_faces(u: Array, views: Sequence[Array], width: int, axis: int) -> Array:
    """`u`, and what cells were on faces further away, added in place.

    A concatenation of what few cells at the ends have would not be vectorized.
    """
    n = u.shape[axis]
    for k, view in enumerate(views):
        # The cell c is on the face c + width - k, if there is such a face.
        first, last = max(k - width, 0), min(n, n - width + k + 1)
        if k not in (width - 1, width):
            part = _cut(view, first + width - k, last + width - k, axis)
            u = _add_at(u, part, first, axis)
    return u


def _ghost_totals(views: Sequence[Array], width: int, axis: int) -> tuple[Array, Array]:
    """Sum what ghosts at both ends were on faces, in the order of the axis."""
    n = views[0].shape[axis] - 1

    def total(place):
        parts = [
            _cut(view, place - k, place - k + 1, axis)
            for k, view in enumerate(views)
            if 0 <= place - k <= n
        ]
        return sum(parts[1:], start=parts[0])

    low, high = (
        jnp.concatenate([total(start + i) for i in range(width)], axis)
        for start in (0, width + n)
    )
    return low, high


def _differences(constants, fluxes):
    del constants
    count = len(fluxes)
    parts = [_right(f, i - count) - _left(f, i - count) for i, f in enumerate(fluxes)]
    return [sum(parts[1:], start=parts[0])]


def _differences_transposed(count, constants, bars):
    del constants
    (r,) = bars
    nothing = [jnp.zeros_like(_cut(r, 0, 1, i - count)) for i in range(count)]
    padded = pad_with_ghost_cells(r, [(a, a) for a in nothing])
    lines = [_strip_ghosts(padded, 1, i - count, count) for i in range(count)]
    return [_left(a, i - count) - _right(a, i - count) for i, a in enumerate(lines)]


def _combine(axis, sign, constants, arguments):
    del constants
    (face,) = arguments
    return [_right(face, axis) + sign * _left(face, axis)]


def _combine_transposed(axis, sign, constants, bars):
    del constants
    (cell,) = bars
    nothing = jnp.zeros_like(_cut(cell, 0, 1, axis))
    padded = jnp.concatenate([nothing, cell, nothing], axis)
    padded = compute_once(padded)
    return [_left(padded, axis) + sign * _right(padded, axis)]


def pad_with_ghost_cells(u: Array, ends: Sequence[tuple[Array, Array]]) -> Array:
    """`u` with `ends` along its last axes; the corners are zero.

    The one copy behind which all reads are plain slices: XLA would work out a pad
    wherever it is read, for every entry.
    """
    count = len(ends)
    width = ends[0][0].shape[-count]
    low, high = ends[0]
    # Along the first axis this copies contiguous memory.
    padded = jnp.concatenate([low, u, high], -count)
    if count > 1:
        shape = [*padded.shape]
        for axis in range(-count + 1, 0):
            shape[axis] += 2 * width
        start = [0] * (u.ndim - count + 1) + [width] * (count - 1)
        whole = jnp.zeros(shape, u.dtype)
        padded = jax.lax.dynamic_update_slice(whole, padded, start)
        for i in range(1, count):
            corner = [0] * (u.ndim - count) + [width] * count
            for side, place in zip(
                ends[i], (0, width + u.shape[i - count]), strict=True
            ):
                corner[i - count] = place
                padded = jax.lax.dynamic_update_slice(padded, side, corner)
    return compute_once(padded)


def _strip_ghosts(padded: Array, width: int, axis: int, count: int) -> Array:
    """Remove the ghosts along the other of the last `count` axes."""
    for other in range(-count, 0):
        if other != axis:
            n = padded.shape[other] - 2 * width
            padded = _cut(padded, width, width + n, other)
    return padded


def _cut(a: Array, start: int, stop: int, axis: int) -> Array:
    return slice_in_dim(a, start, stop, axis=axis % a.ndim)


def _cut_from_end(a: Array, start: int, stop: int, axis: int) -> Array:
    n = a.shape[axis]
    return _cut(a, n - stop, n - start, axis)


def _left(a: Array, axis: int) -> Array:
    return _cut(a, 0, a.shape[axis] - 1, axis)


def _right(a: Array, axis: int) -> Array:
    return _cut(a, 1, a.shape[axis], axis)


def _add_at(a: Array, part: Array, start: int, axis: int) -> Array:
    there = _cut(a, start, start + part.shape[axis], axis) + part
    return jax.lax.dynamic_update_slice_in_dim(a, there, start, axis % a.ndim)


def _along_axis(weights: Array, axis: int, ndim: int, count: int) -> Array:
    """Weights of ghosts across `axis`, or of (channel, ghost), for fields.

    Channels are the axis before the last `count`, those of the grid.
    """
    shape = [1] * ndim
    shape[axis] = weights.shape[-1]
    if weights.ndim == 2:
        shape[-count - 1] = weights.shape[0]
    return weights.reshape(shape)


def _with_length(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    lengths = list(shape)
    lengths[axis] = n
    return tuple(lengths)
