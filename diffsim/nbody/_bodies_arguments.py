"""Validation of masses, positions and velocities."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._results import should_return_nan
from .._validation import array_of, as_floating, is_traced


def checked_masses(masses: Any) -> Array:
    """`masses` as a floating array of shape (body,), none of them negative."""
    masses = as_floating("masses", masses)
    # `atleast_1d` would be compiled for every number of bodies.
    masses = masses if masses.ndim else masses[None]
    if masses.ndim > 1:
        raise ValueError(
            f"masses must have shape (body,), got {masses.shape}; one mass a body, "
            "and the order is Bodies(masses, positions, velocities)"
        )
    _check_each_finite("masses", masses)
    _check_not_negative(masses)
    return masses


def _check_each_finite(name: str, values: Array):
    """Refuse NaN and infinity, and say of which body."""
    if is_traced(values) or should_return_nan(None):
        return
    known = np.asarray(values)
    lost = np.argwhere(~np.isfinite(known))
    if lost.size:
        at = tuple(lost[0])
        raise ValueError(
            f"{name} must be finite, got {known[at]} of body {at[0]}; look at what it "
            "is made of, or leave that body out"
        )


def _check_not_negative(masses: Array):
    if is_traced(masses) or should_return_nan(None):
        return
    known = np.asarray(masses)
    if np.any(known < 0):
        row = int(np.argmin(known))
        raise ValueError(
            f"masses must not be negative, got {known[row]:g} of body {row}; zero is "
            "a body that feels and does not attract"
        )


def checked_phase(
    positions: Any, velocities: Any, count: int | None
) -> tuple[Array, Array]:
    """Positions and velocities of one dtype and shape (count, 3)."""
    positions = as_floating("positions", positions)
    velocities = as_floating("velocities", velocities)
    array_of("positions", positions, (count, 3), _hint(positions, count))
    count = len(positions)
    array_of("velocities", velocities, (count, 3), _hint(velocities, count))
    _check_each_finite("positions", positions)
    _check_each_finite("velocities", velocities)
    dtype = jnp.result_type(positions, velocities)
    if dtype in (jnp.float16, jnp.bfloat16):
        raise ValueError(
            f"positions and velocities must be in float32 or float64, got {dtype}, "
            "whose rounding a run would add up; cast them, x.astype(jnp.float32) say"
        )
    return positions.astype(dtype), velocities.astype(dtype)


def _hint(vectors: Array, count: int | None) -> str:
    shape = vectors.shape
    if count is not None and shape == (3, count):
        return "rows are bodies, so transpose it with .T"
    planar = shape[-1:] == (2,)
    return "for planar systems set z to zero" if planar else "one row x, y, z a body"
