"""Frames of bodies: about their barycenter, about one of them, and joined to one."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._paths import closest_matches
from .._validation import as_floating
from ._bodies_from_elements import barycenter
from ._names import check_different


def body_index(
    argument: str, body: Any, names: tuple[str, ...] | None, count: int
) -> int:
    """The row of a body, by its name or its index."""
    if isinstance(body, str):
        if names is not None and body in names:
            return names.index(body)
        near = closest_matches(body, names) if names else "the bodies have no names"
        raise ValueError(f"{argument} must be a body, got {body!r}; {near}")
    whole = isinstance(body, int | np.integer) and not isinstance(body, bool)
    if not whole or not -count <= body < count:
        raise ValueError(
            f"{argument} must be the name of a body or its index, from 0 to "
            f"{count - 1}, got {body!r:.40}"
        )
    return int(body) % count


def about_barycenter(bodies: Any) -> tuple[Array, Array, Array]:
    """Masses, and positions and velocities about the barycenter at rest."""
    m, x, v = bodies.masses, bodies.positions, bodies.velocities
    return m, x - barycenter(m, x), v - barycenter(m, v)


def about_body(bodies: Any, body: Any) -> tuple[Array, Array, Array]:
    """Masses, and positions and velocities relative to one of the bodies."""
    row = body_index("body", body, bodies.names, bodies.masses.size)
    x, v = bodies.positions, bodies.velocities
    return bodies.masses, x - x[row], v - v[row]


def joined_bodies(bodies: Any, other: Any, about: Any):
    """Both after one another, `other` counted from the origin or from a body."""
    x, v = other.positions, other.velocities
    if about is not None:
        row = body_index("about", about, bodies.names, bodies.masses.size)
        x, v = x + bodies.positions[row], v + bodies.velocities[row]
    return (
        jnp.concatenate([bodies.masses, other.masses]),
        jnp.concatenate([bodies.positions, x]),
        jnp.concatenate([bodies.velocities, v]),
        _both_names(bodies.names, other.names),
    )


def replaced_body(bodies: Any, body: Any, group: Any):
    """A group in the place of one body, their barycenter where that body was."""
    row = body_index("body", body, bodies.names, bodies.masses.size)
    masses, x, v = about_barycenter(group)
    names = None
    if bodies.names is not None or group.names is not None:
        before, after = (bodies.names or ())[:row], (bodies.names or ())[row + 1 :]
        names = _both_names(before + after if bodies.names else None, group.names)
        names = before + tuple(group.names or ()) + after if names is not None else None
    parts = (
        (bodies.masses, masses),
        (bodies.positions, x + bodies.positions[row]),
        (bodies.velocities, v + bodies.velocities[row]),
    )
    return *(jnp.concatenate([a[:row], b, a[row + 1 :]]) for a, b in parts), names


def test_particle_state(bodies: Any, orbits: Any, G: Any, primary: Any):
    """Positions and velocities on orbits about a body, or about the barycenter."""
    m, x, v = bodies.masses, bodies.positions, bodies.velocities
    if primary is None:
        mass, origin = jnp.sum(m), (barycenter(m, x), barycenter(m, v))
    else:
        row = body_index("primary", primary, bodies.names, m.size)
        mass, origin = m[row], (x[row], v[row])
    found = orbits.state(as_floating("G", G) * mass)
    return tuple(a + at for a, at in zip(found, origin, strict=True))


def _both_names(first: tuple[str, ...] | None, second: tuple[str, ...] | None):
    if first is None and second is None:
        return None
    if first is None or second is None:
        raise ValueError(
            "names must be on both sides or on neither, got them on one: name the "
            "others too, Bodies(..., names=[...])"
        )
    check_different(first + second)
    return first + second
