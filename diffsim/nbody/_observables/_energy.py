"""Newtonian energy of the bodies."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._forces import inverse_unit
from ._arguments import checked_arguments


def energy(simulation: Any, state: Any) -> Float[Array, "*time"]:
    r"""Kinetic energy and the mutual potential energy of `Gravity`.

    $$E = \tfrac12 \sum_i m_i v_i^2
        - \sum_{i<j} \frac{G m_i m_j}{\sqrt{r_{ij}^2 + \epsilon^2}}$$

    **Arguments**

    - `simulation`: gives masses, G and softening.
    - `state`: one state, or states with a leading time axis.

    **Returns:** mass length² / time², shape (time,) or ().

    **Limits:** conserved under `Gravity` alone; the potentials of other forces are not
    in it (convenience). All pairs are formed at once, O(time × body²) memory
    (convenience).
    """
    state = checked_arguments("energy", simulation, state)
    masses = simulation.bodies.masses
    n = masses.size
    x, v = state.positions[..., :n, :], state.velocities[..., :n, :]
    kinetic = 0.5 * jnp.sum(masses * jnp.sum(v * v, -1), -1)
    gravity = simulation.gravity
    if gravity is None:
        return kinetic
    d = x[..., None, :, :] - x[..., :, None, :]
    s = inverse_unit(x, gravity.softening)
    # eye keeps the diagonal finite in every derivative; it is taken out of the sum
    eye = jnp.eye(n, dtype=x.dtype)
    r = jnp.sqrt(jnp.sum(jnp.square(s * d), -1) + (s * gravity.softening) ** 2 + eye)
    # G m before the second mass: their product is beyond float32 in SI units
    potentials = s * jnp.sum((1 - eye) * (gravity.G * masses) / r, -1)
    return kinetic - 0.5 * jnp.sum(potentials * masses, -1)
