r"""Kepler's equation for all conics at once, in the universal anomaly s, ds = dt/r."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._materialize import compute_once
from ..._jaxpr._primitives import custom_derivative
from ._starters import correction, elliptic_starter, real_root
from ._stumpff import universal


#: Steps of fifth order. The guess is within 3e-4 on ellipses and 2 % on hyperbolas, so
#: two leave up to five roundings of the equation, and three one.
ANOMALY_STEPS = 3


def universal_anomaly(
    dt: Array, r: Array, sigma: Array, gm: Array, beta: Array
) -> Array:
    r"""The s of $\Delta t = r\,G_1 + \sigma G_2 + \mu G_3$, $G_n = s^n c_n(\beta s^2)$.

    Differentiated as an equation, $ds = -(\partial F/\partial\theta)\,d\theta / r(s)$.

    **Arguments:** r, σ = x·v and β = 2μ/r − v² of the state that is left behind, μ =
    GM; |`dt`| at most half a period. All of one shape, and in units in which they are
    about 1, where nothing overflows.
    """
    return custom_derivative(_solve, _tangent, dt, r, sigma, gm, beta)[0]


def _solve(dt, r, sigma, gm, beta):
    s = anomaly_guess(dt, r, sigma, gm, beta)
    zeta = gm - beta * r
    for _ in range(ANOMALY_STEPS):
        g0, g1, g2, g3 = universal(beta, s)
        f = r * g1 + sigma * g2 + gm * g3 - dt
        radius = r * g0 + sigma * g1 + gm * g2
        slope = sigma * g0 + zeta * g1
        bend = zeta * g0 - beta * sigma * g1
        s = s + correction(f, radius, slope, bend, -beta * slope)
    return [compute_once(s)]


def _tangent(outputs, inputs, tangents):
    (s,), (_, r, sigma, gm, beta) = outputs, inputs
    moving = [i for i, t in enumerate(tangents) if t is not None]

    def equation(*some):
        values = list(inputs)
        for i, value in zip(moving, some, strict=True):
            values[i] = value
        dt, r, sigma, gm, beta = values
        _, g1, g2, g3 = universal(beta, s)
        return r * g1 + sigma * g2 + gm * g3 - dt

    point = [inputs[i] for i in moving]
    _, forcing = jax.jvp(equation, point, [tangents[i] for i in moving])
    g0, g1, g2, _ = universal(beta, s)
    return [-forcing / (r * g0 + sigma * g1 + gm * g2)]


def anomaly_guess(dt, r, sigma, gm, beta):
    """From the last pericenter to the present and on to the end, in s."""
    eps = float(jnp.finfo(dt.dtype).eps)
    h2 = jnp.maximum(r * (2 * gm - beta * r) - sigma * sigma, 0.0)
    zeta = gm - beta * r
    # μe from a sum of positive terms, whatever the conic
    pull2 = jnp.where(beta > 0, zeta**2 + beta * sigma**2, gm**2 - beta * h2)
    pull = jnp.maximum(jnp.sqrt(pull2), eps**2)
    q = h2 / (gm + pull)
    # So nearly parabolic an orbit is a parabola to the guess.
    closed, opened = beta > eps, beta < -eps
    rate = jnp.sqrt(jnp.where(closed | opened, jnp.abs(beta), 1.0))
    here = jnp.where(
        closed,
        jnp.arctan2(rate * sigma, zeta) / rate,
        jnp.where(opened, jnp.arcsinh(rate * sigma / pull) / rate, sigma / pull),
    )
    t = q * here + pull * universal(beta, here)[3] + dt
    ellipse = _closed_guess(t, q, pull, jnp.where(closed, gm, 1.0), rate)
    other = _open_guess(t, q, pull, gm, jnp.where(opened, rate, 0.0))
    return jnp.where(closed, ellipse, other) - here


def _closed_guess(t, q, pull, gm, rate):
    period = 2 * math.pi * gm / rate**3
    turns = jnp.round(t / period)
    rest = (t - turns * period) / gm
    guess = elliptic_starter(rest, q / gm, pull / gm, rate * rate)
    return guess + turns * (2 * math.pi / rate)


def _open_guess(t, q, pull, gm, rate):
    """The cubic of small s; far out a step of H ← arsinh((N + μH)/μe) from it.

    The cubic is above the root and the step keeps it there: the worst guess is 2 % off.
    """
    s = real_root(2 * q / pull, 3 * t / pull)
    growth = rate * s
    safe = jnp.where(rate > 0, rate, 1.0)
    far = jnp.arcsinh((rate**3 * t + gm * growth) / pull) / safe
    return jnp.where(jnp.abs(growth) > 1, far, s)
