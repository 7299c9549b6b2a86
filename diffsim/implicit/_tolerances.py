"""Steps against what is asked of them."""

import jax
import jax.numpy as jnp

from .._sizes import precision


def over_tolerance(step, y, rtol: float | None, atol: float | None, *, power: float):
    """`step` over `atol` + `rtol` |y|; None is a power of the precision."""
    default = precision(y) ** power
    relative, absolute = (default if t is None else t for t in (rtol, atol))
    return jax.tree.map(lambda d, a: d / (absolute + relative * jnp.abs(a)), step, y)
