r"""The derivative of mutual attraction of few bodies, as a map and as a matrix.

One tangent is a sum over pairs. Many are a product with the matrix of

$$\dot a_i = \sum_j \mu_j K_{ij} \dot x_j
            - \Bigl(\sum_j \mu_j K_{ij}\Bigr) \dot x_i
            + s\, d_{ij}\, \dot\mu_j + E_i\, \dot{(\epsilon^2)}$$

which is worked out once: 70 tangents of 10 bodies take 7 µs for 120, for XLA makes of
their sums loops that do not fill a vector.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ... import _tuning
from ..._jaxpr._primitives import AtOnce, HashablePartial, LinearMapRules
from ..._linalg import matmul
from ._blocked_direct_sum_jvp import Tangents
from ._unit_length import self_distance2


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
        HashablePartial(_rematerialized, (one,)),
        HashablePartial(_rematerialized, (back,)),
        AtOnce(least, many, many_back),
        short=True,
    )


def _rematerialized(rule: HashablePartial, known, given) -> list[Array]:
    # A function, for JAX refers to it weakly, which a tuple does not allow.
    again = jax.checkpoint(lambda *x: rule(*x), prevent_cse=False)
    return again(list(known), list(given))


def _tangent(which: tuple[bool, ...], known, given) -> list[Array]:
    (x, gm, eps2), some = known, iter(given)
    dx, dgm, deps2 = (next(some) if moves else None for moves in which)
    return [_mutual_tangent(x, gm, eps2, Tangents(dx, dx, dgm, deps2))]


def _cotangents(which: tuple[bool, ...], known, bars) -> list[Array]:
    like = [part for part, moves in zip(known, which, strict=True) if moves]
    turned = jax.linear_transpose(lambda *x: _tangent(which, known, x)[0], *like)
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


def _moving_leaves(which: tuple[bool, ...], known) -> list[Array]:
    x, gm, eps2 = known
    every = zip(_matrices(x, gm, eps2), which, strict=True)
    return [matrix for matrix, moves in every if moves]


def _many_tangents(which: tuple[bool, ...], known, given) -> list[Array]:
    pairs = zip(_moving_leaves(which, known), given, strict=True)
    parts = [matmul(x.reshape(len(x), -1), matrix.T) for matrix, x in pairs]
    return [sum(parts[1:], start=parts[0]).reshape(-1, *known[0].shape)]


def _many_cotangents(which: tuple[bool, ...], known, bars) -> list[Array]:
    (bar,) = bars
    like = [part for part, moves in zip(known, which, strict=True) if moves]
    return [
        matmul(bar.reshape(len(bar), -1), matrix).reshape(-1, *part.shape)
        for matrix, part in zip(_moving_leaves(which, known), like, strict=True)
    ]
