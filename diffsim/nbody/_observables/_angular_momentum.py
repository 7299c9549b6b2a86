"""Total angular momentum."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._arguments import checked_arguments


def angular_momentum(simulation: Any, state: Any) -> Float[Array, "*time 3"]:
    r"""$L = \sum_i m_i\, x_i \times v_i$ about the origin, mass length² / time.

    **Arguments**

    - `simulation`: gives the masses.
    - `state`: one state, or states with a leading time axis; tracers weigh nothing.

    **Returns:** shape (time, 3) or (3,).
    """
    state = checked_arguments("angular_momentum", simulation, state)
    masses = simulation.bodies.masses
    x = state.positions[..., : masses.size, :]
    v = state.velocities[..., : masses.size, :]
    return jnp.sum(masses[:, None] * jnp.cross(x, v), -2)
