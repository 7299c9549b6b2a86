"""Ask radvel for the velocities of a star with one planet.

    pip install radvel
    python tools/peers/make_radvel.py

radvel solves Kepler's equation to 1e-10; each answer is worked out a second time with
30 digits.
"""

import mpmath
import numpy as np
import radvel
from _record import write


#: Period in days, time of pericenter, eccentricity, ω of the star, K in m/s.
ORBITS = {
    "circular": (9.3, 1.25, 0.0, 0.0, 25.0),
    "eccentric": (9.3, 1.25, 0.3, 0.7, 25.0),
    "very_eccentric": (111.4, -20.0, 0.92, 5.25, 474.0),
}


def exact(t: float, orbit: tuple[float, ...]) -> float:
    """The Keplerian velocity with 30 digits."""
    period, tp, e, w, k = map(mpmath.mpf, orbit)
    m = 2 * mpmath.pi * (mpmath.mpf(t) - tp) / period
    m -= 2 * mpmath.pi * mpmath.floor(m / (2 * mpmath.pi))
    anomaly = mpmath.findroot(
        lambda x: x - e * mpmath.sin(x) - m, (0, 2 * mpmath.pi), solver="anderson"
    )
    f = 2 * mpmath.atan2(
        mpmath.sqrt(1 + e) * mpmath.sin(anomaly / 2),
        mpmath.sqrt(1 - e) * mpmath.cos(anomaly / 2),
    )
    return float(k * (mpmath.cos(f + w) + e * mpmath.cos(w)))


def problem(orbit: tuple[float, ...]) -> dict:
    t = np.linspace(0.5, 40.5, 21)
    velocities = radvel.kepler.rv_drive(t, list(orbit))
    difference = [v - exact(x, orbit) for x, v in zip(t, velocities, strict=True)]
    return {
        "formula": "K (cos(f + w) + e cos w), positive away from the observer",
        "period": orbit[0],
        "time_of_pericenter": orbit[1],
        "eccentricity": orbit[2],
        "argument_of_pericenter_of_the_star": orbit[3],
        "semi_amplitude": orbit[4],
        "times": t,
        "velocities": velocities,
        "largest_error_of_semi_amplitude": float(np.max(np.abs(difference)) / orbit[4]),
    }


if __name__ == "__main__":
    mpmath.mp.dps = 30
    answers = {name: problem(orbit) for name, orbit in ORBITS.items()}
    write("radvel", ("radvel",), answers)
