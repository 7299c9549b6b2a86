"""A unit of length in which single precision can hold the powers of distances."""

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


#: A float32 holds r³ from 2⁻⁴² to 2⁴² of the unit: 4.4e12 m is 29 au.
_RUNG = 40


def inverse_unit(x: Float[Array, "*any"], softening: Any = 0.0) -> Array | float:
    r"""1 / unit, a power of two, so that no position is far beyond 2²⁰ of the unit.

    $a(x, \mu, \epsilon) = s\, a(s x, s \mu, s \epsilon)$ for any s, and to the last bit
    for a power of two. In SI units the third power of a distance of 47 au is beyond
    what a float32 holds, and gravity was zero there; in double precision it is never.
    """
    if jnp.finfo(x.dtype).maxexp > 1000:
        return 1.0
    # The result does not depend on the unit, so neither do its derivatives.
    extent = lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(x)), softening))
    scale = jnp.ones((), x.dtype)
    for power in (_RUNG // 2, _RUNG // 2 + _RUNG):
        scale = scale * jnp.where(extent > 2.0**power, 2.0**-_RUNG, 1.0)
        small = (extent < 2.0**-power) & (extent > 0)
        scale = scale * jnp.where(small, 2.0**_RUNG, 1.0)
    return scale.astype(x.dtype)


def self_distance2(dtype: Any) -> float:
    """Return what is added to the squared distance, zero, of a body to itself.

    It keeps every derivative finite, and it must be far beyond all other distances:
    derivatives by both ends of a pair cancel to rounding only, and with a 1 that
    rounding outweighs the rest of a system of 1e11 m.
    """
    return 2.0**400 if jnp.finfo(dtype).maxexp > 1000 else 2.0**60
