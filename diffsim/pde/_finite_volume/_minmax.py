"""The larger and the smaller of two, whose derivatives no rounding takes away.

`jnp.maximum` derives by which of the two equals what it found. XLA may work all three
out again for the derivative, each fused with other sums and so with another rounding;
then neither equals it, and the derivative is zero. Signs of differences are safe, and
at a tie `larger` has the derivative of its first and `smaller` of its second.
"""

import jax.numpy as jnp
from jaxtyping import Array


def larger(a: Array, b: Array) -> Array:
    """max(a, b), to rounding of |a| + |b|."""
    return (a + b + jnp.abs(a - b)) / 2


def smaller(a: Array, b: Array) -> Array:
    """min(a, b), to rounding of |a| + |b|."""
    return (a + b - jnp.abs(a - b)) / 2


def above_zero(a: Array) -> Array:
    """max(a, 0)."""
    return (a + jnp.abs(a)) / 2


def below_zero(a: Array) -> Array:
    """min(a, 0)."""
    return (a - jnp.abs(a)) / 2
