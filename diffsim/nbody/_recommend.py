"""`recommend_method`: fixed steps for orbits that are known."""

from typing import Any, NamedTuple

import diffrax
import numpy as np

from .._validation import instance, is_traced
from ..integrators import KahanLi8
from ..simulations import Method, Separable
from ._gauss_radau import IAS15
from ._nbody import NBody
from ._run_checks import pair_names
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
    if is_traced(system.bodies.positions) or is_traced(system.bodies.masses):
        raise ValueError(
            "recommend_method needs concrete bodies, and these are traced: call it "
            "outside jit, grad and fit, and hand its method over"
        )
    if not isinstance(system.terms(), Separable):
        return _adaptive("forces depend on velocity")
    found = _shortest_orbit(system)
    if found is None:
        return _adaptive("no two bodies are bound to each other")
    time, eccentricity, pair = found
    if eccentricity > _ECCENTRIC:
        return _adaptive(
            f"the orbit of {pair} has an eccentricity of {eccentricity:.2g}"
        )
    solver, why = _solver(system)
    steps = _STEPS[type(solver)]
    step = _rounded_down(time / steps)
    print(
        f"{type(solver).__name__} at step {step:g}, {steps} in the {time:.4g} in which "
        f"{pair} turn at pericenter: {why}"
    )
    return Method(solver, step=step)


def _adaptive(why: str) -> Method:
    print(
        f"IAS15, whose steps follow the motion: {why}, and fixed steps would not serve"
    )
    return Method(IAS15())


def _solver(system: NBody) -> tuple[diffrax.AbstractSolver[Any], str]:
    """The solver of fixed steps, and why."""
    about = _planets(system)
    if about is None:
        return (
            KahanLi8(),
            "the first body is not the center of all; no close encounters",
        )
    near = _nearest(about)
    if near < _APART:
        why = f"orbits about the center come within {near:.2g} mutual Hill radii"
        return HybridWisdomHolman(corrector=17), why
    why = "orbits about a center that stay apart; no close encounters"
    if np.all(np.diff(about.distance) > 0):
        return WisdomHolman(corrector=17, kernel="lazy"), why
    return WisdomHolman(coordinates="whds", corrector=17), why


class _Planets(NamedTuple):
    """Orbits about the center: nearest and farthest points, present ones, masses."""

    pericenter: np.ndarray
    apocenter: np.ndarray
    distance: np.ndarray
    mass: np.ndarray


def _planets(system: NBody) -> _Planets | None:
    """Orbits about the first body, if it is the center of all and none has a moon."""
    masses = np.asarray(system.bodies.masses, float)
    assert system.gravity is not None
    if masses[0] < _HEAVY * masses[1:].sum() or float(system.gravity.softening):
        return None
    pairs = [_pairs(system, j) for j in range(masses.size)]
    if np.any(np.isfinite(np.concatenate([p.time for p in pairs[1:]]))):
        return None
    center = pairs[0]
    if not np.all(np.isfinite(center.time)):
        return None
    light = np.pad(masses[1:], (0, center.time.size - masses.size + 1)) / masses[0]
    q, e = center.pericenter, center.eccentricity
    return _Planets(q, q * (1 + e) / (1 - e), center.distance, light)


def _nearest(planets: _Planets) -> float:
    """Least gap between two orbits, in mutual Hill radii; those without mass have none.

    However they are turned: of the ranges of distance that they pass.
    """
    order = np.argsort(planets.pericenter)
    q, away, mass = (
        a[order] for a in (planets.pericenter, planets.apocenter, planets.mass)
    )
    i, j = np.triu_indices(q.size, 1)
    hill = np.cbrt((mass[i] + mass[j]) / 3) * (q[i] + q[j] + away[i] + away[j]) / 4
    gaps = (q[j] - away[i])[hill > 0] / hill[hill > 0]
    return float(np.min(gaps, initial=np.inf))


class _Pairs(NamedTuple):
    """Orbits of all later bodies about one; the time is infinite of unbound ones."""

    time: np.ndarray
    eccentricity: np.ndarray
    pericenter: np.ndarray
    distance: np.ndarray


def _pairs(system: NBody, j: int) -> _Pairs:
    assert system.gravity is not None
    masses = np.asarray(system.bodies.masses, float)
    x, v = (np.asarray(a, float).T for a in system.initial_state())
    gm = float(system.gravity.G) * np.pad(masses, (0, len(x) - masses.size))
    others = slice(j + 1, None)
    return _orbits(x[others] - x[j], v[others] - v[j], gm[others] + gm[j])


def _shortest_orbit(system: NBody) -> tuple[float, float, str] | None:
    """Time, eccentricity and names of the pair with the shortest pericenter time."""
    if system.gravity is None:
        return None
    best = None
    for j in range(system.bodies.masses.size):
        found = _pairs(system, j)
        i = int(np.argmin(found.time)) if found.time.size else 0
        shortest = np.inf if best is None else best[0]
        if found.time.size and found.time[i] < shortest:
            names = pair_names(system, j, j + 1 + i)
            best = float(found.time[i]), float(found.eccentricity[i]), names
    return best


def _orbits(x, v, mu) -> _Pairs:
    with np.errstate(all="ignore"):
        r = np.linalg.norm(x, axis=1)
        energy = np.sum(v * v, 1) / 2 - mu / r
        p = np.sum(np.cross(x, v) ** 2, 1) / mu
        e = np.sqrt(np.maximum(1 + 2 * energy * p / mu, 0))
        q = p / (1 + e)
        time = 2 * np.pi * np.sqrt(q**3 / (mu * (1 + e)))
    time = np.where((energy < 0) & np.isfinite(time), time, np.inf)
    return _Pairs(time, e, q, r)


def _rounded_down(step: float) -> float:
    """Two digits of it: a step that one can write down."""
    unit = 10.0 ** (np.floor(np.log10(step)) - 1)
    return float(np.floor(step / unit) * unit)
