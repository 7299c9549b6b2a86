"""Bodies placed by their orbits, one by one or in groups."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._linalg import matmul
from .._types import Numbers
from .._validation import (
    array_of,
    as_floating,
    instance,
    one_of,
    positive,
    scalar,
)
from ._bodies_arguments import as_masses
from ._kepler import Elements, NonsingularElements, Orbit


#: The center of an orbit, and whose gravity it feels.
_COORDINATES = ("heliocentric", "jacobi", "barycentric")


def coordinates_of_orbits(coordinates: str | None) -> str:
    """Coordinates of orbits, heliocentric if None."""
    if coordinates is None:
        return "heliocentric"
    hint = "astrocentric is heliocentric"
    return one_of("coordinates", coordinates, _COORDINATES, hint)


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
    if jacobi and coordinates not in (None, "jacobi"):
        raise ValueError(f"jacobi=True contradicts coordinates={coordinates!r}")
    coordinates = "jacobi" if jacobi else coordinates_of_orbits(coordinates)
    masses = as_masses(masses)
    kinds = Elements, NonsingularElements, Orbit
    instance("elements", orbits, kinds, "nbody.Elements(semi_major_axis=[1.0, 5.2])")
    shape = orbits.shape if isinstance(orbits, Orbit) else orbits.semi_major_axis.shape
    if shape != (count := masses.size - 1,):
        raise ValueError(
            f"elements must have shape ({count},), got {shape}; one orbit a body after "
            "the first, semi_major_axis=[1.0] for one"
        )
    G = as_floating("G", scalar("G", G))
    # The mass that is felt on each orbit; the first is nobody's.
    if coordinates == "barycentric":
        positive("masses[0]", masses[0], "it balances all others")
        inner = jnp.broadcast_to(jnp.sum(masses), masses.shape)
    else:
        jacobian = coordinates == "jacobi"
        inner = jnp.cumsum(masses) if jacobian else masses[0] + masses
    relative = orbits.state(G * inner[1:])
    x, v = (_from_center(a, masses, inner, coordinates) for a in relative)
    return masses, x, v


def _from_center(relative, masses, inner, coordinates: str):
    if coordinates == "barycentric":
        center = -matmul(masses[1:], relative) / masses[0]
        return jnp.concatenate([center[None], relative])
    center = jnp.zeros((1, 3), relative.dtype)
    if coordinates == "jacobi":
        # A body moves the center of those inside it by its share of their mass.
        shifts = (masses / inner)[1:, None] * relative
        relative = relative + jnp.cumsum(shifts, 0) - shifts
    places = jnp.concatenate([center, relative])
    return places - matmul(masses, places) / jnp.sum(masses)


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
    _, *centers = bodies_from_elements(totals, orbits, **how)
    masses = jnp.concatenate([masses for masses, _, _ in parts])
    x, v = (
        jnp.concatenate([part[which] + center[i] for i, part in enumerate(parts)])
        for which, center in ((1, centers[0]), (2, centers[1]))
    )
    return masses, x, v, _names_of(entries, names)


def _parts(entry: Any) -> tuple[Array, Array, Array]:
    """Masses, and positions and velocities about their own barycenter."""
    if not _is_group(entry):
        mass = array_of("masses", entry, (), "an entry is one mass, or Bodies")
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
    rest = iter(names or ())
    return [
        name
        for entry in entries
        for name in (entry.names if _is_group(entry) else [next(rest)])
    ]
