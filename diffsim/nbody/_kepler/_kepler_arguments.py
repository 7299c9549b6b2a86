"""Arguments of orbits: their names, what goes together, and values that none has."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import should_return_nan
from ..._validation import (
    check_broadcast,
    finite,
    is_traced,
    not_negative,
    one_of,
    promote_to_common_dtype,
)


#: The meaning of gm, for a sentence.
GM_HINT = "it is G times the sum of both masses"

#: Names of REBOUND, radvel, exoplanet, batman and the literature.
_ALIASES = {
    "a": "semi_major_axis",
    "P": "period",
    "per": "period",
    "period": "period of nbody.Orbit",
    "e": "eccentricity",
    "ecc": "eccentricity",
    "i": "inclination",
    "inc": "inclination",
    "incl": "inclination",
    "Omega": "longitude_of_ascending_node",
    "node": "longitude_of_ascending_node",
    "omega": "argument_of_pericenter",
    "argument_of_periapsis": "argument_of_pericenter",
    "w": 'argument_of_pericenter, with omega_of="star" for that of radvel and batman',
    "pomega": "longitude_of_pericenter",
    "f": "true_anomaly",
    "nu": "true_anomaly",
    "M": "mean_anomaly",
    "mean_anomaly": "mean_anomaly of nbody.Orbit",
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

_SIZES = ("period", "semi_major_axis")
_VECTORS = (
    ("e_cos_omega", "e_sin_omega"),
    ("sqrt_e_cos_omega", "sqrt_e_sin_omega"),
    ("h", "k"),
)
_ANGLES = ("argument_of_pericenter", "longitude_of_pericenter")
_TILTS = (("inclination",), ("impact_parameter", "star_radius"), ("ix", "iy"))
_PLACES = (
    *("true_anomaly", "mean_anomaly", "eccentric_anomaly", "mean_longitude"),
    *("time_of_pericenter", "time_of_transit"),
)

#: Angles that are within a turn as a rule: the mean anomaly alone grows with time.
TURNS = (
    *("longitude_of_ascending_node", *_ANGLES),
    *("true_anomaly", "eccentric_anomaly", "mean_longitude"),
)

#: Ways to say one thing, each by the arguments that it takes.
_EXCLUSIVE: tuple[tuple[tuple[str, ...], ...], ...] = (
    tuple((name,) for name in _SIZES),
    (("eccentricity",), *_VECTORS),
    (_ANGLES, *_VECTORS),
    tuple((name,) for name in _ANGLES),
    _TILTS,
    (("longitude_of_ascending_node",), ("ix", "iy")),
    tuple((name,) for name in _PLACES),
)

#: Arguments that need one of others, and why.
_NEEDED: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (_SIZES, _SIZES, "a time or a length"),
    (("impact_parameter",), ("star_radius",), "its unit, a length"),
    (("star_radius",), ("impact_parameter",), "which is in units of it"),
    (
        tuple(name for pair in _VECTORS for name in pair),
        _PLACES,
        "they may be of a circle, which has no pericenter to begin at",
    ),
    (
        ("time_of_transit",),
        tuple(name for way in _TILTS for name in way),
        "seen along z an orbit in the plane of x and y is face-on; "
        "inclination=numpy.pi / 2 is edge-on",
    ),
)


def check_names(kind: str, unknown: Mapping[str, Any]):
    """Refuse arguments by other names than ours, and say ours."""
    if unknown:
        got = [f"{name} is {_ALIASES.get(name, 'no element')}" for name in unknown]
        raise TypeError(
            f"{kind} has long names: {', '.join(got)}; see help(nbody.{kind}), and "
            "nbody.Orbit, which takes all of them"
        )


def check_together(values: Mapping[str, Any], omega_of: str):
    """Refuse two ways to say one thing, and what nothing can be made of."""
    one_of("omega_of", omega_of, ("planet", "star"))
    for ways in _EXCLUSIVE:
        used = [[name for name in way if name in values] for way in ways]
        first = [names[0] for names in used if names]
        if len(first) > 1:
            raise TypeError(f"Orbit takes one of {' and '.join(first)}, got several")
    for names, needed, why in _NEEDED:
        having = [name for name in names if name in values]
        if (having or names is needed) and not any(name in values for name in needed):
            beside = f" beside {', '.join(having)}" if having else ""
            raise TypeError(f"Orbit needs {' or '.join(needed)}{beside}: {why}")


def leaves_of(values: Mapping[str, Any]) -> dict[str, Array]:
    """Numbers as floating arrays of one dtype and shape."""
    arrays = promote_to_common_dtype(**values)
    check_broadcast(**{k: a.shape for k, a in zip(values, arrays, strict=True)})
    return dict(zip(values, jnp.broadcast_arrays(*arrays), strict=True))


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
    shapes = {name: a.shape for name, a in zip(scalars, rest, strict=True)}
    check_broadcast(**leading, **shapes)
    return arrays


def gm_like(gm: Any, elements: Mapping[str, Array]) -> Array:
    """`gm` in the dtype of elements, with which it broadcasts."""
    gm, *leaves = promote_to_common_dtype(gm=gm, **elements)
    shape = np.broadcast_shapes(*(leaf.shape for leaf in leaves))
    check_broadcast(gm=gm.shape, elements=shape)
    return not_negative("gm", gm, GM_HINT)


def is_unchecked(*values: Array) -> bool:
    """Whether values are unknown, or a failure is to be NaN: there is no such state."""
    return should_return_nan(None) or any(map(is_traced, values))


def check_where(
    is_wrong: Callable[..., Any],
    sentence: str,
    *values: Array,
    becomes_nan: bool = True,
):
    """Raise `sentence`, filled with the first of the known values that are wrong.

    Values whose state is NaN pass where failures are to be NaN; others never do.
    """
    if any(map(is_traced, values)) or (becomes_nan and is_unchecked(*values)):
        return
    arrays = [np.ravel(a) for a in np.broadcast_arrays(*values)]
    with np.errstate(invalid="ignore"):
        wrong = is_wrong(*arrays)
    if np.any(wrong):
        raise ValueError(sentence.format(*(a[wrong][0] for a in arrays)))


def check_finite(leaves: Mapping[str, Any]):
    """Refuse elements that are infinite or not a number."""
    for name, leaf in leaves.items():
        if leaf is not None and not should_return_nan(None):
            hint = "of a parabola give the position and velocity themselves"
            finite(name, leaf, hint if name == "semi_major_axis" else "")


def check_eccentricity(e: Array):
    hint = "turn argument_of_pericenter by pi instead"
    check_where(lambda e: e < 0, f"eccentricity must be from 0, got {{:g}}; {hint}", e)


def check_curved(e: Array):
    what = "a fall through the center, or a parabola, which has no semi_major_axis"
    sentence = f"eccentricity must not be 1, {what}"
    check_where(lambda e: e == 1, sentence, e, becomes_nan=False)


def check_conic(a: Array, e: Array, f: Array):
    """Refuse a semi-major axis of the wrong sign, and an f beyond the asymptotes."""
    check_where(lambda a: a == 0, "semi_major_axis must not be 0", a)
    # An orbit that falls through the center has e = 1, to rounding.
    rounding = np.finfo(e.dtype).eps ** 0.5
    sign = "semi_major_axis must be negative where e > 1 and only there, got {}, e = {}"
    check_where(lambda a, e: a * (1 - e) < -rounding * abs(a), sign, a, e)
    bound = "true_anomaly must lie between the asymptotes, got {} at eccentricity {}"
    check_where(lambda f, e: (e > 1) & (1 + e * np.cos(f) <= 0), bound, f, e)


def check_inclination(i: Array):
    most = np.pi + 4 * np.finfo(i.dtype).eps
    sentence = (
        "inclination must be from 0 to pi, in radians, got {:g}; numpy.deg2rad(...) "
        "converts degrees; turn longitude_of_ascending_node by pi for a negative one"
    )
    check_where(lambda i: (i < 0) | (i > most), sentence, i, becomes_nan=False)


def warn_of_degrees(**angles: Array):
    """Warn where every angle that is not zero is beyond a whole turn."""
    if any(map(is_traced, angles.values())):
        return
    sizes = np.abs(np.concatenate([[0.0], *map(np.ravel, angles.values())]))
    least = np.min(sizes, initial=np.inf, where=sizes > 0)
    if np.isfinite(least) and least > 2 * np.pi:
        warnings.warn(
            f"{', '.join(angles)} are all beyond 2 pi (the smallest is {least:g}): "
            "angles are in radians; if these are degrees, take numpy.deg2rad(...)",
            # this function, the constructor, Equinox's, the caller
            stacklevel=4,
        )


def check_orbit(values: Mapping[str, Array]):
    """Refuse eccentricities and inclinations that no orbit by these arguments has."""
    if (e := values.get("eccentricity")) is not None:
        check_curved(e)
        check_eccentricity(e)
        if "period" in values:
            hint = "give a negative semi_major_axis"
            bound = f"period is of bound orbits, got eccentricity {{:g}}; {hint}"
            check_where(lambda e: e > 1, bound, e)
    for names in _VECTORS:
        parts = [values[name] for name in names if name in values]
        if parts:
            ellipse = f"{' and '.join(names)} must have squares that add to less than 1"
            check_where(lambda *xs: sum(x * x for x in xs) >= 1, ellipse, *parts)
    if "inclination" in values:
        check_inclination(values["inclination"])


def check_dates(values: Mapping[str, Array], period: Any):
    """Refuse dates that single precision knows to less than 1e-4 of a period."""
    for name in values.keys() & {"time_of_pericenter", "time_of_transit"}:
        if values[name].dtype == np.float32:
            sentence = (
                f"{name} is {{:.8g}} in float32, known to less than 1e-4 of the "
                "period, {:.6g}; count times from a date of your choice, or "
                "ds.configure(enable_x64=True) before the first array"
            )
            check_where(_is_coarse, sentence, values[name], period)


def _is_coarse(date: np.ndarray, period: np.ndarray) -> np.ndarray:
    return np.spacing(np.abs(date)) > 1e-4 * period


def check_apart(x: Array):
    """Refuse the orbit of two bodies in one place."""
    together = [] if is_unchecked(x) else np.argwhere(np.all(np.asarray(x) == 0, -1))
    if len(together):
        raise ValueError(
            "x must not be zero, the place of one body relative to the other, got 0 at "
            f"{together[0].tolist()}"
        )
