"""`recommend_method`: fixed steps for orbits that are known."""

from typing import Any, NamedTuple

import numpy as np

from .._validation import check_known, instance
from ..integrators import KahanLi8
from ..simulations import Method, Separable
from ._bodies_arguments import pair_names
from ._gauss_radau import IAS15
from ._nbody import NBody
from ._run_checks import PairOrbits, pair_orbits
from ._wisdom_holman import HybridWisdomHolman, WisdomHolman


#: Steps in the time of a turn at the angular speed of the pericenter.
_STEPS = {KahanLi8: 60, WisdomHolman: 40, HybridWisdomHolman: 40}

#: Above it steps that shrink at the pericenter cost less than the shortest at all.
_ECCENTRIC = 0.3

#: A center outweighs everything else by this much.
_HEAVY = 20

#: Orbits as near as this, in mutual Hill radii, lead to encounters (Gladman 1993).
_APART = 2 * np.sqrt(3)


def recommend_method(system: Any) -> Method:
    r"""Return a method for the orbits of `system` at `t0`, and print why.

    ```python
    system = problems.variations()
    method = nbody.recommend_method(system)
    ds.simulate(system, jnp.linspace(0.0, 100.0, 50), method)
    ```

    Fixed steps, whose result is a smooth function of the parameters, by the shortest

    $$T_q = 2\pi \sqrt{\frac{q^3}{\mu\,(1 + e)}}$$

    of all pairs that are bound to each other: q is the pericenter distance, and
    $T_q$ is the period of a circular orbit.

    - Planets about a body that outweighs them 20 times: `WisdomHolman` with corrector
      and lazy kernel at $T_q/40$, some 20 times as fast as the default. After 100
      periods positions are within 1e-8 of the innermost distance (default: 2e-10),
      energies within 1e-9.
    - The same with orbits that come within $2\sqrt3$ mutual Hill radii of each other:
      `HybridWisdomHolman` with corrector at $T_q/40$.
    - All others, binaries and moons among them: `KahanLi8` at $T_q/60$, as exact as
      the default and up to 5 times as fast.

    `IAS15`, whose steps follow the motion, where fixed steps do not serve: forces that
    depend on velocity, no pair that is bound, or an eccentricity above 0.3.

    **Arguments:** `system`, concrete: the step is a Python number, fixed while tracing.

    **Raises:** `ValueError` while tracing.

    **Limits:** it knows the orbits at `t0` alone (mathematics). For transit times in a
    fit, which compile the step of a solver several times, the default is ready soonest
    (convenience).
    """
    instance("system", system, NBody, "nbody.NBody(bodies)")
    check_known("system", system)
    if not isinstance(system.terms(), Separable):
        return _adaptive("forces depend on velocity")
    shortest = _shortest_orbit(system)
    if shortest is None:
        return _adaptive("no two bodies are bound to each other")
    turn, eccentricity, pair = shortest
    if eccentricity > _ECCENTRIC:
        return _adaptive(
            f"the orbit of {pair} has an eccentricity of {eccentricity:.2g}"
        )
    planets = _planets(system)
    near = np.inf if planets is None else _nearest(planets)
    if planets is None:
        solver: Any = KahanLi8()
        why = "the first body is not the center of all; no close encounters"
    elif near < _APART:
        solver = HybridWisdomHolman(corrector=17)
        why = f"orbits about the center come within {near:.2g} mutual Hill radii"
    else:
        why = "orbits about a center that stay apart; no close encounters"
        ordered = np.all(np.diff(planets.orbits.distance) > 0)
        choice = {"kernel": "lazy"} if ordered else {"coordinates": "whds"}
        solver = WisdomHolman(corrector=17, **choice)
    steps = _STEPS[type(solver)]
    # Two digits of it: a step that one can write down.
    unit = 10.0 ** (np.floor(np.log10(turn / steps)) - 1)
    step = float(np.floor(turn / steps / unit) * unit)
    print(
        f"{type(solver).__name__} at step {step:g}, {steps} in the {turn:.4g} in which "
        f"{pair} turn at pericenter: {why}"
    )
    return Method(solver, step=step)


def _adaptive(why: str) -> Method:
    print(
        f"IAS15, whose steps follow the motion: {why}, and fixed steps would not serve"
    )
    return Method(IAS15())


def _shortest_orbit(system: NBody) -> tuple[float, float, str] | None:
    """Time, eccentricity and names of the pair with the shortest pericenter time."""
    shortest = None
    for j in range(system.bodies.masses.size if system.gravity else 0):
        orbits = pair_orbits(system, j)
        i = int(np.argmin(orbits.turn)) if orbits.turn.size else 0
        least = np.inf if shortest is None else shortest[0]
        if orbits.turn.size and orbits.turn[i] < least:
            names = pair_names(system, j, j + 1 + i)
            shortest = float(orbits.turn[i]), float(orbits.eccentricity[i]), names
    return shortest


class _Planets(NamedTuple):
    """Orbits about the center, and masses in units of its mass."""

    orbits: PairOrbits
    masses: np.ndarray


def _planets(system: NBody) -> _Planets | None:
    """Orbits about the first body, if it is the center of all and none has a moon."""
    masses = np.asarray(system.bodies.masses, float)
    assert system.gravity is not None
    if masses[0] < _HEAVY * masses[1:].sum() or float(system.gravity.softening):
        return None
    center, *others = (pair_orbits(system, j) for j in range(masses.size))
    moons = any(np.any(np.isfinite(orbits.turn)) for orbits in others)
    if moons or not np.all(np.isfinite(center.turn)):
        return None
    light = np.pad(masses[1:], (0, center.turn.size - masses.size + 1))
    return _Planets(center, light / masses[0])


def _nearest(planets: _Planets) -> float:
    """Least gap between two orbits, in mutual Hill radii; those without mass have none.

    However they are turned: of the ranges of distance that they pass.
    """
    order = np.argsort(planets.orbits.pericenter)
    q, e = planets.orbits.pericenter[order], planets.orbits.eccentricity[order]
    mass, away = planets.masses[order], q * (1 + e) / (1 - e)
    i, j = np.triu_indices(q.size, 1)
    hill = np.cbrt((mass[i] + mass[j]) / 3) * (q[i] + q[j] + away[i] + away[j]) / 4
    gaps = (q[j] - away[i])[hill > 0] / hill[hill > 0]
    return float(np.min(gaps, initial=np.inf))
