"""Products of matrices and vectors."""

import jax.numpy as jnp
from jaxtyping import Array


def product(a: Array, b: Array) -> Array:
    """`a @ b` to the precision of its arguments.

    On a GPU JAX rounds what `@` is given in float32 to TF32, which has three digits.
    """
    return jnp.matmul(a, b, precision="highest")
