"""Matrix products in full precision."""

import jax
import jax.numpy as jnp
from jaxtyping import Array


def matmul(a: Array, b: Array) -> Array:
    """`a @ b` to the precision of its arguments.

    On a GPU JAX rounds what `@` is given in float32 to TF32, which has three digits.
    """
    return jnp.matmul(a, b, precision="highest")


def real_times(factor: Array, z: Array) -> Array:
    """`factor * z`; without products with zero where only z is complex."""
    if jnp.iscomplexobj(z) and not jnp.iscomplexobj(factor):
        return jax.lax.complex(factor * z.real, factor * z.imag)
    return factor * z
