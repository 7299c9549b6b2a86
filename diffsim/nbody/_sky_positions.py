"""The line of sight: positions and separations on the sky."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Numbers
from .._validation import array_of, as_floating, finite, is_traced, positive
from ._bodies_arguments import body_number
from ._observables import checked_arguments


#: On the negative z axis: velocities along z are positive away from it, and i = π/2 is
#: an orbit seen edge-on.
OBSERVER = (0.0, 0.0, -1.0)


def toward_observer(observer: Numbers, dtype: Any = None) -> Float[Array, "3"]:
    """The unit vector from the system to the `observer`."""
    return unit_vector("observer", observer, "(0, 0, -1), the default", dtype)


def unit_vector(name: str, value: Numbers, example: str, dtype: Any) -> Array:
    """`value` of length one; raises for what has no direction."""
    vector = finite(name, array_of(name, value, (3,), f"a direction as {example}"))
    if not is_traced(vector) and not np.any(np.asarray(vector)):
        raise ValueError(f"{name} must not be zero; give a direction such as {example}")
    vector = vector if dtype is None else vector.astype(dtype)
    return vector / jnp.linalg.norm(vector)


_NORTH = (1.0, 0.0, 0.0)


def sky_positions(
    simulation: Any,
    state: Any,
    *,
    relative_to: int | str | None = 0,
    observer: Numbers = OBSERVER,
    north: Numbers = _NORTH,
    distance: Numbers | None = None,
) -> Float[Array, "*time body 2"]:
    r"""Positions of all bodies on the sky, (north, east).

    $$\text{north} = d\cdot\hat e_N, \qquad \text{east} = d\cdot\hat e_E, \qquad
    \hat e_E = -\hat n \times \hat e_N,$$

    $d$ from the body `relative_to` and $\hat n$ the direction to the observer. By
    default they are x and y, so that Ω of `Elements` is the position angle of the node
    at which a body recedes, counted from north through east.

    ```python
    system = problems.outer_solar_system()
    state = ds.simulate(system, 10.0).states
    north, east = nbody.sky_positions(system, state)[1]
    position_angle = jnp.arctan2(east, north)  # of Jupiter about the Sun
    ```

    **Arguments**

    - `simulation`: says which body has which name.
    - `state`: one state, or states with leading axes.
    - `relative_to`: name or number of a body, the first by default; None for the
        origin of coordinates.
    - `observer`: direction from the system to the observer, as of `radial_velocity`.
    - `north`: direction whose part across the line of sight points north.
    - `distance`: of the observer, a length; with it the answer is in radians.

    **Returns:** shape (time, body, 2) or (body, 2); a length without `distance`.

    **Raises:** `ValueError` where `north` lies along the line of sight.

    **Limits:** small angles, and no light travel time (convenience).
    """
    state = checked_arguments(simulation, state)
    x = jnp.asarray(state.positions)
    if relative_to is not None:
        center = body_number(simulation, relative_to, "relative_to")
        x = x - x[..., center, None, :]
    to_us = toward_observer(observer, x.dtype)
    up = unit_vector("north", north, "(1, 0, 0), the default", x.dtype)
    up = up - jnp.sum(up * to_us) * to_us
    size = jnp.linalg.norm(up)
    if not is_traced(size) and float(size) < 1e-6:
        raise ValueError(
            f"north must not lie along the line of sight, got {np.asarray(north)} and "
            f"the observer at {np.asarray(observer)}"
        )
    up = up / size
    axes = jnp.stack([up, -jnp.cross(to_us, up)])
    # Not a dot product, which would be rounded to single precision on accelerators.
    places = jnp.sum(x[..., None, :] * axes, axis=-1)
    return _in_radians(places, distance)


def sky_separations(
    simulation: Any,
    state: Any,
    *,
    relative_to: int | str = 0,
    observer: Numbers = OBSERVER,
    distance: Numbers | None = None,
) -> Float[Array, "*time body"]:
    r"""Distances on the sky of all bodies from one of them.

    $$|d - (d\cdot\hat n)\,\hat n|$$

    ```python
    system = problems.outer_solar_system()
    states = ds.simulate(system, [0.0, 10.0]).states
    nbody.sky_separations(system, states)[:, 1]  # of Jupiter from the Sun
    ```

    **Arguments**

    - `simulation`: says which body has which name.
    - `state`: one state, or states with leading axes.
    - `relative_to`: name or number of a body, the first by default.
    - `observer`: direction from the system to the observer, as of `radial_velocity`.
    - `distance`: of the observer, a length; with it the answer is in radians.

    **Returns:** a length, or radians with `distance`; shape (time, body) or (body,).

    **Limits:** where bodies are in line the derivative is undefined (mathematics); that
    of a body from itself is zero.
    """
    state = checked_arguments(simulation, state)
    x = jnp.asarray(state.positions)
    center = body_number(simulation, relative_to, "relative_to")
    d = x - x[..., center, None, :]
    to_us = toward_observer(observer, x.dtype)
    d = d - jnp.sum(d * to_us, axis=-1, keepdims=True) * to_us
    own = jnp.arange(x.shape[-2]) == center
    # In the root and not behind it: the derivative of √0 is infinite.
    size = jnp.sqrt(jnp.sum(d * d, axis=-1) + own) * ~own
    return _in_radians(size, distance)


def _in_radians(lengths: Array, distance: Numbers | None) -> Array:
    """Small angles of lengths at a distance, the lengths without one."""
    if distance is None:
        return lengths
    hint = "give the length from us to the system"
    return lengths / as_floating("distance", positive("distance", distance, hint))
