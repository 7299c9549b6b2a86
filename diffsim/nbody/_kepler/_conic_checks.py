"""Refusal of elements that no conic has."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import should_return_nan
from ..._validation import check_broadcast, is_traced, promote_to_common_dtype


def leaves_of(given: dict[str, Any]) -> dict[str, Array]:
    """Numbers as floating arrays of one dtype and shape."""
    arrays = promote_to_common_dtype(**given)
    check_broadcast(**{k: a.shape for k, a in zip(given, arrays, strict=True)})
    return dict(zip(given, jnp.broadcast_arrays(*arrays), strict=True))


def is_unchecked(*values: Array) -> bool:
    """Whether values are unknown, or a failure is to be NaN: there is no such state."""
    return should_return_nan(None) or any(map(is_traced, values))


def check_conic(semi_major_axis: Array, eccentricity: Array):
    if is_unchecked(semi_major_axis, eccentricity):
        return
    a, e = np.ravel(semi_major_axis), np.ravel(eccentricity)
    if np.any(a == 0):
        raise ValueError(
            "semi_major_axis must not be 0, got 0 of an orbit; it is a length, below 0 "
            "for hyperbolas"
        )
    if np.any(e < 0):
        raise ValueError(
            f"eccentricity must not be negative, got {np.min(e)}; turn "
            "argument_of_pericenter by pi instead"
        )
    # An orbit that falls through the center has e = 1, to rounding.
    rounding = np.finfo(e.dtype).eps ** 0.5
    with np.errstate(invalid="ignore"):  # of a parabola a is infinite
        wrong = a * (1 - e) < -rounding * np.abs(a)
    if np.any(wrong):
        raise ValueError(
            "semi_major_axis must be positive below eccentricity 1 and negative above, "
            f"got {a[wrong][0]} at eccentricity {e[wrong][0]}"
        )


def check_all_finite(leaves: Mapping[str, Any]):
    """Refuse elements that are infinite or not a number."""
    for name, leaf in leaves.items():
        if leaf is None or is_unchecked(leaf):
            continue
        known = np.ravel(leaf)
        lost = known[~np.isfinite(known)]
        if lost.size:
            parabola = name == "semi_major_axis" and np.isinf(lost[0])
            raise ValueError(
                f"{name} must be finite, got {lost[0]}; "
                + (
                    "of a parabola give the position and velocity themselves"
                    if parabola
                    else "look at what it is made of, or leave that orbit out"
                )
            )


def check_reached(anomaly: Array, eccentricity: Array):
    if is_unchecked(anomaly, eccentricity):
        return
    f, e = np.ravel(anomaly), np.ravel(eccentricity)
    beyond = (e > 1) & (1 + e * np.cos(f) <= 0)
    if np.any(beyond):
        limit = np.arccos(-1 / e[beyond][0])
        raise ValueError(
            f"true_anomaly must lie within {limit:.6g} of pericenter at eccentricity "
            f"{e[beyond][0]}, between the asymptotes, got {f[beyond][0]}"
        )


def check_curved(eccentricity: Array):
    if not is_traced(eccentricity) and np.any(np.equal(eccentricity, 1)):
        raise ValueError(
            "eccentricity must not be 1, where a finite semi_major_axis is a fall "
            "through the center and a parabola has none; give the position and "
            "velocity themselves"
        )


def check_bound(semi_major_axis: Array):
    """Refuse orbits of which none has a period."""
    if is_unchecked(semi_major_axis):
        return
    a = np.ravel(semi_major_axis)
    if a.size and not np.any(a > 0):
        raise ValueError(
            f"period is of bound orbits, got semi_major_axis {a[0]:g}, an unbound one; "
            "take mean_motion, which hyperbolas have as well"
        )


def check_elliptic(eccentricity: Array):
    """Refuse eccentricities of which none is an ellipse's."""
    if is_unchecked(eccentricity):
        return
    e = np.ravel(eccentricity)
    if e.size and not np.any((e >= 0) & (e < 1)):
        raise ValueError(
            f"eccentricity must be from 0 to below 1, got {e[0]:g}; of hyperbolas "
            "nbody.Elements.from_mean_anomaly has the true anomaly"
        )


def check_apart(x: Array):
    """Refuse the orbit of two bodies in one place."""
    if is_unchecked(x):
        return
    together = ~np.any(np.asarray(x) != 0, axis=-1)
    if np.any(together):
        at = np.argwhere(together)[0].tolist()
        where = f" at {at}" if at else ""
        raise ValueError(
            f"x must not be zero, got two bodies in one place{where}, about which "
            "there is no orbit; x is the position of one relative to the other"
        )
