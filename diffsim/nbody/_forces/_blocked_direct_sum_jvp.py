"""Derivatives of the blocked pair sums.

Each block is checkpointed: the transposed scan would otherwise keep every separation,
which is N × N.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._tuning import SOURCES_WRITTEN_OUT as BLOCK
from ._blocked_direct_sum import (
    copy_unaliased,
    own_index,
    scalar_blocks,
    separation,
    sources_of,
    vector_blocks,
    zeros_like_rows,
)


class Tangents(NamedTuple):
    """Displacements of targets, sources, G m and softening squared; None if at rest."""

    at: Array | None
    x: Array | None
    gm: Array | None
    eps2: Array | None


def mutual_tangent(x, gm, eps2, move: Tangents):
    """The derivative of mutual attraction.

    Written with its sums over targets, so that JAX's transpose of it, the gradient, has
    none: it is a vector over targets again (N = 1024, 50 steps, gradient / forward: 3.1
    against 5.3 the other way round).
    """
    index, targets = own_index(x), copy_unaliased(x)
    weights = _with_wide_sums(gm, targets)
    move = move._replace(
        x=_rows(_with_wide_sums(move.x, targets)), gm=_with_wide_sums(move.gm, targets)
    )

    @_rematerialized
    def block(total, source):
        rows = []
        for k in range(BLOCK):
            d, r2 = separation(targets, source, k, eps2, index)
            onto_source, onto_targets = _reaction(d, r2, source.gm[k], weights, move)
            rows.append(onto_source)
            total = _plus(total, onto_targets)
        return total, jnp.stack(rows, axis=1)

    total, rows = jax.lax.scan(block, zeros_like_rows(targets), sources_of(x, gm))
    from_targets = jnp.moveaxis(rows, 1, 0).reshape(3, -1)
    return jnp.stack(total)[:, : gm.size] + from_targets[:, : gm.size]


def _with_wide_sums(a, targets):
    """`a` as wide as the targets; what stands there again weighs and moves nothing."""
    if a is None:
        return None
    fill = targets.shape[-1] - a.shape[-1]
    return jnp.pad(a, (*[(0, 0)] * (a.ndim - 1), (0, fill)))


def _rows(a):
    """Components as three arrays: the transpose of a sliced one is built whole."""
    return None if a is None else tuple(a)


def _rematerialized(block):
    # without the barrier against CSE, which is not needed inside a scan and which
    # keeps the block from being fused
    return jax.checkpoint(block, prevent_cse=False)


def _reaction(d, r2, mine, gm, move: Tangents):
    """Tangents by moving targets, of a source of G m `mine` and of themselves."""
    inverse2 = 1 / r2
    s = inverse2 * jnp.sqrt(inverse2)
    onto_source, onto_targets = [0.0] * 3, [0.0] * 3
    if move.x is not None:
        y = _tidal(d, inverse2, s, move.x)
        onto_source = [(gm * c).sum() for c in y]
        onto_targets = [-mine * c for c in y]
    if move.gm is not None:
        moved = move.gm * s
        onto_source = [
            a - (moved * c).sum() for a, c in zip(onto_source, d, strict=True)
        ]
    if move.eps2 is not None:
        weight = -1.5 * move.eps2 * mine * s * inverse2
        onto_targets = [a + weight * c for a, c in zip(onto_targets, d, strict=True)]
    return jnp.stack([jnp.asarray(a, s.dtype) for a in onto_source]), onto_targets


def field_tangent(at, x, gm, eps2, move: Tangents):
    """The derivative of the attraction of test particles by bodies."""
    moving = (
        None if move.x is None else vector_blocks(move.x),
        None if move.gm is None else scalar_blocks(move.gm),
    )
    targets = copy_unaliased(at)
    move = move._replace(at=_rows(_with_wide_sums(move.at, targets)))

    @_rematerialized
    def block(total, blocks):
        source, (dx, dgm) = blocks
        for k in range(BLOCK):
            d, r2 = separation(targets, source, k, eps2, None)
            here = Tangents(
                move.at,
                None if dx is None else dx[:, k],
                None if dgm is None else dgm[k],
                move.eps2,
            )
            total = _plus(total, _action(d, r2, source.gm[k], here))
        return total, None

    blocks = (sources_of(x, gm), moving)
    total = jax.lax.scan(block, zeros_like_rows(targets), blocks)[0]
    return jnp.stack(total)[:, : at.shape[1]]


def _action(d, r2, mine, move: Tangents):
    """Tangents of moving targets by one moving source of G m `mine`."""
    inverse2 = 1 / r2
    s = inverse2 * jnp.sqrt(inverse2)
    total = [0.0] * 3
    if move.at is not None:
        total = [-mine * c for c in _tidal(d, inverse2, s, move.at)]
    if move.x is not None:
        total = _plus(total, [mine * c for c in _tidal(d, inverse2, s, move.x)])
    weight = 0.0 if move.gm is None else move.gm * s
    if move.eps2 is not None:
        weight = weight - 1.5 * move.eps2 * mine * s * inverse2
    return _plus(total, [weight * c for c in d])


def _tidal(d, inverse2, s, displacement):
    """K applied to a displacement, component by component."""
    # s first: in the transpose it is then the last factor, of one component
    scaled = [s * b for b in displacement]
    along = 3 * inverse2 * sum(a * b for a, b in zip(d, scaled, strict=True))
    return [b - along * a for a, b in zip(d, scaled, strict=True)]


def _plus(total, more):
    return tuple(a + b for a, b in zip(total, more, strict=True))
