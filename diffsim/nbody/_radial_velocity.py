"""`radial_velocity`, along the line of sight."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Numbers
from ._line_of_sight import OBSERVER, body_number, toward_observer
from ._observables import checked_arguments


def radial_velocity(
    simulation: Any, state: Any, body: int | str = 0, *, observer: Numbers = OBSERVER
) -> Float[Array, "*time"]:
    r"""Velocity of a body along the line of sight, positive away from the observer.

    $$v_r = -\,v \cdot \hat n,$$

    $\hat n$ the direction to the observer. Of a star with one planet it is
    $K\,[\cos(f + \omega_\star) + e \cos\omega_\star]$ with the star's
    $\omega_\star = \omega + \pi$ and $K = n a \sin i\; m / [(M + m)\sqrt{1 - e^2}]$.

    ```python
    G = nbody.G["au, Msun, day"]
    orbit = nbody.Elements(semi_major_axis=[0.05], inclination=[np.pi / 2])
    bodies = nbody.Bodies.from_elements([1.0, 1e-3], orbit, G=G, names=["star", "b"])
    system = nbody.NBody(bodies, nbody.Gravity(G))
    states = ds.simulate(system, jnp.linspace(0.0, 10.0, 50)).states
    nbody.radial_velocity(system, states, "star") * 1731456.837  # m/s of au/day
    ```

    **Arguments**

    - `simulation`: says which body has which name.
    - `state`: one state, or states with leading axes, `trajectory.states`.
    - `body`: its name or number; the first is the star.
    - `observer`: direction from the system to the observer, of any length. By default
        far down the z axis, so that it is v_z, and orbits of inclination π/2 are seen
        edge-on, as by radvel.

    **Returns:** length / time in the units of the system, of shape (time,) or ().

    **Raises:** `ValueError` for a body that is not there and an observer at (0, 0, 0).

    **Limits:** of the frame of the system: a moving barycenter adds its own. Neither
    light travel time nor relativistic shifts are in it (convenience).
    """
    state = checked_arguments("radial_velocity", simulation, state)
    number = body_number(simulation, body, "body")
    v = jnp.asarray(state.velocities)[..., number, :]
    return -jnp.sum(v * toward_observer(observer, v.dtype), axis=-1)
