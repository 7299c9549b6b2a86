"""Total momentum."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._arguments import checked_arguments


def momentum(simulation: Any, state: Any) -> Float[Array, "*time 3"]:
    r"""$P = \sum_i m_i v_i$, mass length / time, shape (time, 3) or (3,).

    **Arguments**

    - `simulation`: gives the masses.
    - `state`: one state, or states with a leading time axis; tracers weigh nothing.
    """
    state = checked_arguments("momentum", simulation, state)
    masses = simulation.bodies.masses
    return jnp.sum(masses[:, None] * state.velocities[..., : masses.size, :], -2)
