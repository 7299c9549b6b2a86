"""Checks of a system and a step before a run, where their values are known."""

import warnings
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Array

from .._results import should_return_nan
from .._validation import is_traced
from ..simulations import AbstractSplittingSolver, Method, Separable
from ._wisdom_holman import HybridWisdomHolman
from ._wisdom_holman._kepler_splitting import AbstractKeplerSplitting, check_bodies


#: A step to start with, and the longest that follows an orbit at all, in periods.
_GOOD, _LONGEST = 1 / 20, 1 / 2

#: Of how many times the mass of all others the first body is their center.
_DOMINANT = 10


def check_steps_by_orbits(system: Any, method: Method):
    """Warn of steps too long for orbits; refuse what Kepler solvers do not take."""
    solver, name = method.solver, type(method.solver).__name__
    if isinstance(solver, HybridWisdomHolman):
        solver = solver.map
    if not isinstance(solver, AbstractKeplerSplitting):
        if not method.adaptive and _has_center(system, method.step):
            turns = _turns(*_about_the_first(system))
            _warn_of_a_long_step(system, turns, float(cast(float, method.step)))
        return
    check_bodies(method.solver, system)
    if not isinstance(system.terms(), Separable):
        raise ValueError(
            f"{name} needs forces that depend on positions alone, and one of these "
            "depends on velocity (PostNewtonian and drag do); take nbody.IAS15()"
        )
    if any(is_traced(leaf) for leaf in jax.tree.leaves((system, method.step))):
        return
    softening = float(system.gravity.softening)
    if softening != 0:
        raise ValueError(
            f"{name} follows Kepler orbits, which Gravity(softening={softening:g}) has "
            "none of; take softening=0, or integrators.Leapfrog()"
        )
    _check_center(name, solver.coordinates, np.asarray(system.bodies.masses))
    if method.step is not None:
        # Passages of pericenter are IAS15's in a hybrid.
        hybrid = solver is not method.solver
        orbits = _orbits(system, solver)
        times = _periods(*orbits) if hybrid else _turns(*orbits)
        _warn_of_a_long_step(system, times, float(method.step))


def _check_center(name: str, coordinates: str, masses: np.ndarray):
    if coordinates != "jacobi" and np.any(masses[1:] > masses[0]):
        heavy = int(np.argmax(masses))
        raise ValueError(
            f"{name} with coordinates={coordinates!r} follows orbits about the first "
            f"body, and masses[{heavy}] is larger than masses[0]; put the most massive "
            "body first"
        )
    if masses[0] == 0 and np.any(masses):
        raise ValueError(
            f"{name} follows orbits about the first body, and masses[0] is 0; put the "
            "most massive body first, or take nbody.IAS15()"
        )


def _warn_of_a_long_step(system, times: np.ndarray, step: float):
    body = int(np.argmin(times)) + 1
    period = float(times[body - 1])
    if not step > _LONGEST * period:
        return
    names = system.body_names
    which = f"body {body}" if names is None else names[body]
    warnings.warn(
        f"step={step:.4g} is longer than half of {period:.4g}, the time in which "
        f"{which} turns about the center where it is closest, and does not follow its "
        f"orbit; take a step of {_GOOD * period:.2g}, 1/20 of it",
        # this function, the caller in this file, check_method, simulate's own, the user
        stacklevel=6,
    )


def _periods(gm: np.ndarray, beta: np.ndarray, h2: np.ndarray) -> np.ndarray:
    """Of bound orbits, infinite of the others."""
    del h2
    with np.errstate(all="ignore"):
        return _positive(np.where(beta > 0, 2 * np.pi * gm / beta**1.5, np.inf))


def _turns(gm: np.ndarray, beta: np.ndarray, h2: np.ndarray) -> np.ndarray:
    """Times of a turn at the angular speed of the pericenter, of bound orbits."""
    with np.errstate(all="ignore"):
        e = np.sqrt(np.maximum(1 - beta * h2 / gm**2, 0))
        q = h2 / (gm * (1 + e))
        turn = 2 * np.pi * np.sqrt(q**3 / (gm * (1 + e)))
    return _positive(np.where(beta > 0, turn, np.inf))


def _orbits(system, solver) -> tuple[np.ndarray, ...]:
    """GM, GM / a and the square of the angular momentum of orbits of the solver."""
    with jax.ensure_compile_time_eval():
        frame = solver.constants(system).frame
        x, v = system.initial_state()
        q, w, gm = frame.positions(x), frame.velocities(v), frame.gm
    return _invariants(*(np.asarray(a, float) for a in (q, w, gm)))


def _has_center(system, step: Any) -> bool:
    """Whether it is known what orbits there are, about the first body."""
    if system.gravity is None or step is None:
        return False
    if any(is_traced(leaf) for leaf in jax.tree.leaves((system, step))):
        return False
    masses, others = np.asarray(system.bodies.masses), system.test_particles
    count = masses.size + (0 if others is None else len(others.positions))
    softened = np.any(np.asarray(system.gravity.softening))
    heavy = masses[0] > _DOMINANT * masses[1:].sum()
    return bool(heavy and count > 1 and not softened)


def _about_the_first(system) -> tuple[np.ndarray, ...]:
    """As `_orbits`, with NumPy, as nothing else has to be compiled for a run."""
    some = [system.bodies, system.test_particles]
    parts = [part for part in some if part is not None]
    x = np.concatenate([np.asarray(part.positions, float) for part in parts]).T
    v = np.concatenate([np.asarray(part.velocities, float) for part in parts]).T
    masses = np.asarray(system.bodies.masses, float)
    pairs = np.zeros(x.shape[1])
    pairs[: masses.size] = masses
    gm = float(system.gravity.G) * (masses[0] + pairs[1:])
    return _invariants(x[:, 1:] - x[:, :1], v[:, 1:] - v[:, :1], gm)


def _invariants(q: np.ndarray, w: np.ndarray, gm: np.ndarray) -> tuple[np.ndarray, ...]:
    r = np.linalg.norm(q, axis=0)
    h2 = np.sum(np.cross(q, w, axis=0) ** 2, axis=0)
    with np.errstate(all="ignore"):
        return gm, 2 * gm / r - np.sum(w * w, 0), h2


def _positive(times: np.ndarray) -> np.ndarray:
    # Anything but a number is no orbit to warn of.
    return np.where(times > 0, times, np.inf)


def check_apart_at_start(system: Any, method: Method):
    """Refuse bodies in one place where a splitting would let them drift apart.

    It never sees the force between them, which is infinite. All other solvers do, and
    their run fails, as does that of bodies which stay together.
    """
    splits = isinstance(method.solver, AbstractSplittingSolver)
    if not splits or system.gravity is None or should_return_nan(None):
        return
    start = system.initial_state()
    if any(map(is_traced, jax.tree.leaves((start, system.gravity)))):
        return
    if np.any(np.asarray(system.gravity.softening)):
        return
    x, v = (np.asarray(a).T for a in start)
    # Neighbors in order of their coordinates, bodies of one place by their number.
    order = np.lexsort(x.T)
    first, second = order[:-1], order[1:]
    together = np.all(x[first] == x[second], 1) & np.any(v[first] != v[second], 1)
    # Test particles do not meet each other.
    pairs = np.flatnonzero(together & (first < system.bodies.masses.size))
    if pairs.size:
        j, i = int(first[pairs[0]]), int(second[pairs[0]])
        raise ValueError(
            f"positions must differ, got {pair_names(system, j, i)} in one place at "
            "t0, where their attraction is infinite; move one of them, or give "
            "Gravity(softening=...)"
        )


def closest_pair(system: Any, t: Any, y: tuple[Array, Array]) -> str | None:
    """Name the closest two bodies of the state `y` at `t`, None of fewer than two.

    At least one of them attracts: test particles do not meet each other.
    """
    x = np.asarray(y[0], float).T
    pairs = [
        (*_nearest(x, j), j) for j in range(system.bodies.masses.size) if j + 1 < len(x)
    ]
    if not pairs:
        return None
    distance, i, j = min(pairs)
    begin = np.asarray(system.initial_state()[0], float).T
    separation = np.linalg.norm(begin[i] - begin[j])
    return (
        f"The closest two, {pair_names(system, j, i)}, were {distance:.3g} apart at "
        f"t = {float(t):.6g}, and {separation:.3g} at t0."
    )


def _nearest(x: np.ndarray, j: int) -> tuple[float, int]:
    """The distance and the number of the nearest body after j."""
    # A row at a time: of 10⁴ bodies all at once would be a gigabyte.
    distances = np.linalg.norm(x[j + 1 :] - x[j], axis=1)
    i = int(np.argmin(distances))
    return float(distances[i]), j + 1 + i


def pair_names(system: Any, j: int, i: int) -> str:
    """The names of two bodies, or their numbers."""
    names = system.body_names
    return f"bodies {j} and {i}" if names is None else f"{names[j]} and {names[i]}"
