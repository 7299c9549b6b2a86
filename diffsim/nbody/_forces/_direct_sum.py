r"""Sums over pairs, $a_i = \sum_j \mu_j d_{ij} / (d_{ij}^2 + \epsilon^2)^{3/2}$.

Their derivative is again a sum over pairs. With $d = x_j - x_i$, $s = r^{-3}$ and
$K = s\,(I - 3 d d^T/r^2)$,

$$\dot a_i = \sum_j \mu_j K_{ij} (\dot x_j - \dot x_i) + \dot\mu_j\, s\, d_{ij}
             - \tfrac32 \mu_j\, s\, r^{-2} d_{ij}\, \dot{(\epsilon^2)} .$$

Written by hand it needs neither the power of the plain form nor, of many bodies, an
N × N array in memory; JAX transposes it, so one rule serves forward and reverse mode.

One tangent of few bodies is a sum over pairs. Many are a product with the matrix of

$$\dot a_i = \sum_j \mu_j K_{ij} \dot x_j
            - \Bigl(\sum_j \mu_j K_{ij}\Bigr) \dot x_i
            + s\, d_{ij}\, \dot\mu_j + E_i\, \dot{(\epsilon^2)}$$

which is worked out once: 70 tangents of 10 bodies take 7 µs for 120, for XLA makes of
their sums loops that do not fill a vector.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from ... import _tuning
from ..._jaxpr._primitives import (
    AtOnce,
    HashablePartial,
    LinearMapRules,
    linear,
    one_or_many,
)
from ..._linalg import matmul
from . import _blocked_direct_sum as blocked
from ._blocked_direct_sum import Tangents, blocked_sum
from ._unit_length import self_distance2


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
    moving = [part for part in moved if part is not None]
    (change,) = linear(maps, primals, moving, [jax.typeof(total)])
    return total, change


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


def displacements(at, x, eps2):
    """`d[:, i, j]` from `at[:, i]` to source j, and its softened square."""
    d = x[:, None, :] - at[:, :, None]
    return d, (d * d).sum(0) + eps2


def unit_diagonal(x):
    """Return a diagonal that keeps that of the squares finite in every derivative."""
    return self_distance2(x.dtype) * jnp.eye(x.shape[1], dtype=x.dtype)


def mutual_maps(moved: Sequence[Array | None], bodies: int) -> LinearMapRules:
    """The derivative in those of x, G m and ε² that are not None, known by all three.

    What is known is all that is kept for the backward pass, in which the sums are made
    again, those of second derivatives too.
    """
    which = tuple(part is not None for part in moved)
    one, back, many, many_back = (
        HashablePartial(rule, (which,))
        for rule in (_tangent, _cotangents, _many_tangents, _many_cotangents)
    )
    least = max(2, -(-_tuning.TANGENTS_OF_PAIRS_BY_MATRIX // bodies**2))
    return LinearMapRules(
        one,
        back,
        HashablePartial(_rematerialized_rule, (one,)),
        HashablePartial(_rematerialized_rule, (back,)),
        AtOnce(least, many, many_back),
        short=True,
    )


def _rematerialized_rule(rule: HashablePartial, primals, moving) -> list[Array]:
    # A function, for JAX refers to it weakly, which a tuple does not allow.
    again = jax.checkpoint(lambda *x: rule(*x), prevent_cse=False)
    return again(list(primals), list(moving))


def _tangent(which: tuple[bool, ...], primals, moving) -> list[Array]:
    (x, gm, eps2), some = primals, iter(moving)
    dx, dgm, deps2 = (next(some) if moves else None for moves in which)
    return [_mutual_tangent(x, gm, eps2, Tangents(dx, dx, dgm, deps2))]


def _cotangents(which: tuple[bool, ...], primals, bars) -> list[Array]:
    like = [part for part, moves in zip(primals, which, strict=True) if moves]
    turned = jax.linear_transpose(lambda *x: _tangent(which, primals, x)[0], *like)
    return list(turned(bars[0]))


def _mutual_tangent(x, gm, eps2, move: Tangents):
    d, r2 = displacements(x, x, eps2)
    inverse2 = 1 / (r2 + unit_diagonal(x))
    s = inverse2 * jnp.sqrt(inverse2)
    total, weight = jnp.zeros_like(x), 0.0
    if move.x is not None:
        total = (gm * s * (move.x[:, None, :] - move.x[:, :, None])).sum(2)
        # One product serves both ends of a pair, and in the transpose G m as well
        # (Jacobian of a 5-body leapfrog run: 2.1 against 2.9 us a step).
        along = (d * move.x[:, :, None]).sum(0)
        weight = 3 * gm * inverse2 * (along + along.T)
    if move.gm is not None:
        weight = weight + move.gm
    if move.eps2 is not None:
        weight = weight - 1.5 * move.eps2 * gm * inverse2
    return total + (d * (s * weight)).sum(2)


def _matrices(x, gm, eps2) -> list[Array]:
    """Of x and G m, rows (component, body), and of ε², one column."""
    n = gm.size
    d, r2 = displacements(x, x, eps2)
    inverse2 = 1 / (r2 + unit_diagonal(x))
    s = inverse2 * jnp.sqrt(inverse2)
    eye = jnp.eye(3, dtype=x.dtype)[:, :, None, None]
    tidal = gm * s * (eye - 3 * inverse2 * d[:, None] * d[None])
    tidal = tidal - tidal.sum(3, keepdims=True) * jnp.eye(n, dtype=x.dtype)
    softened = -1.5 * (gm * s * inverse2 * d).sum(2)
    return [
        tidal.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n),
        (s * d).reshape(3 * n, n),
        softened.reshape(3 * n, 1),
    ]


def _moving_leaves(which: tuple[bool, ...], primals) -> list[Array]:
    x, gm, eps2 = primals
    every = zip(_matrices(x, gm, eps2), which, strict=True)
    return [matrix for matrix, moves in every if moves]


def _many_tangents(which: tuple[bool, ...], primals, moving) -> list[Array]:
    pairs = zip(_moving_leaves(which, primals), moving, strict=True)
    parts = [matmul(x.reshape(len(x), -1), matrix.T) for matrix, x in pairs]
    return [sum(parts[1:], start=parts[0]).reshape(-1, *primals[0].shape)]


def _many_cotangents(which: tuple[bool, ...], primals, bars) -> list[Array]:
    (bar,) = bars
    like = [part for part, moves in zip(primals, which, strict=True) if moves]
    return [
        matmul(bar.reshape(len(bar), -1), matrix).reshape(-1, *part.shape)
        for matrix, part in zip(_moving_leaves(which, primals), like, strict=True)
    ]
