"""Vectors in the last axis, angles, and units of an orbit."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._forces import inverse_unit


def dot(a: Array, b: Array) -> Array:
    """a · b, shape (...)."""
    return jnp.sum(a * b, -1)


def linear_combination(a: Array, x: Array, b: Array, y: Array) -> Array:
    """a x + b y, of numbers (...) and vectors (..., 3)."""
    return a[..., None] * x + b[..., None] * y


def stack_components(*components: Array) -> Array:
    """A vector of its components."""
    return jnp.stack(jnp.broadcast_arrays(*components), -1)


def unstacked(vector: Array) -> tuple[Array, Array, Array]:
    """The components of a vector."""
    return vector[..., 0], vector[..., 1], vector[..., 2]


def wrap_angle(angle: Array) -> Array:
    """The same direction from −π to π."""
    return angle - 2 * math.pi * jnp.round(angle / (2 * math.pi))


def orbit_units(x: Array, v: Array, gm: Array) -> tuple[Array, Array]:
    """A length and a speed of the orbit, as powers of two: to scale by them is exact.

    Nothing depends on them but rounding and overflow, so they have no derivative.
    """
    s = inverse_unit(x)
    r = jnp.sqrt(dot(s * x, s * x)) / s
    speed = jnp.sqrt(dot(v, v) + gm / r)
    # The result does not depend on units, so neither do its derivatives.
    length, speed = (
        jnp.ldexp(jnp.ones_like(a), jnp.frexp(a)[1])
        for a in jax.lax.stop_gradient((r, speed))
    )
    return length, speed


def planar_length(x: Array, y: Array) -> Array:
    """√(x² + y²), whose derivative at 0 is taken as zero."""
    square = x * x + y * y
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1.0)), 0.0)


def planar_angle(x: Array, y: Array) -> Array:
    """The angle of (x, y), zero with all its derivatives where there is none."""
    some = (x != 0) | (y != 0)
    return jnp.arctan2(jnp.where(some, y, 0.0), jnp.where(some, x, 1.0))
