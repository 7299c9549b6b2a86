r"""Sums over pairs, $a_i = \sum_j \mu_j d_{ij} / (d_{ij}^2 + \epsilon^2)^{3/2}$.

Their derivative is again a sum over pairs. With $d = x_j - x_i$, $s = r^{-3}$ and
$K = s\,(I - 3 d d^T/r^2)$,

$$\dot a_i = \sum_j \mu_j K_{ij} (\dot x_j - \dot x_i) + \dot\mu_j\, s\, d_{ij}
             - \tfrac32 \mu_j\, s\, r^{-2} d_{ij}\, \dot{(\epsilon^2)} .$$

Written by hand it needs neither the power of the plain form nor, of many bodies, an
N × N array in memory; JAX transposes it, so one rule serves forward and reverse mode.
"""

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from ... import _tuning
from ..._jaxpr._primitives import linear, one_or_many
from . import _blocked_direct_sum_jvp as blocked
from ._blocked_direct_sum import blocked_sum
from ._blocked_direct_sum_jvp import Tangents
from ._direct_sum_jvp import displacements, mutual_maps, unit_diagonal


@jax.custom_jvp
def mutual_sum(
    x: Float[Array, "3 massive"], gm: Float[Array, " massive"], eps2: Float[Array, ""]
) -> Float[Array, "3 massive"]:
    """Accelerations that the bodies at `x` give each other."""
    if gm.size > _tuning.BODIES_AT_ONCE:
        return blocked_sum(x, x, gm, eps2)
    if gm.size in _tuning.BODIES_BY_PAIRS:
        return one_or_many(_sum_at_once, _sum_of_few, x, gm, eps2)
    return _sum_at_once(x, gm, eps2)


def _sum_at_once(x, gm, eps2):
    d, r2 = displacements(x, x, eps2)
    # eye keeps the diagonal finite in every derivative; masking after the division
    # does not
    r2 = r2 + unit_diagonal(x)
    return (gm * d / (r2 * jnp.sqrt(r2))).sum(2)


def _sum_of_few(x, gm, eps2):
    """Each pair once: body i and body i + k of the list, closed to a ring."""
    total, bodies = jnp.zeros_like(x), gm.size
    for k in range(1, bodies // 2 + 1):
        d = _ahead(x, k) - x
        r2 = (d * d).sum(0) + eps2
        pull = d / (r2 * jnp.sqrt(r2))
        total = total + _ahead(gm, k) * pull
        if 2 * k < bodies:  # across the ring each pair is met from both ends
            total = total - _ahead(gm * pull, bodies - k)
    return total


def _ahead(values, k):
    """Values of the body that is k places further on."""
    return jnp.concatenate([values[..., k:], values[..., :k]], -1)


@jax.custom_jvp
def field_sum(
    at: Float[Array, "3 test_particle"],
    x: Float[Array, "3 massive"],
    gm: Float[Array, " massive"],
    eps2: Float[Array, ""],
) -> Float[Array, "3 test_particle"]:
    """Accelerations of test particles `at` other places by the bodies at `x`."""
    if gm.size > _tuning.BODIES_AT_ONCE:
        return blocked_sum(at, x, gm, eps2)
    d, r2 = displacements(at, x, eps2)
    return (gm * d / (r2 * jnp.sqrt(r2))).sum(2)


def _mutual_jvp(primals, tangents):
    x, gm, eps2 = primals
    moved = list(map(_nonzero_tangents, tangents))
    total = mutual_sum(x, gm, eps2)
    if gm.size > _tuning.BODIES_AT_ONCE:
        move = Tangents(moved[0], *moved)
        return total, _rematerialized(blocked.mutual_tangent)(x, gm, eps2, move)
    maps = mutual_maps(moved, gm.size)
    given = [part for part in moved if part is not None]
    (found,) = linear(maps, primals, given, [jax.typeof(total)])
    return total, found


def _field_jvp(primals, tangents):
    at, x, gm, eps2 = primals
    move = Tangents(*map(_nonzero_tangents, tangents))
    rule = blocked.field_tangent if gm.size > _tuning.BODIES_AT_ONCE else _field_tangent
    return field_sum(at, x, gm, eps2), _rematerialized(rule)(at, x, gm, eps2, move)


mutual_sum.defjvp(_mutual_jvp, symbolic_zeros=True)
field_sum.defjvp(_field_jvp, symbolic_zeros=True)


def _rematerialized(rule):
    """`rule` made again in the backward pass from its arguments, the only residuals.

    CSE cannot undo that inside the loop over steps, so no barrier is needed; it would
    keep the kernels from being fused (5 bodies: gradient 0.72 and 0.65 us a step).
    """
    return jax.checkpoint(rule, prevent_cse=False)


def _nonzero_tangents(tangent):
    """None for what does not move, so that nothing is computed for it."""
    return None if isinstance(tangent, SymbolicZero) else tangent


def _field_tangent(at, x, gm, eps2, move: Tangents):
    d, r2 = displacements(at, x, eps2)
    inverse2 = 1 / r2
    s = inverse2 * jnp.sqrt(inverse2)
    total = jnp.zeros_like(at)
    if move.at is not None:
        total = total - (gm * _tidal(d, inverse2, s, move.at[:, :, None])).sum(2)
    if move.x is not None:
        total = total + (gm * _tidal(d, inverse2, s, move.x[:, None, :])).sum(2)
    if move.gm is not None:
        total = total + (move.gm * (s * d)).sum(2)
    return total + _softening_tangent(d, inverse2, s, gm, move)


def _tidal(d, inverse2, s, displacement):
    """K applied to a displacement."""
    along = 3 * (d * displacement).sum(0) * inverse2
    return s * (displacement - along * d)


def _softening_tangent(d, inverse2, s, gm, move: Tangents):
    if move.eps2 is None:
        return 0
    return -1.5 * move.eps2 * (gm * s * inverse2 * d).sum(2)
