"""Arguments that describe bodies: masses, places, speeds and names."""

import re
from collections.abc import Sequence
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


#: What a path reads as an index of an axis: 4, -1, 1:, ::2 and the * of a pattern.
_AXIS = r"\s*(?:[-+]?\d[\d_]*|[-+\d_\s]*:[-+\d_\s:]*|\*)\s*"
_INDEX = re.compile(rf"{_AXIS}(?:,{_AXIS})*")

#: Brackets that close in order, at most one pair within another.
_BRACKETS = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])*")


def checked_names(names: Any, count: int) -> tuple[str, ...] | None:
    """One name a body, each fit for a path; None where there are none."""
    if names is None:
        return None
    names = tuple(names)
    for name in names:
        _check_name(name)
    names = tuple(map(str, names))
    if len(names) != count:
        raise ValueError(f"names must be one a body, got {len(names)} for {count}")
    check_different(names)
    return names


def check_different(names: Sequence[str], whose: str = ""):
    """Refuse a name that stands twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"names{whose} must differ, got {', '.join(repeated)} more than once"
        )


def _check_name(name: Any):
    if not isinstance(name, str):
        raise ValueError(
            f"names must be strings, got {name!r:.60}, which a path would take for an "
            f"index; write {f'body {name}'!r:.60}"
        )
    if _INDEX.fullmatch(name.strip()):
        raise ValueError(
            f"names must not read as an index or a slice, got {name!r}: a path "
            f"could mean either; write {f'asteroid {name.strip()}'!r}"
        )
    if not name.strip() or not _BRACKETS.fullmatch(name):
        raise ValueError(
            "names must have a letter, and brackets that close, at most one pair "
            f"within another, got {name!r}, which no path could name"
        )
