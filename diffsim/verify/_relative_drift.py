"""`relative_drift`: how far a conserved quantity moves along a trajectory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from ..simulations import Trajectory


def relative_drift(
    quantity: Callable[[Any], Inexact[Array, "..."]], trajectory: Trajectory
) -> Float[Array, " time"]:
    r"""Relative change of a conserved quantity since the first output.

    $$\delta_k = \frac{|Q(y_k) - Q(y_0)|}{\max_j |Q(y_j)|}$$

    ```python
    system, times = problems.figure_eight(), jnp.linspace(0.0, 60.0, 100)
    method = ds.Method(integrators.Leapfrog(), step=0.02)
    trajectory = ds.simulate(system, times, method)

    def energy(state):
        return nbody.energy(system, state)

    verify.relative_drift(energy, trajectory).max()  # 2e-5, and no more of it later
    ```

    **Arguments**

    - `quantity`: $Q$ of one state, a number or a vector:
        `lambda state: nbody.energy(simulation, state)`.
    - `trajectory`: what `simulate` returned for times of shape (time,).

    **Returns:** the change at every output; zeros if $Q$ is zero throughout.

    **Good values:** rounding for what a method conserves exactly; bounded, and falling
    with the order of the method, for the energy of a symplectic one.

    **Raises:** `ValueError` if the trajectory has no time axis.
    """
    if trajectory.times.ndim == 0:
        raise ValueError(
            "trajectory must have a time axis, got a single time; run simulate at the "
            "epoch and later"
        )
    values = jax.vmap(quantity)(trajectory.states)
    values = values.reshape(values.shape[0], -1)
    change = jnp.linalg.norm(values - values[0], axis=1)
    size = jnp.max(jnp.linalg.norm(values, axis=1))
    return change / jnp.where(size > 0, size, 1)
