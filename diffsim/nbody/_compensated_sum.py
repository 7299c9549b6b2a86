"""Compensated sums, which carry what rounding takes from one step to the next."""

import jax
from jaxtyping import Array


def add_compensated(high: Array, low: Array, change: Array) -> tuple[Array, Array]:
    r"""$\mathrm{high} + \mathrm{low} + \mathrm{change}$, rounded, and the rest.

    Knuth's two-sum, exact whichever of the numbers is larger,

    $$s = a \oplus b, \quad p = s \ominus a, \quad
      r = (a \ominus (s \ominus p)) \oplus (b \ominus p), \qquad s + r = a + b$$

    A run of n steps that carries `low` along ends within a few roundings of the exact
    sum, where plain sums are off by $\sqrt n$ of them at best and by n where they are
    all rounded the same way.

    **Arguments**

    - `high`, `low`: the sum so far, and what was rounded from it, zero to begin with.
    - `change`: what is added, of the same shape and dtype.

    **Returns**

    The new `high` and `low`.

    **Limits:** the rest is rounding, which has no derivative: that of the sum is in its
    value, and that of `low` is zero. Compilers that take floating-point sums for
    associative make it zero; XLA does not, unless its flag for fast arithmetic is set.

    References: 10.1007/BF01397083, and Knuth, *The Art of Computer Programming* II,
    4.2.2.
    """
    change = change + low
    total = high + change
    # Held, as what follows has the exact derivative zero, and computed a rounding's.
    high, change, rounded = jax.lax.stop_gradient((high, change, total))
    part = rounded - high
    return total, (high - (rounded - part)) + (change - part)
