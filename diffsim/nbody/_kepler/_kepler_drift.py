r"""Kepler steps of many bodies, component first, as increments: what integrators take.

The same map as `kepler_step` for steps that are short for all bodies, by an eighth of
the operations. A power series in the step is the guess, one correction of fifth order
follows, and Stumpff's functions are series that the correction moves on with.

Its derivative, given the anomaly s, is a linear map. With $b = d\beta/2$ and
$D_n = 2\,\partial G_n/\partial\beta = n G_{n+2} - s G_{n+1}$ at fixed s,

$$r'\,ds = d\Delta t - G_1 dr - G_2 d\sigma - G_3 d\mu
           - (r D_1 + \sigma D_2 + \mu D_3)\,b, \qquad
  dG_n = G_{n-1} ds + D_n b .$$

All of it is made again from the state and s where it is needed, which is all that is
kept for the backward pass.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._jaxpr._primitives import (
    HashablePartial,
    LinearMapRules,
    custom_derivative,
    linear,
)
from ._starters import correction
from ._stumpff import stumpff_at_once, universal
from ._universal_anomaly import ANOMALY_STEPS, anomaly_guess
from ._vectors import orbit_units


#: A step is short where |σ| h / 2r² and the root of |ζ| h² / 6r³ are below the first
#: and |β| h² / r² is below the second. The series is within 1.3e-3 of s there, and the
#: correction leaves 5e-17 of it (two million orbits of every eccentricity, in long
#: double); at 0.12 it would leave 2e-14. An ellipse of e = 0.2 is so at P/16.
_SHORT, _SHORT_SQUARED = 0.1, 0.6

#: Terms of the series of c₂ and c₃, for arguments up to 0.76.
_TERMS = 9


def kepler_drift(
    x: Float[Array, "3 orbit"],
    v: Float[Array, "3 orbit"],
    dt: Float[Array, ""],
    gm: Float[Array, " orbit"],
) -> tuple[Float[Array, "3 orbit"], Float[Array, "3 orbit"]]:
    """Changes of relative positions and velocities over `dt`, of either sign."""
    dx, dv, _ = custom_derivative(_drift, _tangent, x, v, dt, gm)
    return dx, dv


def _drift(x, v, dt, gm):
    r, sigma, v2 = jnp.sqrt(dot(x, x)), dot(x, v), dot(v, v)
    inverse = 1 / r
    beta = 2 * gm * inverse - v2
    zeta = gm - beta * r
    orbit = (x, v, dt, gm, r, inverse, sigma, beta, zeta)
    u = dt * inverse
    a, b = sigma * inverse / 2, zeta * inverse / 6
    short = (
        (jnp.abs(a * u) < _SHORT)
        & (jnp.abs(b * u * u) < _SHORT**2)
        & (jnp.abs(beta * u * u) < _SHORT_SQUARED)
    )
    s, g1, g2, g3, after = jax.lax.cond(_all_of(short), _short, _any, *orbit)
    inverse_after = 1 / after
    f, g = -gm * g2 * inverse, dt - gm * g3
    df, dg = -gm * g1 * inverse * inverse_after, -gm * g2 * inverse_after
    return [f * x + g * v, df * x + dg * v, s]


@jax.custom_batching.custom_vmap
def _all_of(flags):
    """Whether all flags hold, of all systems of a batch together."""
    return jnp.all(flags)


@_all_of.def_vmap
def _all_of_batch(axis_size, in_batched, flags):
    # One answer a batch keeps the branch a branch: of one answer a system `vmap` runs
    # both and selects, six times as long for 64 systems.
    del axis_size, in_batched
    return _all_of(flags), False


def _short(x, v, dt, gm, r, inverse, sigma, beta, zeta):
    """The anomaly, G₁ to G₃ and the distance after a short step."""
    s = _series(dt * inverse, sigma * inverse, zeta * inverse, beta)
    z = beta * s * s
    c2, c3 = _even_series(2, z), _even_series(3, z)
    g0, g1, g2, g3 = 1 - z * c2, s * (1 - z * c3), s * s * c2, s * s * s * c3
    f = r * g1 + sigma * g2 + gm * g3 - dt
    slope = 1 / (r * g0 + sigma * g1 + gm * g2)
    bend = sigma * g0 + zeta * g1
    # The Taylor series of the equation, reversed: as far as in `correction`, by one
    # division in place of four.
    w = -f * slope
    k2 = bend * slope / 2
    k3 = (zeta * g0 - beta * sigma * g1) * slope / 6
    k4 = -beta * bend * slope / 24
    d = w * (
        1 + w * (-k2 + w * (2 * k2 * k2 - k3 - w * (5 * k2 * (k2 * k2 - k3) + k4)))
    )
    # dGₙ/ds = Gₙ₋₁, and dG₀/ds = −β G₁; d is below 2e-3 s.
    h3 = g3 + d * (g2 + d / 2 * (g1 + d / 3 * (g0 - d / 4 * beta * g1)))
    h2 = g2 + d * (g1 + d / 2 * (g0 - d / 3 * beta * (g1 + d / 4 * g0)))
    h1 = g1 + d * (g0 - d / 2 * beta * (g1 + d / 3 * (g0 - d / 4 * beta * g1)))
    h0 = 1 - beta * h2
    return s + d, h1, h2, h3, r * h0 + sigma * h1 + gm * h2


def _series(u, sigma, zeta, beta):
    """The inverse of the power series of time in s, to fifth order; u = Δt/r."""
    a, b, c, d = sigma / 2, zeta / 6, -beta * sigma / 24, -beta * zeta / 120
    a2 = a * a
    fifth = 7 * a2 * (2 * a2 - 3 * b) + 3 * b * b + 6 * a * c - d
    fourth = 5 * a * (b - a2) - c
    return u * (1 + u * (-a + u * (2 * a2 - b + u * (fourth + u * fifth))))


def _even_series(n, z):
    total = jnp.full_like(z, 1 / math.factorial(2 * _TERMS + n - 2))
    for k in reversed(range(_TERMS - 1)):
        total = 1 / math.factorial(2 * k + n) - z * total
    return total


def _any(x, v, dt, gm, r, inverse, sigma, beta, zeta):
    """The same after any step, in units of each orbit."""
    del inverse, zeta
    length, speed = orbit_units(x.T, v.T, gm)
    time = length / speed
    dt, near, slow = dt / time, r / length, sigma / (length * speed)
    pull, energy = gm / (length * speed * speed), beta / (speed * speed)
    start = anomaly_guess(dt, near, slow, pull, energy)

    # As `universal_anomaly`, but in a loop: it is seldom run and often compiled.
    def improved(_, carry):
        s, step, *_ = carry
        s = s + step
        g0, g1, g2, g3 = universal(energy, s)
        f = near * g1 + slow * g2 + pull * g3 - dt
        bend = (pull - energy * near) * g0 - energy * slow * g1
        slope = slow * g0 + (pull - energy * near) * g1
        rate = near * g0 + slow * g1 + pull * g2
        step = correction(f, rate, slope, bend, -energy * slope)
        return s, step, g0, g1, g2, g3

    zero = jnp.zeros_like(start)
    first = (start, *(zero for _ in range(5)))
    s, _, g0, g1, g2, g3 = jax.lax.fori_loop(0, ANOMALY_STEPS + 1, improved, first)
    unit = time / length
    g1, g2, g3 = unit * g1, unit**2 * g2, unit**3 * g3
    return unit * s, g1, g2, g3, r * g0 + sigma * g1 + gm * g2


def _tangent(outputs, inputs, tangents):
    s = outputs[2]
    primals = [*inputs, s]
    which = tuple(t is not None for t in tangents)
    moved = [t for t in tangents if t is not None]
    types = [jax.typeof(y) for y in outputs[:2]]
    dx, dv = linear(drift_maps(which), primals, moved, types)
    # Needed by second derivatives alone: of first ones nothing of it is left.
    return [dx, dv, shift_of_anomaly(which, primals, moved)]


def dot(a: Float[Array, "3 orbit"], b: Float[Array, "3 orbit"]) -> Array:
    """a · b, written out: a reduction would be a loop of its own."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def drift_maps(which: tuple[bool, ...]) -> LinearMapRules:
    """The derivative in those of x, v, Δt and μ that move, known by all and s."""
    forward, back = (
        HashablePartial(rule, (which,)) for rule in (_tangents, _cotangents)
    )
    return LinearMapRules.plain(forward, back)


def _tangents(which: tuple[bool, ...], primals, moving) -> list[Array]:
    orbit = _Orbit.of(primals)
    return list(_changes(orbit, _all_moves(which, moving))[:2])


def _cotangents(which: tuple[bool, ...], primals, bars) -> list[Array]:
    like = [part for part, moves in zip(primals, which, strict=False) if moves]
    turned = jax.linear_transpose(lambda *x: _tangents(which, primals, x), *like)
    return list(turned(list(bars)))


def shift_of_anomaly(which, primals: Sequence[Array], moving: Sequence[Array]) -> Array:
    """The tangent of s."""
    orbit = _Orbit.of(primals)
    return _changes(orbit, _all_moves(which, moving))[2]


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
    def of(cls, primals):
        x, v, dt, gm, s = primals
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


def _all_moves(which, moving) -> _Moves:
    some = iter(moving)
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
