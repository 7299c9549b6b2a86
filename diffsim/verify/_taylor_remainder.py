"""Slopes of Taylor remainders, measured just above the rounding of the function."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


#: Rounding is what the remainder is at perturbations of so many ulps, where a
#: quadratic term cannot be seen: 1e-14 squared.
_ULPS = (16, 32, 64, 128)
#: Of a leaf that is zero and acts by its square, a softening, nothing is seen there: it
#: is lost in what it is added to, and appears in jumps at so many roots of an ulp.
_ROOTS = (4, 8)
#: Points count as clean above so many times the rounding: a slope over a factor 64 in h
#: is then off by at most 0.02.
_CLEAN = 30.0
#: Points, a factor 2 apart, that determine a slope, and the fewest that do.
_WINDOW, _LEAST = 7, 4
_LARGEST = 0.25


class Slopes(NamedTuple):
    """Slope by mode, and why there is none."""

    slopes: dict[str, float]
    flag: str


def remainder_slopes(
    change: Callable[[float], float],
    derivatives: dict[str, float],
    eps: float,
    resolution: float,
) -> Slopes:
    """Slopes of `change(h) - h derivative` in h for each of `derivatives`.

    **Arguments:** `change` the difference J(x + h v) - J(x); `derivatives` by mode;
    `eps` the machine epsilon of the computation; `resolution` the least h that x + h v
    tells from x, of an epoch in years far more than `eps`.
    """
    nothing = dict.fromkeys(derivatives, float("nan"))
    if not np.all(np.isfinite(list(derivatives.values()))):
        return Slopes(nothing, "not finite")
    change = functools.cache(change)
    if not any(derivatives.values()) and change(_LARGEST) == change(-_LARGEST) == 0:
        return Slopes(nothing, "no effect")
    slopes = {}
    for mode, derivative in derivatives.items():
        unseen = max(eps, abs(derivative) * resolution)
        slope = _slope(_remainder_of(change, derivative), eps, unseen)
        if slope is None:
            return Slopes(nothing, "not finite")
        slopes[mode] = slope
    flag = "below rounding" if np.all(np.isnan(list(slopes.values()))) else ""
    return Slopes(slopes, flag)


def _remainder_of(change, derivative: float) -> Callable[[float], float]:
    def remainder(h):
        ahead = change(h) - h * derivative
        behind = change(-h) + h * derivative
        return float(np.hypot(ahead, behind)) / np.sqrt(2)

    return remainder


def _slope(
    remainder: Callable[[float], float], eps: float, unseen: float
) -> float | None:
    """Slope over the smallest steps that stand clear of rounding, or what is `unseen`.

    NaN if the remainder stays within rounding; None if it is not finite where it is
    needed, which would otherwise look the same.
    """
    rounding = np.max([remainder(ulps * eps) for ulps in _ULPS])
    if rounding == 0:
        rounding = np.max([remainder(roots * np.sqrt(eps)) for roots in _ROOTS])
    floor = _CLEAN * max(rounding, unseen)
    clean: list[tuple[float, float]] = []
    h, size = 2.0 ** np.round(np.log2(np.sqrt(eps))), rounding
    while h <= _LARGEST and len(clean) < _WINDOW and np.isfinite(size):
        size = remainder(h)
        if np.isfinite(size) and size > floor:
            clean.append((h, size))
        elif len(clean) < _LEAST:
            clean.clear()
        h *= 2
    if len(clean) < _LEAST:
        return float("nan") if np.isfinite(size) else None
    steps, sizes = np.log2(np.asarray(clean)).T
    return float(np.polyfit(steps, sizes, 1)[0])
