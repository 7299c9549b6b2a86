"""Sums that keep what is rounded away."""

import jax
from jaxtyping import Array


def add_compensated(high: Array, low: Array, change: Array) -> tuple[Array, Array]:
    """`high + low + change`, as its rounded value and the rest (Knuth's two-sum).

    The rest is rounding, which has no derivative: that of the sum is in its value.
    """
    change = change + low
    total = high + change
    high, change, rounded = jax.lax.stop_gradient((high, change, total))
    part = rounded - high
    return total, (high - (rounded - part)) + (change - part)
