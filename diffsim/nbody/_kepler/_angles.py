"""Angles that look like degrees."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Array

from ..._checks import as_floating, is_traced


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
