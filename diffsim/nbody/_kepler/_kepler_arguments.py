"""Validation of orbital elements and phase-space coordinates."""

import warnings
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import should_return_nan
from ..._validation import (
    as_floating,
    check_broadcast,
    is_traced,
    positive,
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


#: Ways to say one thing, each by the arguments that it takes.
_SIZE = (("period",), ("semi_major_axis",))
_SHAPE = (
    ("eccentricity",),
    ("e_cos_omega", "e_sin_omega"),
    ("sqrt_e_cos_omega", "sqrt_e_sin_omega"),
    ("h", "k"),
)
_TILT = (("inclination",), ("impact_parameter", "star_radius"), ("ix", "iy"))
_PLACE = (
    ("true_anomaly",),
    ("mean_anomaly",),
    ("eccentric_anomaly",),
    ("mean_longitude",),
    ("time_of_pericenter",),
    ("time_of_transit",),
)
_ANGLES = ("argument_of_pericenter", "longitude_of_pericenter")

#: Of REBOUND, radvel, exoplanet and batman.
_ORBIT_ALIASES = {
    "a": "semi_major_axis",
    "P": "period",
    "per": "period",
    "e": "eccentricity",
    "ecc": "eccentricity",
    "i": "inclination",
    "inc": "inclination",
    "incl": "inclination",
    "Omega": "longitude_of_ascending_node",
    "omega": "argument_of_pericenter",
    "w": 'argument_of_pericenter, with omega_of="star" for that of radvel and batman',
    "pomega": "longitude_of_pericenter",
    "f": "true_anomaly",
    "M": "mean_anomaly",
    "E": "eccentric_anomaly",
    "l": "mean_longitude",
    "T": "time_of_pericenter",
    "tp": "time_of_pericenter",
    "t_periastron": "time_of_pericenter",
    "tc": "time_of_transit",
    "t0": "time_of_transit",
    "ecosw": 'e_cos_omega, with omega_of="star"',
    "esinw": 'e_sin_omega, with omega_of="star"',
    "secosw": 'sqrt_e_cos_omega, with omega_of="star"',
    "sesinw": 'sqrt_e_sin_omega, with omega_of="star"',
    "b": "impact_parameter, with star_radius",
    "K": "a mass: nbody.planet_mass(star_mass, semi_amplitude, period=...)",
    "k1": "a mass: nbody.planet_mass(star_mass, semi_amplitude, period=...)",
    "semi_amplitude": "a mass: nbody.planet_mass(star_mass, semi_amplitude, ...)",
    "m": "one of the masses of Bodies.from_elements(masses, orbit)",
    "mass": "one of the masses of Bodies.from_elements(masses, orbit)",
}


def check_known_names(unknown: Mapping[str, Any]):
    """Refuse arguments by other names than ours, and say ours."""
    if not unknown:
        return
    got = [
        f"{name} is {_ORBIT_ALIASES[name]}"
        if name in _ORBIT_ALIASES
        else f"{name} is no element"
        for name in unknown
    ]
    raise TypeError(f"Orbit has long names: {', '.join(got)}; see help(nbody.Orbit)")


def check_together(given: Mapping[str, Any], omega_of: str):
    """Refuse two ways to say one thing, and what nothing can be made of."""
    for ways, least in ((_SIZE, 1), (_SHAPE, 0), (_TILT, 0), (_PLACE, 0)):
        _check_one_of(given, ways, least)
    _check_one_of(given, tuple((name,) for name in _ANGLES), 0)
    if ("impact_parameter" in given) != ("star_radius" in given):
        raise TypeError(
            "impact_parameter and star_radius belong together: the one is in units of "
            "the other, a length as semi_major_axis is"
        )
    by_vector = [name for ways in _SHAPE[1:] for name in ways if name in given]
    angles = [name for name in _ANGLES if name in given]
    if by_vector and angles:
        raise TypeError(
            f"{angles[0]} is already in {', '.join(by_vector)}; leave one of them out"
        )
    if {"ix", "iy"} & given.keys() and "longitude_of_ascending_node" in given:
        raise TypeError(
            "longitude_of_ascending_node is already in ix, iy; leave it out"
        )
    _check_placed(given, by_vector)
    if omega_of not in ("planet", "star"):
        raise ValueError(f'omega_of must be "planet" or "star", got {omega_of!r}')


def _check_one_of(given, ways, least):
    found = [way for way in ways if any(name in given for name in way)]
    if len(found) > 1:
        got = [next(name for name in way if name in given) for way in found]
        count = "both" if len(got) == 2 else f"all {len(got)}"
        raise TypeError(f"Orbit takes one of {' and '.join(got)}, got {count}")
    if len(found) < least:
        raise TypeError(
            f"Orbit needs {' or '.join(way[0] for way in ways)}, a time or a length"
        )


def _check_placed(given, by_vector):
    placed = [name for (name,) in _PLACE if name in given]
    if by_vector and not placed:
        raise TypeError(
            f"Orbit needs a place beside {', '.join(by_vector)}, which may be a circle "
            "without a pericenter: mean_longitude or time_of_transit, say"
        )
    tilted = any(name in given for way in _TILT for name in way)
    if "time_of_transit" in given and not tilted:
        raise TypeError(
            "time_of_transit needs inclination: seen along z an orbit in the plane of "
            "x and y is face-on; inclination=numpy.pi / 2 is edge-on"
        )


def check_values(given: Mapping[str, Any]):
    """Refuse concrete values that no orbit has."""
    for name in ("period", "star_radius"):
        if name in given:
            positive(name, given[name])
    if "inclination" in given:
        check_inclination(given["inclination"])
    _check_eccentricity(given)


def turns_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The angles that are within a turn as a rule: M alone grows with time."""
    names = (
        *("longitude_of_ascending_node", *_ANGLES),
        *("true_anomaly", "eccentric_anomaly", "mean_longitude"),
    )
    return {name: given[name] for name in names if name in given}


def _check_eccentricity(given):
    if "eccentricity" in given and not is_unchecked(given["eccentricity"]):
        e = np.ravel(given["eccentricity"])
        check_curved(given["eccentricity"])
        if np.any(e < 0):
            raise ValueError(
                f"eccentricity must not be negative, got {np.min(e):g}; turn "
                "argument_of_pericenter by pi instead"
            )
        if "period" in given and np.any(e > 1):
            raise ValueError(
                f"period is of bound orbits, got eccentricity {np.max(e):g}; give "
                "semi_major_axis, which is negative for hyperbolas"
            )
    for names in _SHAPE[1:]:
        parts = [given[name] for name in names if name in given]
        if parts and not is_unchecked(*parts):
            e = np.asarray(sum(np.asarray(part) ** 2 for part in parts))
            if np.any(e >= 1):
                raise ValueError(
                    f"{' and '.join(names)} must have squares that add to less than "
                    f"1, got {np.max(e):g}: these are ellipses; give eccentricity and "
                    "a negative semi_major_axis for hyperbolas"
                )


def check_dates(given: Mapping[str, Any], period: Any):
    """Refuse dates that single precision knows to less than 1e-4 of a period."""
    for name in ("time_of_pericenter", "time_of_transit"):
        date = given.get(name)
        if date is None or is_unchecked(date) or is_traced(period):
            continue
        if date.dtype != np.float32:
            continue
        known_to = np.spacing(np.abs(np.asarray(date)))
        if np.any(known_to > 1e-4 * np.asarray(period)):
            raise ValueError(
                f"{name} is {np.max(np.abs(date)):.8g} in float32, known to "
                f"{np.max(known_to):.2g} only, and the period is "
                f"{np.min(period):.6g}; count times from a date of your choice, or "
                "ds.configure(enable_x64=True) before the first array"
            )


def check_crossing(given: Mapping[str, Any], inclination: Any):
    """Refuse an impact parameter farther out than the orbit itself."""
    if "impact_parameter" not in given or is_unchecked(inclination):
        return
    if np.any(np.isnan(inclination)):
        raise ValueError(
            f"impact_parameter * star_radius must be within the orbit, got "
            f"{np.max(np.abs(given['impact_parameter'])):g} times "
            f"{np.max(given['star_radius']):g}; star_radius is in the units of "
            "semi_major_axis, 0.00465 for the Sun in au"
        )
