"""G in named systems of units."""

from types import MappingProxyType


# IAU 2015 Resolution B3: GM of the Sun and of the Earth, m³/s²; IAU 2012: the au, m;
# IAU 2015 Resolution B2: the parsec as 648 000/π au; CODATA 2018: G, m³/(kg s²).
_GM_SUN, _GM_EARTH = 1.3271244e20, 3.986004e14
_AU, _G_SI = 149_597_870_700.0, 6.67430e-11
_DAY = 86_400.0
_YEAR = 365.25 * _DAY
_PARSEC = 648_000 / 3.141592653589793 * _AU

#: G by units of length, mass and time: `nbody.G["au, Msun, day"]`.
#:
#: From the IAU nominal solar mass parameter, known to ten digits, and not from G and a
#: mass in kilograms, known to four. Sources: IAU 2015 Resolutions B2 and B3
#: (arXiv:1510.07674), IAU 2012 Resolution B2, CODATA 2018.
G = MappingProxyType(
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
