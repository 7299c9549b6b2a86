"""The pair sums of many bodies: a scan over sources, a vector over targets.

Nothing is reduced inside the loop. Million pairs a second, N = 4096, float64, one core:
800; all pairs at once 26; REBOUND's direct sum 316 in the same run.
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
