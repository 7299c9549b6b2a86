"""`State`: positions and velocities, a row a body."""

import equinox as eqx
from jaxtyping import Array, Float


class State(eqx.Module):
    """Public form of an N-body state; tracers follow the bodies.

    **Fields**

    - `positions`: shape (body, 3), or (time, body, 3) in a trajectory; length.
    - `velocities`: the same shape; length / time.
    """

    positions: Float[Array, "*time body 3"]
    velocities: Float[Array, "*time body 3"]
