"""`State`: positions and velocities, a row a body."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


class State(eqx.Module):
    """Public form of an N-body state; test particles follow the bodies.

    **Fields**

    - `positions`: shape (body, 3), or (time, body, 3) in a trajectory; length.
    - `velocities`: the same shape; length / time.
    """

    positions: Float[Array, "*time body 3"]
    velocities: Float[Array, "*time body 3"]


def checked_state(state: Any) -> State:
    """`state`; objects to anything else, a trajectory for instance."""
    if not isinstance(state, State):
        raise ValueError(
            f"state must be an nbody.State, got a {type(state).__name__}; that of a "
            "trajectory is trajectory.states"
        )
    return state
