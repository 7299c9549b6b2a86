"""Bodies placed by their orbits, one by one or in groups, and their frames."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._linalg import matmul
from .._paths import closest_matches
from .._results import should_return_nan
from .._types import Numbers
from .._validation import (
    array_of,
    as_floating,
    is_traced,
    positive,
    scalar,
)
from ._bodies_arguments import check_different, checked_masses
from ._kepler import Elements, NonsingularElements, Orbit


#: What an orbit is about, and whose gravity it feels.
COORDINATES = ("heliocentric", "jacobi", "barycentric")


def bodies_from_elements(
    masses: Numbers,
    orbits: Any,
    *,
    G: Numbers,
    jacobi: bool = False,
    coordinates: str | None = None,
) -> tuple[Array, Array, Array]:
    """Masses, positions and velocities, (body, 3), about the barycenter at rest.

    The first body is the center; the others move on `orbits`, one each.
    """
    coordinates = _chosen(coordinates, jacobi=jacobi)
    masses = checked_masses(masses)
    _check_some_mass(masses)
    count = masses.size - 1
    if not isinstance(orbits, Elements | NonsingularElements | Orbit):
        raise ValueError(
            "elements must be Elements or NonsingularElements that hold an array, one "
            f"entry an orbit, or an Orbit that does, got {_kind_of(orbits)}; "
            "write Elements(semi_major_axis=[1.0, 5.2])"
        )
    hint = "one orbit a body after the first, semi_major_axis=[1.0] for one"
    shape = orbits.shape if isinstance(orbits, Orbit) else orbits.semi_major_axis.shape
    if shape != (count,):
        raise ValueError(f"elements must have shape ({count},), got {shape}; {hint}")
    scalar("G", G)
    G = as_floating("G", G)
    inner = _attracting(masses, coordinates)
    relative = orbits.state(G * inner[1:])
    x, v = (_from_center(a, masses, inner, coordinates) for a in relative)
    return masses, x, v


def _kind_of(orbits: Any) -> str:
    if isinstance(orbits, type):
        return f"the class {orbits.__name__}"
    return f"a {type(orbits).__name__}"


def _check_some_mass(masses: Array):
    """Refuse bodies of which none attracts: nothing is an orbit, or its center."""
    if is_traced(masses) or should_return_nan(None) or np.any(np.asarray(masses)):
        return
    raise ValueError(
        f"masses must not all be zero, got {masses.size} of no mass, which have no "
        "barycenter and no orbits; the first is the center, 1.0 say"
    )


def _chosen(coordinates: str | None, *, jacobi: bool) -> str:
    if coordinates is None:
        return "jacobi" if jacobi else "heliocentric"
    check_coordinates(coordinates)
    if jacobi and coordinates != "jacobi":
        raise ValueError(f"jacobi=True contradicts coordinates={coordinates!r}")
    return coordinates


def check_coordinates(coordinates: Any):
    """Refuse names of no coordinates."""
    if coordinates not in COORDINATES:
        same = "; astrocentric is heliocentric" if coordinates == "astrocentric" else ""
        listed = ", ".join(map(repr, COORDINATES))
        raise ValueError(f"coordinates must be {listed}, got {coordinates!r:.40}{same}")


def _attracting(masses: Array, coordinates: str) -> Array:
    """The mass that is felt on each orbit; the first is nobody's."""
    if coordinates == "barycentric":
        positive("masses[0]", masses[0], "it balances all others")
        return jnp.broadcast_to(jnp.sum(masses), masses.shape)
    return jnp.cumsum(masses) if coordinates == "jacobi" else masses[0] + masses


def _from_center(relative, masses, inner, coordinates: str):
    if coordinates == "barycentric":
        center = -matmul(masses[1:], relative) / masses[0]
        return jnp.concatenate([center[None], relative])
    center = jnp.zeros((1, 3), relative.dtype)
    if coordinates == "jacobi":
        # A body moves the center of those inside it by its share of their mass.
        shifts = (masses / inner)[1:, None] * relative
        relative = relative + jnp.cumsum(shifts, 0) - shifts
    found = jnp.concatenate([center, relative])
    return found - matmul(masses, found) / jnp.sum(masses)


def is_grouped(masses: Any) -> bool:
    """Whether bodies stand among the masses."""
    return isinstance(masses, list | tuple) and any(map(_is_group, masses))


def _is_group(entry: Any) -> bool:
    return hasattr(entry, "masses") and hasattr(entry, "positions")


def groups_from_elements(
    entries: Sequence[Any],
    orbits: Any,
    *,
    names: Sequence[str] | None,
    **how: Any,
) -> tuple[Array, Array, Array, list[str] | None]:
    """Masses, positions, velocities and names, of groups whose barycenters orbit."""
    parts = [_parts(entry) for entry in entries]
    totals = jnp.stack([jnp.sum(masses) for masses, _, _ in parts])
    _, *placed = bodies_from_elements(totals, orbits, **how)
    masses = jnp.concatenate([masses for masses, _, _ in parts])
    x, v = (
        jnp.concatenate([part[which] + at[i] for i, part in enumerate(parts)])
        for which, at in ((1, placed[0]), (2, placed[1]))
    )
    return masses, x, v, _names_of(entries, names)


def _parts(entry: Any) -> tuple[Array, Array, Array]:
    """Masses, and positions and velocities about their own barycenter."""
    if not _is_group(entry):
        mass = as_floating("masses", entry)
        array_of("masses", mass, (), "an entry is one mass, or Bodies")
        at_rest = jnp.zeros((1, 3), mass.dtype)
        return mass[None], at_rest, at_rest
    masses = entry.masses
    return masses, *(
        a - barycenter(masses, a) for a in (entry.positions, entry.velocities)
    )


def barycenter(masses: Array, vectors: Array) -> Array:
    """The mean by mass, shape (3,)."""
    positive("the sum of masses", jnp.sum(masses), "it has no barycenter")
    return matmul(masses, vectors) / jnp.sum(masses)


def _names_of(entries, names) -> list[str] | None:
    groups = [entry for entry in entries if _is_group(entry)]
    single = len(entries) - len(groups)
    if names is None and all(group.names is None for group in groups):
        return None
    if isinstance(names, str) or len(names or ()) != single:
        raise ValueError(
            f"names must be one for each of the {single} entries of masses that are "
            f"numbers, where groups have names of their own, got {names!r:.60}"
        )
    if any(group.names is None for group in groups):
        raise ValueError("names are given, and one of the groups has none; name it too")
    rest = iter(names or ())
    found = [
        name
        for entry in entries
        for name in (entry.names if _is_group(entry) else [next(rest)])
    ]
    check_different(found)
    return found


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
