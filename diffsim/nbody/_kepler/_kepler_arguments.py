"""Validation of orbital elements and phase-space coordinates."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Array

from ..._validation import (
    as_floating,
    check_broadcast,
    is_traced,
    promote_to_common_dtype,
)


#: What gm is, for a sentence.
GM_HINT = "it is G times the sum of both masses"


def phase(x: Any, v: Any, **scalars: Any) -> list[Array]:
    """`x`, `v` of shape (..., 3) and `scalars` of shape (...), all of one dtype."""
    x, v, *rest = arrays = promote_to_common_dtype(x=x, v=v, **scalars)
    for name, vector in (("x", x), ("v", v)):
        if vector.shape[-1:] != (3,):
            raise ValueError(
                f"{name} must have shape (..., 3), got {vector.shape}; for planar "
                "orbits set z to zero"
            )
    leading = {"x": x.shape[:-1], "v": v.shape[:-1]}
    given = {name: a.shape for name, a in zip(scalars, rest, strict=True)}
    check_broadcast(**leading, **given)
    return arrays


#: Of REBOUND and of the literature.
_ALIASES = {
    "a": "semi_major_axis",
    "e": "eccentricity",
    "i": "inclination",
    "inc": "inclination",
    "Omega": "longitude_of_ascending_node",
    "node": "longitude_of_ascending_node",
    "omega": "argument_of_pericenter",
    "argument_of_periapsis": "argument_of_pericenter",
    "f": "true_anomaly",
    "nu": "true_anomaly",
    "M": "Elements.from_mean_anomaly(mean_anomaly, ...)",
    "mean_anomaly": "Elements.from_mean_anomaly(mean_anomaly, ...)",
    "l": "NonsingularElements(mean_longitude=...)",
    "P": "semi_major_axis=(gm * P**2 / (4 * pi**2)) ** (1 / 3)",
    "period": "semi_major_axis=(gm * period**2 / (4 * pi**2)) ** (1 / 3)",
}


def check_named(unknown: dict[str, Any], semi_major_axis: Any):
    """Refuse elements by other names than ours, and say ours; and orbits of no size."""
    if not unknown:
        if semi_major_axis is None:
            raise TypeError("elements need semi_major_axis=..., a length")
        return
    known = [f"{name} is {_ALIASES[name]}" for name in unknown if name in _ALIASES]
    others = [name for name in unknown if name not in _ALIASES]
    got = [*known, *(f"{name} is no element" for name in others)]
    raise TypeError(
        f"elements have long names: {', '.join(got)}; see help(nbody.Elements)"
    )


def check_inclination(inclination: Array):
    """Refuse concrete inclinations outside [0, π]."""
    if is_traced(inclination):
        return
    i = np.ravel(inclination)
    rounding = 4 * np.finfo(i.dtype).eps
    beyond = (i < 0) | (i > np.pi + rounding)
    if not np.any(beyond):
        return
    worst = i[beyond][0]
    hint = (
        "turn longitude_of_ascending_node by pi instead"
        if -np.pi <= worst < 0
        else f"if it is in degrees, take numpy.deg2rad({worst:g})"
    )
    raise ValueError(
        f"inclination must be from 0 to pi, in radians, got {worst:g}; {hint}"
    )


def warn_of_degrees(**angles: Any):
    """Warns where every angle that is not zero is beyond a whole turn."""
    values = [as_floating(name, angle) for name, angle in angles.items()]
    if any(is_traced(value) for value in values):
        return
    flat = np.concatenate([np.ravel(value) for value in values])
    flat = np.abs(flat[flat != 0])
    if flat.size and np.min(flat) > 2 * np.pi:
        warnings.warn(
            f"{', '.join(angles)} are all beyond 2 pi (the smallest is "
            f"{np.min(flat):g}): angles are in radians; if these are degrees, take "
            "numpy.deg2rad(...)",
            # this function, the constructor, Equinox's, the caller
            stacklevel=4,
        )
