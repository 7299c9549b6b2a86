"""Units in which the numbers of an orbit are about 1."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._forces import inverse_unit
from ._vectors import dot


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
