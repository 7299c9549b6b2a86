"""Orbital elements of a state, of a system, and of a trajectory in time."""

from typing import Any, NamedTuple, overload

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._results import should_return_nan
from .._types import Numbers
from .._validation import is_traced
from . import _kepler
from ._bodies import State
from ._bodies_from_elements import body_index, check_coordinates
from ._kepler import Elements, NonsingularElements
from ._nbody import NBody
from ._observables import checked_arguments


@overload
def elements(x: Numbers, v: Numbers, gm: Numbers) -> Elements: ...


@overload
def elements(
    x: NBody,
    v: State | None = None,
    gm: None = None,
    *,
    coordinates: str | None = None,
    primary: str | int | None = None,
    body: str | int | None = None,
) -> Elements: ...


def elements(
    x: Any,
    v: Any = None,
    gm: Any = None,
    *,
    coordinates: str | None = None,
    primary: str | int | None = None,
    body: str | int | None = None,
) -> Elements:
    """Osculating elements: the orbit through a state, or those of a system in time.

    ```python
    system = problems.outer_solar_system()
    states = ds.simulate(system, jnp.linspace(0.0, 4000.0, 9)).states
    orbits = nbody.elements(system, states)  # heliocentric, shape (9, 4)
    orbits.eccentricity, orbits.period(), orbits.mean_longitude
    nbody.elements(system, states, body="Saturn", coordinates="jacobi")  # shape (9,)

    x, v = (a[:, 1] - a[:, 0] for a in (states.positions, states.velocities))
    gm = system.gravity.G * system.bodies.masses[:2].sum()
    nbody.elements(x, v, gm).eccentricity  # Jupiter's, by hand
    ```

    **Arguments**

    - `x`, `v`: shape (..., 3); of one body relative to the other. Or a system and its
        states, of one time or many; without states that of its epoch.
    - `gm`: shape (...); G times the sum of both masses, positive. A system knows it.
    - `coordinates`: of a system, "heliocentric", the default, relative to the first
        body, GM = G (m₀ + mᵢ); "jacobi", relative to the barycenter of all bodies
        before, GM = G (m₀ + ... + mᵢ); "barycentric", relative to that of all,
        GM = G Σm. As `Bodies.from_elements` takes them.
    - `primary`: in their place the body, by name or index, that the others orbit.
    - `body`: the one body, by name or index, whose orbit is asked for.

    **Returns:** `Elements` of shape (...); of a system (time, orbit), an orbit for each
    body and test particle but the first or `primary`, in their order, with `gm`. Ω is
    0 for an orbit in the plane of x and y, and ω is 0 for a circle; ω and f are from −π
    to π, Ω as well.

    **Raises:** `ValueError` for a gm that is not positive, two bodies in one place, and
    bodies and coordinates that are not there.

    **Limits:** as `Elements`; a fall through the center has no plane (mathematics).
    """
    how = {"coordinates": coordinates, "primary": primary, "body": body}
    if not isinstance(x, NBody):
        _check_by_hand(x, v, gm, how)
        return _kepler.elements(x, v, gm)
    relative = _relative_orbits(x, v, gm, **how)
    found = _kepler.elements(relative.x, relative.v, relative.gm)
    leaves = {name: getattr(found, name) for name in _NAMES}
    return Elements(**leaves, gm=relative.gm)


_NAMES = (
    *("semi_major_axis", "eccentricity", "inclination"),
    *("longitude_of_ascending_node", "argument_of_pericenter", "true_anomaly"),
)


@overload
def nonsingular_elements(
    x: Numbers, v: Numbers, gm: Numbers
) -> NonsingularElements: ...


@overload
def nonsingular_elements(
    x: NBody,
    v: State | None = None,
    gm: None = None,
    *,
    coordinates: str | None = None,
    primary: str | int | None = None,
    body: str | int | None = None,
) -> NonsingularElements: ...


def nonsingular_elements(
    x: Any,
    v: Any = None,
    gm: Any = None,
    *,
    coordinates: str | None = None,
    primary: str | int | None = None,
    body: str | int | None = None,
) -> NonsingularElements:
    """The ellipse through a state, or those of a system in time, regular at circles.

    ```python
    system = problems.kepler(eccentricity=0.0)
    state = ds.simulate(system, 5.0).states
    orbit = nbody.nonsingular_elements(system, state, body=1)
    jnp.hypot(orbit.h, orbit.k), orbit.mean_longitude  # e = 0, and λ has a meaning

    x, v = (a[1] - a[0] for a in (state.positions, state.velocities))
    nbody.nonsingular_elements(x, v, gm=1.0)
    ```

    **Arguments**

    - `x`, `v`: shape (..., 3); of one body relative to the other. Or a system and its
        states, as in `elements`.
    - `gm`: shape (...); G times the sum of both masses, positive. A system knows it.
    - `coordinates`, `primary`, `body`: of a system, as in `elements`.

    **Returns:** `NonsingularElements` of shape (...), or (time, orbit), λ from −π to π.

    **Limits:** as `NonsingularElements`.
    """
    how = {"coordinates": coordinates, "primary": primary, "body": body}
    if not isinstance(x, NBody):
        _check_by_hand(x, v, gm, how)
        return _kepler.nonsingular_elements(x, v, gm)
    relative = _relative_orbits(x, v, gm, **how)
    return _kepler.nonsingular_elements(relative.x, relative.v, relative.gm)


def _check_by_hand(x, v, gm, how: dict[str, Any]):
    if isinstance(x, State) or isinstance(v, State):
        raise ValueError(
            f"elements of states need their system, got a {type(x).__name__} first; "
            "write nbody.elements(system, trajectory.states)"
        )
    if v is None or gm is None:
        raise TypeError(
            "elements need x, v and gm, of one body relative to the other, or a "
            "system: nbody.elements(system, trajectory.states)"
        )
    given = [name for name, value in how.items() if value is not None]
    if given:
        raise TypeError(
            f"{', '.join(given)} choose among the bodies of a system, and x and v are "
            "of one orbit already; write nbody.elements(system, trajectory.states, "
            f"{given[0]}=...)"
        )


class _Relative(NamedTuple):
    """Orbits (..., orbit): of what, about what, and by which gravity."""

    x: Array
    v: Array
    gm: Array


def _relative_orbits(system, states, gm, *, coordinates, primary, body) -> _Relative:
    if gm is not None:
        raise TypeError("gm is known of a system; leave it out")
    if system.gravity is None:
        raise ValueError(
            "system has no Gravity, whose G its orbits need; take x, v and gm instead"
        )
    state = system.observe(None, system.initial_state()) if states is None else states
    state = checked_arguments("elements", system, state)
    count, names = jnp.shape(state.positions)[-2], _names_of(system)
    light = count - system.bodies.masses.size
    masses = jnp.pad(system.bodies.masses, (0, light))
    if coordinates is not None and primary is not None:
        raise ValueError(
            f"primary={primary!r} contradicts coordinates={coordinates!r}; give one"
        )
    check_coordinates("heliocentric" if coordinates is None else coordinates)
    center = 0
    if primary is not None:
        center = body_index("primary", primary, names, count)
    _check_center(masses, center)
    parts = state.positions, state.velocities
    rows = [row for row in range(count) if row != center]
    if body is not None:
        rows = [body_index("body", body, names, count)]
    if rows == [center]:
        raise ValueError(f"body {body!r} is what the others orbit; take another")
    x, v, attracting = _about(parts, masses, center, coordinates)
    index = np.asarray(rows, int)
    x, v, gm = x[..., index, :], v[..., index, :], system.gravity.G * attracting[index]
    _check_distinct(x, rows, names)
    found = _Relative(x, v, jnp.broadcast_to(gm, x.shape[:-1]))
    if body is None:
        return found
    return _Relative(x[..., 0, :], v[..., 0, :], found.gm[..., 0])


def _about(parts, masses, center: int, coordinates: str | None):
    """Positions and velocities of all relative to what they orbit, and its mass."""
    if coordinates == "jacobi":
        inner = jnp.cumsum(masses)
        # Of nothing there is no mean; the first has no orbit.
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


def _names_of(system: NBody) -> tuple[str, ...] | None:
    return system.body_names or system.bodies.names


def _check_center(masses: Array, center: int):
    if not is_traced(masses) and masses.size and float(masses[center]) == 0:
        raise ValueError(
            f"body {center} has no mass for others to orbit; primary= names another"
        )


def _check_distinct(x: Array, rows: list[int], names: tuple[str, ...] | None):
    """Refuse a body in the place of what it orbits; x is (..., orbit, 3)."""
    if is_traced(x) or should_return_nan(None):
        return
    together = np.argwhere(~np.any(np.asarray(x) != 0, axis=-1)).tolist()
    if not together:
        return
    *time, orbit = together[0]
    row = rows[orbit]
    who = names[row] if names and row < len(names) else f"body {row}"
    when = f" in states[{time[0]}]" if time else ""
    raise ValueError(
        f"{who} is in the place of what it orbits{when}, and there is no orbit; take "
        "another body, or other times"
    )
