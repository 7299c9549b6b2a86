"""Transit times by REBOUND, as its documentation finds them."""

from typing import Any

import numpy as np


#: Days between looks at the sides of the star, and when its bisection is over.
_LOOK, _CLOSE = 0.5, 1e-7


def rebound_transits(simulation: Any, counts: list[int]) -> list[np.ndarray]:
    """The first transits of each planet in front of particle 0, seen from +x.

    A change of the side on which a planet is seen is bisected in time, by integrations
    to and fro; one step of Newton's method from there is right to the last digits.
    """
    found: list[list[float]] = [[] for _ in counts]
    bodies = simulation.particles
    sides = _sides(bodies, len(counts))
    while any(len(times) < n for times, n in zip(found, counts, strict=True)):
        before = simulation.t
        simulation.integrate(before + _LOOK)
        now = _sides(bodies, len(counts))
        for i, planet in enumerate(bodies[1:]):
            if sides[i] * now[i] < 0 and planet.x > bodies[0].x:
                found[i].append(_crossing(simulation, i + 1, before, sides[i]))
                simulation.integrate(before + _LOOK)
        sides = now
    return [np.array(times[:n]) for times, n in zip(found, counts, strict=True)]


def _sides(bodies: Any, count: int) -> list[float]:
    return [bodies[i + 1].y - bodies[0].y for i in range(count)]


def _crossing(simulation: Any, i: int, begin: float, side: float) -> float:
    star, planet = simulation.particles[0], simulation.particles[i]
    end = begin + _LOOK
    while end - begin > _CLOSE:
        simulation.integrate((begin + end) / 2)
        if side * (planet.y - star.y) < 0:
            end = simulation.t
        else:
            begin = simulation.t
    return simulation.t - (planet.y - star.y) / (planet.vy - star.vy)
