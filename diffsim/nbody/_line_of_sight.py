"""Direction to the observer, and bodies by name: arguments of what one observes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Numbers
from .._validation import as_floating, finite, is_traced


#: On the negative z axis: velocities along z are positive away from it, and i = π/2 is
#: an orbit seen edge-on.
OBSERVER = (0.0, 0.0, -1.0)


def toward_observer(observer: Numbers, dtype: Any = None) -> Float[Array, "3"]:
    """The unit vector from the system to the `observer`."""
    return unit_vector("observer", observer, "(0, 0, -1), the default", dtype)


def unit_vector(name: str, value: Numbers, example: str, dtype: Any) -> Array:
    """`value` of length one; raises for what has no direction."""
    vector = as_floating(name, value)
    if vector.shape != (3,):
        raise ValueError(
            f"{name} must be a direction, three numbers such as {example}, got shape "
            f"{vector.shape}"
        )
    finite(name, vector)
    if not is_traced(vector) and not np.any(np.asarray(vector)):
        raise ValueError(f"{name} must not be zero; give a direction such as {example}")
    vector = vector if dtype is None else vector.astype(dtype)
    return vector / jnp.linalg.norm(vector)


def body_number(simulation: Any, body: Any, argument: str) -> int:
    """The number of a body that is given by it or by its name."""
    massive, light = simulation.bodies.masses.size, simulation.test_particles
    count = massive + (0 if light is None else len(light.positions))
    names = simulation.body_names
    if isinstance(body, str):
        if names is None:
            raise ValueError(
                f"{argument} is {body!r}, and the bodies have no names; give a number "
                f"from 0 to {count - 1}, or Bodies(..., names=...)"
            )
        if body not in names:
            raise ValueError(
                f"{argument} must be one of {', '.join(names)}, got {body!r}"
            )
        return names.index(body)
    whole = isinstance(body, int | np.integer) and not isinstance(body, bool)
    if not whole or not -count <= body < count:
        raise ValueError(
            f"{argument} must be the name or the number of a body, from 0 to "
            f"{count - 1}, got {body!r:.60}"
        )
    return int(body) % count


def body_label(simulation: Any, number: int) -> str:
    """The name of a body for a sentence."""
    names = simulation.body_names
    return f"body {number}" if names is None else names[number]


def any_traced(*trees: Any) -> bool:
    """Whether some number in the trees is not known while Python runs."""
    return any(map(is_traced, jax.tree.leaves(trees)))
