"""Limiters, and maximum and minimum with derivatives that rounding keeps."""

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.lax import integer_pow
from jaxtyping import Array


def van_albada(before: Array, after: Array, rounding: Array) -> Array:
    r"""Van Albada's limiter: $(a + b)(ab + \varepsilon)/(a^2 + b^2 + 2\varepsilon)$.

    ```python
    pde.van_albada(1.0, 3.0, 1e-16)  # 1.2, between the smaller one and the mean
    pde.MUSCL(pde.van_albada)  # the default
    ```

    The mean where a and b are alike and where both are rounding, little where they are
    not; van Albada, van Leer and Roberts (1982). `before` is a, `after` is b and
    `rounding` is ε.
    """
    return _van_albada(before, after, rounding)


@jax.custom_jvp
def _van_albada(before: Array, after: Array, rounding: Array) -> Array:
    squares = before**2 + after**2
    share = (before * after + rounding) / (squares + 2 * rounding)
    return (before + after) * share


def _van_albada_tangent(point, tangents):
    """Derivative by coefficients, where JAX would keep every step of the arithmetic."""
    before, after, rounding = point
    inverse = 1 / (before**2 + after**2 + 2 * rounding)
    total, product = before + after, (before * after + rounding) * inverse
    slope, share = total * product, total * inverse
    factors = (
        product + after * share - 2 * slope * inverse * before,
        product + before * share - 2 * slope * inverse * after,
        share - 2 * slope * inverse,
    )
    parts = [
        factor * tangent
        for factor, tangent in zip(factors, tangents, strict=True)
        if not isinstance(tangent, SymbolicZero)
    ]
    return slope, sum(parts[1:], start=parts[0])


_van_albada.defjvp(_van_albada_tangent, symbolic_zeros=True)


def van_leer(before: Array, after: Array, rounding: Array) -> Array:
    r"""Van Leer's limiter, sharper: $2ab/(a + b)$ where a and b have one sign, else 0.

    ```python
    pde.van_leer(1.0, 3.0, 1e-16)  # 1.5; of 1 and −3 it is 0
    law = pde.AdvectionDiffusion(None, 1.0, scheme=pde.MUSCL(pde.van_leer))
    ```

    `before` is a, `after` is b and `rounding` is ε, which keeps their sum from zero.
    """
    product, total = above_zero(before * after), before + after
    return 2 * product * total * integer_pow(total**2 + rounding, -1)


def minmod(before: Array, after: Array, rounding: Array) -> Array:
    """Minmod limiter: the smaller of a and b where they have one sign, else 0.

    ```python
    pde.minmod(1.0, 3.0, 0.0)  # 1
    law = pde.AdvectionDiffusion(None, 1.0, scheme=pde.MUSCL(pde.minmod))
    ```

    It has kinks where a = b too, on every straight line. `before` is a, `after` is b,
    and `rounding` is not needed.
    """
    del rounding
    smaller = jnp.where(jnp.abs(before) < jnp.abs(after), before, after)
    return jnp.where(before * after > 0, smaller, 0)


# `jnp.maximum` derives by which of the two equals what it found. XLA may work all three
# out again for the derivative, each fused with other sums and so with another rounding;
# then neither equals it, and the derivative is zero. Signs of differences are safe, and
# at a tie `larger` has the derivative of its first and `smaller` of its second.
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
