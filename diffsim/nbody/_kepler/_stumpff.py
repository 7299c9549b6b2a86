r"""Stumpff's functions, in which all conics are one.

$$c_n(z) = \sum_{k \ge 0} \frac{(-z)^k}{(2k + n)!}, \qquad
  c_n = \frac1{n!} - z\,c_{n+2}, \qquad
  \frac{dc_n}{dz} = \frac{n\,c_{n+2} - c_{n+1}}2$$

For z = y² they are trigonometric: $c_0 = \cos y$, $c_1 = \sin y / y$; for z = −y²
hyperbolic; at z = 0 nothing happens.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array


#: The series serves below it; (π/2)² lies inside.
_REACH = 2.5
#: Terms of the series. The first left out is below 2e-17 of the sum within `_REACH`.
_TERMS = 10


def series(n: int, z: Array) -> Array:
    """$c_n(z)$ for |z| up to 2.5, to machine precision, and relative to its value."""
    total = jnp.full_like(z, 1 / math.factorial(2 * _TERMS + n - 2))
    for k in reversed(range(_TERMS - 1)):
        total = 1 / math.factorial(2 * k + n) - z * total
    return total


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def stumpff(last: int, z: Array) -> list[Array]:
    """$c_0, \\ldots, c_n$ at any z, n = `last` ≥ 3, with derivatives of any order.

    A rule by `custom_jvp` may be ignored inside a scan, and the code differentiated in
    its place; these are closed forms and their code is right as well, but longer.
    """
    near = jnp.abs(z) < _REACH
    # Each form sees only arguments of its own: a NaN of the form that is not taken
    # would reach the derivative of the one that is.
    nearby = _downwards(last, jnp.where(near, z, 0.0))
    beyond = _upwards(last, jnp.where(near, 2 * _REACH, z))
    return [jnp.where(near, a, b) for a, b in zip(nearby, beyond, strict=True)]


@stumpff.defjvp
def _tangent(last, primals, tangents):
    (z,), (dz,) = primals, tangents
    c = stumpff(last + 2, z)
    slopes = [(n * c[n + 2] - c[n + 1]) / 2 for n in range(last + 1)]
    return c[: last + 1], [slope * dz for slope in slopes]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def stumpff_at_once(last: int, z: Array) -> list[Array]:
    """The same, by one form for all z: none of the other one for short arcs."""
    near = functools.partial(_downwards, last)
    far = functools.partial(stumpff, last)
    return jax.lax.cond(jnp.all(jnp.abs(z) < _REACH), near, far, z)


@stumpff_at_once.defjvp
def _tangent_at_once(last, primals, tangents):
    (z,), (dz,) = primals, tangents
    c = stumpff_at_once(last + 2, z)
    slopes = [(n * c[n + 2] - c[n + 1]) / 2 for n in range(last + 1)]
    return c[: last + 1], [slope * dz for slope in slopes]


def universal(beta: Array, s: Array) -> tuple[Array, Array, Array, Array]:
    r"""$G_n = s^n c_n(\beta s^2)$, n = 0 ... 3: each is the derivative of the next."""
    c0, c1, c2, c3 = stumpff(3, beta * s * s)
    return c0, s * c1, s * s * c2, s * s * s * c3


def _downwards(last, z):
    values = [series(last, z), series(last - 1, z)]
    for n in reversed(range(last - 1)):
        values.append(1 / math.factorial(n) - z * values[-2])
    return values[::-1]


def _upwards(last, z):
    """By half angles: 1 − c₀ and c₁ then lose no digits, and 1 − c₁ less than one."""
    periodic = z > 0
    size = jnp.abs(z)
    y = jnp.sqrt(size)
    angle = jnp.where(periodic, y / 2, 0.0)
    growth = jnp.exp(jnp.where(periodic, 0.0, y / 2))
    sine = jnp.where(periodic, jnp.sin(angle), (growth - 1 / growth) / 2)
    cosine = jnp.where(periodic, jnp.cos(angle), (growth + 1 / growth) / 2)
    c2 = 2 * sine * sine / size
    values = [1 - z * c2, 2 * sine * cosine / y, c2]
    for n in range(1, last - 1):
        values.append((1 / math.factorial(n) - values[n]) / z)
    return values
