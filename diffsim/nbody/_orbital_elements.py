"""Orbital elements of the bodies of a system, at one time or along a trajectory.

`Elements.from_state` has those of one body relative to another.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._validation import instance, is_traced
from ._bodies import State
from ._bodies_arguments import body_index
from ._bodies_from_elements import coordinates_of_orbits
from ._kepler import Elements, NonsingularElements
from ._nbody import NBody
from ._observables import checked_arguments


def elements(
    system: NBody,
    states: State | None = None,
    *,
    coordinates: str | None = None,
    primary: str | int | None = None,
    body: str | int | None = None,
) -> Elements:
    """Osculating elements of the bodies of a system, at one time or many.

    ```python
    system = problems.outer_solar_system()
    states = ds.simulate(system, jnp.linspace(0.0, 4000.0, 9)).states
    orbits = nbody.elements(system, states)  # heliocentric, shape (9, 4)
    orbits.eccentricity, orbits.period(), orbits.mean_longitude
    nbody.elements(system, states, body="Saturn", coordinates="jacobi")  # shape (9,)

    x, v = (a[:, 1] - a[:, 0] for a in (states.positions, states.velocities))
    gm = system.gravity.G * system.bodies.masses[:2].sum()
    nbody.Elements.from_state(x, v, gm).eccentricity  # Jupiter's, by hand
    ```

    **Arguments**

    - `system`, `states`: of one time or many; without states that of its epoch.
    - `coordinates`: "heliocentric", the default, relative to the first body,
        GM = G (m₀ + mᵢ); "jacobi", relative to the barycenter of all bodies before,
        GM = G (m₀ + ... + mᵢ); "barycentric", relative to that of all, GM = G Σm. As
        `Bodies.from_elements` takes them.
    - `primary`: in their place the body, by name or index, that the others orbit.
    - `body`: the one body, by name or index, whose orbit is asked for.

    **Returns:** `Elements` of shape (time, orbit), an orbit for each body and test
    particle but the first or `primary`, in their order, with `gm`. Angles as
    `Elements.from_state` returns them.

    **Raises:** `ValueError` for two bodies in one place, and bodies and coordinates
    that are not there.

    **Limits:** as `Elements`; a fall through the center has no plane (mathematics).
    """
    x, v, gm = _relative_orbits(system, states, coordinates, primary, body)
    return Elements(**{**vars(Elements.from_state(x, v, gm)), "gm": gm})


def nonsingular_elements(
    system: NBody,
    states: State | None = None,
    *,
    coordinates: str | None = None,
    primary: str | int | None = None,
    body: str | int | None = None,
) -> NonsingularElements:
    """Ellipses of the bodies of a system, at one time or many, regular at circles.

    ```python
    system = problems.kepler(eccentricity=0.0)
    state = ds.simulate(system, 5.0).states
    orbit = nbody.nonsingular_elements(system, state, body=1)
    jnp.hypot(orbit.h, orbit.k), orbit.mean_longitude  # e = 0, and λ has a meaning

    x, v = (a[1] - a[0] for a in (state.positions, state.velocities))
    nbody.NonsingularElements.from_state(x, v, gm=1.0)
    ```

    **Arguments:** `system`, `states`, `coordinates`, `primary` and `body`, as those of
    `elements`.

    **Returns:** `NonsingularElements` of shape (time, orbit), λ from −π to π.

    **Limits:** as `NonsingularElements`.
    """
    x, v, gm = _relative_orbits(system, states, coordinates, primary, body)
    return NonsingularElements.from_state(x, v, gm)


def _relative_orbits(
    system: Any, states: Any, coordinates: Any, primary: Any, body: Any
) -> tuple[Array, Array, Array]:
    """Positions and velocities of orbits, shape (..., orbit, 3), and their G m."""
    example = "nbody.NBody(bodies); of x, v and gm take nbody.Elements.from_state"
    instance("system", system, NBody, example)
    if system.gravity is None:
        raise ValueError(
            "system has no Gravity, whose G its orbits need; take Elements.from_state"
        )
    if coordinates is not None and primary is not None:
        raise ValueError(
            f"primary={primary!r} contradicts coordinates={coordinates!r}; give one"
        )
    coordinates = coordinates_of_orbits(coordinates)
    state = system.observe(None, system.initial_state()) if states is None else states
    state = checked_arguments(system, state)
    names = system.body_names or system.bodies.names
    count = jnp.shape(state.positions)[-2]
    masses = jnp.pad(system.bodies.masses, (0, count - system.bodies.masses.size))
    center = 0 if primary is None else body_index("primary", primary, names, count)
    if not is_traced(masses) and masses.size and float(masses[center]) == 0:
        raise ValueError(
            f"body {center} has no mass for others to orbit; primary= names another"
        )
    rows = [row for row in range(count) if row != center]
    if body is not None:
        rows = [body_index("body", body, names, count)]
    parts = state.positions, state.velocities
    x, v, attracting = _about(parts, masses, center, coordinates)
    index = np.asarray(rows, int)
    x, v, gm = x[..., index, :], v[..., index, :], system.gravity.G * attracting[index]
    gm = jnp.broadcast_to(gm, x.shape[:-1])
    return (x, v, gm) if body is None else (x[..., 0, :], v[..., 0, :], gm[..., 0])


def _about(parts, masses, center: int, coordinates: str):
    """Positions and velocities of all relative to what they orbit, and its mass."""
    if coordinates == "jacobi":
        inner = jnp.cumsum(masses)
        # The mean of nothing is not asked for: the first has no orbit.
        before = jnp.concatenate([inner[:1], inner[:-1]])
        weighted = (jnp.cumsum(masses[:, None] * a, -2) for a in parts)
        means = [jnp.roll(w, 1, -2) / before[:, None] for w in weighted]
        x, v = (a - mean for a, mean in zip(parts, means, strict=True))
        return x, v, inner
    if coordinates == "barycentric":
        total = jnp.sum(masses)
        means = (jnp.sum(masses[:, None] * a, -2, keepdims=True) for a in parts)
        x, v = (a - mean / total for a, mean in zip(parts, means, strict=True))
        return x, v, jnp.broadcast_to(total, masses.shape)
    x, v = (a - a[..., center : center + 1, :] for a in parts)
    return x, v, masses[center] + masses
