"""Distances between bodies."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._forces import inverse_unit
from .._state import checked_state


def separations(state: Any) -> Float[Array, "*time body body"]:
    r"""$r_{ij} = |x_j - x_i|$, a length, shape (time, body, body) or (body, body).

    Symmetric, zero on the diagonal; bodies first, tracers after them.

    **Arguments:** `state`, of one time or many.

    **Limits:** the derivative of the distance of coincident bodies is undefined
    (mathematics); on the diagonal it is zero.
    """
    x = checked_state(state).positions
    s = inverse_unit(x)
    d = s * (x[..., None, :, :] - x[..., :, None, :])
    eye = jnp.eye(x.shape[-2], dtype=x.dtype)
    return jnp.sqrt(jnp.sum(d * d, -1) + eye) * (1 - eye) / s
