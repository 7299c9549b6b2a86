"""First guesses for Kepler's equation, and the step that corrects them."""

import math

import jax.numpy as jnp
from jaxtyping import Array


def elliptic_starter(t: Array, q: Array, e: Array, beta: Array | float) -> Array:
    r"""Markley's guess at the s of $t = q s + e\,G_3(\beta, s)$, $\beta \ge 0$.

    He replaces the sine by a Padé form that is exact to order 3 at pericenter and right
    at apocenter, and solves the cubic that is left. Written in s and not in
    $E = \sqrt\beta s$ it holds for parabolas as well; within 1e-3 everywhere, and the
    better the closer to pericenter, where that is needed.

    **Arguments:** `t`, time since pericenter over GM, at most half a period; `q`,
    distance of the pericenter over GM; `e`, eccentricity; `beta` = GM/a over GM. With
    `beta` = 1 they are M and 1 − e.

    Markley 1995, 10.1007/BF00691917.
    """
    m = jnp.abs(t) * beta * jnp.sqrt(beta)
    pade = 3 * math.pi**2 + 1.6 * math.pi * (math.pi - m) / (1 + e)
    alpha = pade / (math.pi**2 - 6)
    gap = beta * q  # 1 − e, without its cancellation
    d = 3 * gap + alpha * e
    ascent = beta * t
    linear = 2 * alpha * d * q - ascent * ascent
    constant = (3 * alpha * d * (d - gap) + beta * ascent * ascent) * t
    return (real_root(linear, constant) + ascent) / d


def real_root(p: Array, r: Array) -> Array:
    """The real y of y³ + 3 p y = 2 r, to six digits.

    A guess needs no more, and the logarithm and the exponential of single precision
    are many times as fast as those of double.
    """
    power = jnp.abs(r) + jnp.sqrt(jnp.maximum(p * p * p + r * r, 0.0))
    power = jnp.clip(power, 1e-37, 1e37).astype(jnp.float32)
    w = jnp.exp(jnp.log(power) * (2 / 3)).astype(r.dtype)
    return 2 * r * w / (w * w + w * p + p * p)


def correction(f: Array, f1: Array, f2: Array, f3: Array, f4: Array) -> Array:
    """The step of fifth order from x towards f = 0, from f and its derivatives at x.

    Newton's step is put into the quadratic term of the Taylor series of f, the result
    into the cubic one, and so on (Danby & Burkardt 1983, 10.1007/BF01686811).
    """
    step = -f / f1
    step = -f / (f1 + step * f2 / 2)
    step = -f / (f1 + step * (f2 / 2 + step * f3 / 6))
    return -f / (f1 + step * (f2 / 2 + step * (f3 / 6 + step * f4 / 24)))
