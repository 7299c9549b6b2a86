r"""The derivative of Kepler steps, given the anomaly s, as a linear map.

With $b = d\beta/2$ and $D_n = 2\,\partial G_n/\partial\beta = n G_{n+2} - s G_{n+1}$ at
fixed s,

$$r'\,ds = d\Delta t - G_1 dr - G_2 d\sigma - G_3 d\mu
           - (r D_1 + \sigma D_2 + \mu D_3)\,b, \qquad
  dG_n = G_{n-1} ds + D_n b .$$

All of it is made again from the state and s where it is needed, which is all that is
kept for the backward pass.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._primitives import HashablePartial, LinearMapRules
from ._stumpff import stumpff_at_once


def drift_maps(which: tuple[bool, ...]) -> LinearMapRules:
    """The derivative in those of x, v, Δt and μ that move, known by all and s."""
    forward, back = (
        HashablePartial(rule, (which,)) for rule in (_tangents, _cotangents)
    )
    return LinearMapRules.plain(forward, back)


def _tangents(which: tuple[bool, ...], known, given) -> list[Array]:
    orbit = _Orbit.of(known)
    return list(_changes(orbit, _all_moves(which, given))[:2])


def _cotangents(which: tuple[bool, ...], known, bars) -> list[Array]:
    like = [part for part, moves in zip(known, which, strict=False) if moves]
    turned = jax.linear_transpose(lambda *x: _tangents(which, known, x), *like)
    return list(turned(list(bars)))


def shift_of_anomaly(which, known: Sequence[Array], given: Sequence[Array]) -> Array:
    """The tangent of s."""
    orbit = _Orbit.of(known)
    return _changes(orbit, _all_moves(which, given))[2]


class _Orbit(NamedTuple):
    x: Array
    v: Array
    dt: Array
    gm: Array
    s: Array
    r: Array
    sigma: Array
    beta: Array
    g: tuple[Array, ...]

    @classmethod
    def of(cls, known):
        x, v, dt, gm, s = known
        r = jnp.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])
        sigma = x[0] * v[0] + x[1] * v[1] + x[2] * v[2]
        beta = 2 * gm / r - (v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
        c = stumpff_at_once(5, beta * s * s)
        g, power = [c[0]], s
        for n in range(1, 6):
            g.append(power * c[n])
            power = power * s
        return cls(x, v, dt, gm, s, r, sigma, beta, tuple(g))


class _Moves(NamedTuple):
    """Tangents of what a step is made of; 0 of what does not move."""

    x: Array | float
    v: Array | float
    dt: Array | float
    gm: Array | float


def _all_moves(which, given) -> _Moves:
    some = iter(given)
    return _Moves(*(next(some) if moves else 0.0 for moves in which))


def _changes(o: _Orbit, move: _Moves) -> tuple[Array, Array, Array]:
    """Tangents of the increments of x and v, and of s."""
    g0, g1, g2, g3, g4, g5 = o.g
    d0, d1, d2, d3 = -o.s * g1, g3 - o.s * g2, 2 * g4 - o.s * g3, 3 * g5 - o.s * g4
    inverse = 1 / o.r
    after = o.r * g0 + o.sigma * g1 + o.gm * g2
    inverse_after = 1 / after
    slope = o.sigma * g0 + (o.gm - o.beta * o.r) * g1
    dr = _dot(o.x, move.x) * inverse
    dsigma = _dot(o.v, move.x) + _dot(o.x, move.v)
    b = (move.gm - o.gm * dr * inverse) * inverse - _dot(o.v, move.v)
    bent = o.r * d1 + o.sigma * d2 + o.gm * d3
    ds = (move.dt - g1 * dr - g2 * dsigma - g3 * move.gm - bent * b) * inverse_after
    m1, m2, m3 = (
        o.gm * (g * ds + d * b) + h * move.gm
        for g, d, h in ((g0, d1, g1), (g1, d2, g2), (g2, d3, g3))
    )
    shrunk = o.r * d0 + o.sigma * d1 + o.gm * d2
    dafter = g0 * dr + g1 * dsigma + g2 * move.gm + slope * ds + shrunk * b
    nearer, nearer_after = dr * inverse, dafter * inverse_after
    f, g = -o.gm * g2 * inverse, o.dt - o.gm * g3
    speed = -o.gm * g1 * inverse * inverse_after
    growth = -o.gm * g2 * inverse_after
    df = -m2 * inverse - f * nearer
    dg = move.dt - m3
    dspeed = -m1 * inverse * inverse_after - speed * (nearer + nearer_after)
    dgrowth = -m2 * inverse_after - growth * nearer_after
    dx = f * move.x + g * move.v + df * o.x + dg * o.v
    dv = speed * move.x + growth * move.v + dspeed * o.x + dgrowth * o.v
    return dx, dv, ds


def _dot(a, b):
    if isinstance(b, float):
        return 0.0
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
