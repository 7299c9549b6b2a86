"""Bodies placed by their orbits."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._linalg import matmul
from .._types import Numbers
from .._validation import as_floating, check_shape
from ._kepler import Elements, NonsingularElements


def bodies_from_elements(
    masses: Numbers, orbits: Any, *, G: Numbers, jacobi: bool
) -> tuple[Array, Array, Array]:
    """Masses, positions and velocities, (body, 3), about the barycenter at rest.

    The first body is the center; the others move on `orbits`, one each.
    """
    masses = jnp.atleast_1d(as_floating("masses", masses))
    count = masses.size - 1
    check_shape("masses", masses, (None,), "one mass a body")
    if not isinstance(orbits, Elements | NonsingularElements):
        raise ValueError(
            "elements must be Elements or NonsingularElements that hold an array, one "
            f"entry an orbit, got {type(orbits).__name__}; write "
            "Elements(semi_major_axis=[1.0, 5.2])"
        )
    hint = "one orbit a body after the first, semi_major_axis=[1.0] for one"
    check_shape("elements", orbits.semi_major_axis, (count,), hint)
    G = as_floating("G", G)
    inner = jnp.cumsum(masses) if jacobi else masses[0] + masses
    relative = orbits.state(G * inner[1:])
    x, v = (_from_center(a, masses, inner, jacobi=jacobi) for a in relative)
    return masses, x, v


def _from_center(relative, masses, inner, *, jacobi: bool):
    center = jnp.zeros((1, 3), relative.dtype)
    if jacobi:
        # A body moves the center of those inside it by its share of their mass.
        shifts = (masses / inner)[1:, None] * relative
        relative = relative + jnp.cumsum(shifts, 0) - shifts
    found = jnp.concatenate([center, relative])
    return found - matmul(masses, found) / jnp.sum(masses)
