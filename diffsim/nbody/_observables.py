"""Energy, momentum, angular momentum and mutual distances of an N-body state."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validation import instance
from ._bodies import State
from ._forces import inverse_unit
from ._nbody import NBody


def energy(simulation: Any, state: Any) -> Float[Array, "*time"]:
    r"""Kinetic energy and the mutual potential energy of `Gravity`.

    $$E = \tfrac12 \sum_i m_i v_i^2
        - \sum_{i<j} \frac{G m_i m_j}{\sqrt{r_{ij}^2 + \epsilon^2}}$$

    ```python
    system = problems.figure_eight()
    trajectory = ds.simulate(system, jnp.linspace(0.0, 10.0, 50))
    energy = nbody.energy(system, trajectory.states)
    jnp.max(jnp.abs(energy / energy[0] - 1))  # what the integrator loses
    ```

    **Arguments**

    - `simulation`: gives masses, G and softening.
    - `state`: one state, or states with a leading time axis.

    **Returns:** mass length² / time², shape (time,) or ().

    **Limits:** conserved under `Gravity` alone; the potentials of other forces are not
    in it (convenience). All pairs are formed at once, O(time × body²) memory
    (convenience).
    """
    state = checked_arguments(simulation, state)
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


def momentum(simulation: Any, state: Any) -> Float[Array, "*time 3"]:
    r"""$P = \sum_i m_i v_i$, mass length / time, shape (time, 3) or (3,).

    ```python
    system = problems.figure_eight()
    state = ds.simulate(system, 10.0).states
    nbody.momentum(system, state)  # zero, as at the start
    ```

    **Arguments**

    - `simulation`: gives the masses.
    - `state`: one state, or states with a leading time axis; test particles weigh
        nothing.
    """
    state = checked_arguments(simulation, state)
    masses = simulation.bodies.masses
    return jnp.sum(masses[:, None] * state.velocities[..., : masses.size, :], -2)


def angular_momentum(simulation: Any, state: Any) -> Float[Array, "*time 3"]:
    r"""$L = \sum_i m_i\, x_i \times v_i$ about the origin, mass length² / time.

    ```python
    system = problems.pythagorean()
    trajectory = ds.simulate(system, [0.0, 5.0, 10.0])
    nbody.angular_momentum(system, trajectory.states)  # zero, but for rounding
    ```

    **Arguments**

    - `simulation`: gives the masses.
    - `state`: one state, or states with a leading time axis; test particles weigh
        nothing.

    **Returns:** shape (time, 3) or (3,).
    """
    state = checked_arguments(simulation, state)
    masses = simulation.bodies.masses
    x = state.positions[..., : masses.size, :]
    v = state.velocities[..., : masses.size, :]
    return jnp.sum(masses[:, None] * jnp.cross(x, v), -2)


def distances(state: Any) -> Float[Array, "*time body body"]:
    r"""$r_{ij} = |x_j - x_i|$, a length, shape (time, body, body) or (body, body).

    ```python
    trajectory = ds.simulate(problems.pythagorean(), jnp.linspace(0.0, 10.0, 200))
    apart = nbody.distances(trajectory.states) + jnp.diag(jnp.full(3, jnp.inf))
    jnp.min(apart)  # the closest approach, at these times
    ```

    Symmetric, zero on the diagonal; bodies first, test particles after them.

    **Arguments:** `state`, of one time or many.

    **Limits:** the derivative of the distance of coincident bodies is undefined
    (mathematics); on the diagonal it is zero.
    """
    x = instance("state", state, State, "trajectory.states").positions
    s = inverse_unit(x)
    d = s * (x[..., None, :, :] - x[..., :, None, :])
    eye = jnp.eye(x.shape[-2], dtype=x.dtype)
    return jnp.sqrt(jnp.sum(d * d, -1) + eye) * (1 - eye) / s


def checked_arguments(simulation: Any, state: Any) -> State:
    """`state`, which has rows for the bodies of the system."""
    instance("simulation", simulation, NBody, "nbody.NBody(bodies), before the states")
    instance("state", state, State, "trajectory.states")
    massive, test_particles = simulation.bodies.masses.size, simulation.test_particles
    light = 0 if test_particles is None else len(test_particles.positions)
    # States of the bodies alone will do, too.
    if jnp.shape(state.positions)[-2:-1] not in ((massive,), (massive + light,)):
        raise ValueError(
            f"state must have rows of the {massive} bodies and {light} test particles "
            f"of the system, got positions of shape {jnp.shape(state.positions)}; take "
            "the states of a run of this system"
        )
    return state
