"""Vectors in the last axis, and angles."""

import math

import jax.numpy as jnp
from jaxtyping import Array


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
