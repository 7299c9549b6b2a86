"""Arguments that describe bodies: masses, places, speeds, names and indices."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._paths import closest_matches
from .._results import should_return_nan
from .._validation import array_of, as_floating, check_precision, is_traced


#: What a path reads as an index of an axis: 4, -1, 1:, ::2 and the * of a pattern.
_AXIS = r"\s*(?:[-+]?\d[\d_]*|[-+\d_\s]*:[-+\d_\s:]*|\*)\s*"

#: Names that are none of these, and in which brackets close, at most one pair within
#: another.
_NAME = re.compile(rf"(?!{_AXIS}(?:,{_AXIS})*$)(?=.*\S)(?:[^\[\]]|\[[^\[\]]*\])*", re.S)


def any_traced(*trees: Any) -> bool:
    """Whether some number in the trees is not known while Python runs."""
    return any(map(is_traced, jax.tree.leaves(trees)))


def as_masses(masses: Any) -> Array:
    """`masses` as a floating array of shape (body,), none of them negative."""
    masses = as_floating("masses", masses)
    # `atleast_1d` would be compiled for every number of bodies.
    masses = masses if masses.ndim else masses[None]
    hint = "one mass a body, and the order is Bodies(masses, positions, velocities)"
    array_of("masses", masses, (None,), hint)
    _check_each("masses", masses, least=0.0)
    return masses


def as_phase(positions: Any, velocities: Any, count: int | None) -> tuple[Array, Array]:
    """Positions and velocities of one dtype and shape (count, 3)."""
    positions = as_floating("positions", positions)
    velocities = as_floating("velocities", velocities)
    array_of("positions", positions, (count, 3), _shape_hint(positions, count))
    count = len(positions)
    array_of("velocities", velocities, (count, 3), _shape_hint(velocities, count))
    _check_each("positions", positions)
    _check_each("velocities", velocities)
    dtype = jnp.result_type(positions, velocities)
    positions, velocities = positions.astype(dtype), velocities.astype(dtype)
    check_precision("positions", positions)
    return positions, velocities


def _shape_hint(vectors: Array, count: int | None) -> str:
    shape = vectors.shape
    if count is not None and shape == (3, count):
        return "rows are bodies, so transpose it with .T"
    planar = shape[-1:] == (2,)
    return "for planar systems set z to zero" if planar else "one row x, y, z a body"


def _check_each(name: str, values: Array, least: float = -np.inf):
    """Refuse numbers that are not finite or too small, and say of which body."""
    if is_traced(values) or should_return_nan(None):
        return
    known = np.asarray(values)
    wrong = np.argwhere(~np.isfinite(known) | (known < least))
    if wrong.size:
        entry = tuple(wrong[0])
        rule = "not be negative" if known[entry] < least else "be finite"
        raise ValueError(f"{name} must {rule}, got {known[entry]:g} of body {entry[0]}")


def as_names(names: Any, count: int) -> tuple[str, ...] | None:
    """One name a body, each fit for a path; None where there are none."""
    if names is None:
        return None
    names = tuple(names)
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                "names must be strings that a path can read, got "
                f"{name!r:.60}: no index or slice, some letter, and brackets that "
                "close, at most one pair within another; write 'body 4' for '4'"
            )
    if len(names) != count:
        raise ValueError(f"names must be one a body, got {len(names)} for {count}")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names must differ, got {', '.join(repeated)} more than once")
    return tuple(map(str, names))


def body_index(
    argument: str, body: Any, names: tuple[str, ...] | None, count: int
) -> int:
    """The row of a body, by its name or its index."""
    if isinstance(body, str) and names and body in names:
        return names.index(body)
    whole = isinstance(body, int | np.integer) and not isinstance(body, bool)
    if not (whole and -count <= int(body) < count):
        near = (
            closest_matches(str(body), names or ()) if names else "they have no names"
        )
        raise ValueError(
            f"{argument} must be a body, by its name or from 0 to {count - 1}, got "
            f"{body!r:.60}; {near}"
        )
    return int(body) % count


def body_number(simulation: Any, body: Any, argument: str) -> int:
    """The row of a body of a system, test particles last."""
    light = simulation.test_particles
    count = simulation.bodies.masses.size + (
        0 if light is None else len(light.positions)
    )
    return body_index(argument, body, simulation.body_names, count)


def body_label(simulation: Any, number: int) -> str:
    """The name of a body for a sentence."""
    names = simulation.body_names
    return f"body {number}" if names is None else names[number]


def pair_names(simulation: Any, j: int, i: int) -> str:
    """The names of two bodies, or their numbers, for a sentence."""
    names = simulation.body_names
    return f"bodies {j} and {i}" if names is None else f"{names[j]} and {names[i]}"
