"""Validation of `Orbit`: what goes together, and what no orbit has."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._validation import is_traced, positive
from ._conic_checks import check_curved, is_unchecked
from ._kepler_arguments import check_inclination


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
_ALIASES = {
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
        f"{name} is {_ALIASES[name]}" if name in _ALIASES else f"{name} is no element"
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
