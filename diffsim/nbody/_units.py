"""G in named systems of units."""

import difflib
from collections.abc import Iterator, Mapping


# IAU 2015 Resolution B3: GM of the Sun and of the Earth, m³/s²; IAU 2012: the au, m;
# IAU 2015 Resolution B2: the parsec as 648 000/π au; CODATA 2018: G, m³/(kg s²).
_GM_SUN, _GM_EARTH = 1.3271244e20, 3.986004e14
_AU, _G_SI = 149_597_870_700.0, 6.67430e-11
_DAY = 86_400.0
_YEAR = 365.25 * _DAY
_PARSEC = 648_000 / 3.141592653589793 * _AU

#: Any three of these, "Rsun, Mjup, hr", have a G: lengths in m, GM of masses in m³/s²
#: (radii are equatorial ones, IAU 2015 B3), times in s.
_LENGTHS = {
    "m": 1.0,
    "cm": 1e-2,
    "km": 1e3,
    "Rearth": 6.3781e6,
    "Rjup": 7.1492e7,
    "Rsun": 6.957e8,
    "au": _AU,
    "pc": _PARSEC,
    "kpc": 1e3 * _PARSEC,
    "Mpc": 1e6 * _PARSEC,
}
_MASSES = {
    "kg": _G_SI,
    "g": 1e-3 * _G_SI,
    "Mearth": _GM_EARTH,
    "Mjup": 1.2668653e17,
    "Msun": _GM_SUN,
}
_TIMES = {
    "s": 1.0,
    "min": 60.0,
    "hr": 3600.0,
    "day": _DAY,
    "yr": _YEAR,
    "yr/2pi": _YEAR / 6.283185307179586,
    "kyr": 1e3 * _YEAR,
    "Myr": 1e6 * _YEAR,
    "Gyr": 1e9 * _YEAR,
}


def _composed(units: object) -> float | None:
    """G of "length, mass, time" of the tables, None of anything else."""
    text = "cm, g, s" if units == "cgs" else str(units)
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3:
        return None
    length, mass, time = parts
    if length not in _LENGTHS or mass not in _MASSES:
        return None
    unit = _LENGTHS[length]
    if time == "km/s":
        return _MASSES[mass] / unit * 1e-6
    if time == "m/s":
        return _MASSES[mass] / unit
    return _MASSES[mass] / unit**3 * _TIMES[time] ** 2 if time in _TIMES else None


class _Constants(Mapping[str, float]):
    """Numbers by name, and the names in the error for one that is not there."""

    def __init__(self, values: dict[str, float]):
        self._values = values

    def __getitem__(self, units: str) -> float:
        if units in self._values:
            return self._values[units]
        composed = _composed(units)
        if composed is not None:
            return composed
        lower = {name.lower(): name for name in self._values}
        near = difflib.get_close_matches(str(units).lower(), lower, n=1, cutoff=0.5)
        guess = f"did you mean {lower[near[0]]!r}? " if near else ""
        listed = "; ".join(map(repr, self._values))
        raise KeyError(
            f"G is not known in {units!r}: {guess}There are {listed}; "
            f"and any length, mass, time of {', '.join(_LENGTHS)}; "
            f"{', '.join(_MASSES)}; {', '.join(_TIMES)}, km/s or m/s for a time"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


#: G by units of length, mass and time: `nbody.G["au, Msun, day"]`.
#:
#: Any length, mass and time of the tables above will do, "Rsun, Msun, hr", and "cgs".
#:
#: From the IAU nominal solar mass parameter, known to ten digits, and not from G and a
#: mass in kilograms, known to four. Sources: IAU 2015 Resolutions B2 and B3
#: (arXiv:1510.07674), IAU 2012 Resolution B2, CODATA 2018.
G = _Constants(
    {
        "natural": 1.0,
        "au, Msun, day": _GM_SUN / _AU**3 * _DAY**2,
        "au, Msun, yr": _GM_SUN / _AU**3 * _YEAR**2,
        "au, Msun, yr/2pi": _GM_SUN / _AU**3 * (_YEAR / 6.283185307179586) ** 2,
        "pc, Msun, km/s": _GM_SUN / _PARSEC * 1e-6,
        "kpc, Msun, Myr": _GM_SUN / (1e3 * _PARSEC) ** 3 * (1e6 * _YEAR) ** 2,
        "km, Mearth, s": _GM_EARTH * 1e-9,
        "SI": _G_SI,
    }
)
