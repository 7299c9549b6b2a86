"""The pair sums of many bodies: a scan over sources, a vector over targets.

Nothing is reduced inside the loop. Million pairs a second, N = 4096, float64, one core:
800; all pairs at once 26; REBOUND's direct sum 316 in the same run.

In the derivatives each block is checkpointed: the transposed scan would otherwise keep
every separation, which is N × N.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._tuning import EXTRA_TARGETS, SOURCES_WRITTEN_OUT as BLOCK
from ._unit_length import self_distance2


class Sources(NamedTuple):
    """Blocks of sources; what fills the last block attracts nothing."""

    x: Array
    gm: Array
    index: Array
    guard: Array


def blocked_sum(at, x, gm, eps2):
    """Accelerations `at` places by sources at `x`; `at is x` for mutual attraction."""
    index = own_index(x) if at is x else None
    targets = copy_unaliased(at)

    def block(total, source):
        for k in range(BLOCK):
            d, r2 = separation(targets, source, k, eps2, index)
            w = source.gm[k] / (r2 * jnp.sqrt(r2))
            total = tuple(a + w * c for a, c in zip(total, d, strict=True))
        return total, None

    total = jax.lax.scan(block, zeros_like_rows(targets), sources_of(x, gm))[0]
    return jnp.stack(total)[:, : at.shape[1]]


def copy_unaliased(targets):
    """The targets, with the first few again if their number is a multiple of 512.

    A loop over twenty such arrays meets the same cache lines in each (a multiple of
    4 kB apart): gradient / forward at N = 1024 is 4.4, and 3.1 at 1016 or 1040.
    """
    extra = EXTRA_TARGETS if targets.shape[-1] % 512 == 0 else 0
    return (
        jnp.concatenate([targets, targets[..., :extra]], axis=-1) if extra else targets
    )


def separation(at, source: Sources, k: int, eps2, index):
    """Components from targets to source `k`, and the softened distance squared."""
    d = [source.x[c, k] - at[c] for c in range(3)]
    r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + (eps2 + source.guard[k])
    if index is not None:
        # as eye(N) on the diagonal, before the power
        r2 = r2 + self_distance2(r2.dtype) * (index == source.index[k])
    return d, r2


def own_index(x):
    """Numbers of the targets among the sources, where they are the same bodies."""
    # The comparison is always true. It ties the numbers to the positions: JAX moves
    # what does not change out of a differentiated loop, and the masks of all sources
    # together are an N × N array.
    return copy_unaliased(jnp.where(x[0] == x[0], jnp.arange(x.shape[1]), -1))


def zeros_like_rows(at):
    """A zero for each component."""
    return (jnp.zeros_like(at[0]),) * 3


def sources_of(x, gm) -> Sources:
    """The sources in blocks."""
    n = gm.size
    padded = n + -n % BLOCK
    return Sources(
        vector_blocks(x),
        scalar_blocks(gm),
        jnp.arange(padded).reshape(-1, BLOCK),
        (jnp.arange(padded) >= n).astype(x.dtype).reshape(-1, BLOCK),
    )


def vector_blocks(a):
    """(3, n) as (block, 3, BLOCK)."""
    filled = jnp.pad(a, ((0, 0), (0, -a.shape[1] % BLOCK)))
    return jnp.moveaxis(filled.reshape(3, -1, BLOCK), 1, 0)


def scalar_blocks(a):
    """(n,) as (block, BLOCK)."""
    return jnp.pad(a, (0, -a.size % BLOCK)).reshape(-1, BLOCK)


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
