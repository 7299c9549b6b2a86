"""Checks of bodies and steps before a run, and the sentence after one that failed."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from .._results import should_return_nan
from .._validation import is_traced
from ..simulations import AbstractSplittingSolver, Method
from ._bodies_arguments import any_traced, body_label, pair_names
from ._wisdom_holman import HybridWisdomHolman
from ._wisdom_holman._kepler_splitting import AbstractKeplerSplitting, check_bodies


#: A step to start with, and the longest that follows an orbit at all, in periods.
_GOOD, _LONGEST = 1 / 20, 1 / 2

#: The first body is the center if it has this many times the mass of all others.
_DOMINANT = 10


class PairOrbits(NamedTuple):
    """Osculating orbits, whose times are infinite where they are not bound.

    `turn` is the time of a turn at the angular speed of the pericenter.
    """

    turn: np.ndarray
    period: np.ndarray
    eccentricity: np.ndarray
    pericenter: np.ndarray
    distance: np.ndarray


def pair_orbits(system: Any, j: int) -> PairOrbits:
    """Orbits of all later bodies about body j, each as if the others were not there."""
    # With NumPy: nothing else has to be compiled for a run.
    parts = [
        part for part in (system.bodies, system.test_particles) if part is not None
    ]
    x = np.concatenate([np.asarray(part.positions, float) for part in parts])
    v = np.concatenate([np.asarray(part.velocities, float) for part in parts])
    masses = np.asarray(system.bodies.masses, float)
    gm = float(system.gravity.G) * np.pad(masses, (0, len(x) - masses.size))
    others = slice(j + 1, None)
    return _osculating(x[others] - x[j], v[others] - v[j], gm[others] + gm[j])


def _osculating(x: np.ndarray, v: np.ndarray, gm: np.ndarray) -> PairOrbits:
    with np.errstate(all="ignore"):
        r = np.linalg.norm(x, axis=1)
        beta = 2 * gm / r - np.sum(v * v, 1)
        p = np.sum(np.cross(x, v) ** 2, 1) / gm
        e = np.sqrt(np.maximum(1 - beta * p / gm, 0))
        q = p / (1 + e)
        turn = 2 * np.pi * np.sqrt(q**3 / (gm * (1 + e)))
        period = 2 * np.pi * gm / beta**1.5
    turn, period = (
        np.where((beta > 0) & np.isfinite(time), time, np.inf)
        for time in (turn, period)
    )
    return PairOrbits(turn, period, e, q, r)


def check_steps_by_orbits(system: Any, method: Method):
    """Warn of steps too long for orbits; refuse what Kepler solvers do not take."""
    solver = method.solver
    solver = solver.map if isinstance(solver, HybridWisdomHolman) else solver
    if isinstance(solver, AbstractKeplerSplitting):
        check_bodies(method.solver, system)
        _check_center(solver, system.bodies.masses)
    times = _times_of_turns(system, method, solver)
    if times is not None:
        _warn_of_a_long_step(system, times, method.step)


def _check_center(solver: AbstractKeplerSplitting, masses: Any):
    if is_traced(masses):
        return
    masses = np.asarray(masses)
    heavy = 0 if solver.coordinates == "jacobi" else int(np.argmax(masses))
    if masses[0] < masses[heavy] or (masses[0] == 0 and np.any(masses)):
        raise ValueError(
            f"{type(solver).__name__} follows orbits about the first body, got a mass "
            f"of {masses[0]:g} and one of {np.max(masses):g}; put the most massive "
            "body first, or take nbody.IAS15()"
        )


def _times_of_turns(system: Any, method: Method, solver: Any) -> np.ndarray | None:
    """Times that steps have to resolve, of orbits about a center, None if unknown."""
    if method.step is None or any_traced(system, method.step):
        return None
    if isinstance(solver, AbstractKeplerSplitting):
        with jax.ensure_compile_time_eval():
            frame = solver.constants(system).frame
            x, v = system.initial_state()
            parts = frame.positions(x).T, frame.velocities(v).T, frame.gm
        orbits = _osculating(*(np.asarray(part, float) for part in parts))
        # Passages of pericenter are IAS15's in a hybrid.
        return orbits.turn if solver is method.solver else orbits.period
    if method.adaptive or system.gravity is None or float(system.gravity.softening):
        return None
    masses = np.asarray(system.bodies.masses)
    alone = masses.size == 1 and system.test_particles is None
    heavy = masses[0] > _DOMINANT * masses[1:].sum()
    return pair_orbits(system, 0).turn if heavy and not alone else None


def _warn_of_a_long_step(system: Any, times: np.ndarray, step: Any):
    times = np.where(times > 0, times, np.inf)  # a fall through the center has no turn
    body, step = int(np.argmin(times)) + 1, float(step)
    period = float(times[body - 1])
    if step > _LONGEST * period:
        warnings.warn(
            f"step={step:.4g} is longer than half of {period:.4g}, the time in which "
            f"{body_label(system, body)} turns about the center where it is closest, "
            "and does not follow its orbit; take a step of "
            f"{_GOOD * period:.2g}, 1/20 of it",
            # this function, its caller, check_method, simulate's own, the user
            stacklevel=6,
        )


def check_apart_at_start(system: Any, method: Method):
    """Refuse bodies in one place where a splitting would let them drift apart.

    It never sees the force between them, which is infinite. All other solvers do, and
    their run fails, as does that of bodies which stay together.
    """
    splits = isinstance(method.solver, AbstractSplittingSolver)
    if not splits or system.gravity is None or should_return_nan(None):
        return
    start = system.initial_state()
    if any_traced(start, system.gravity) or float(system.gravity.softening):
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
            "t0; move one of them, or give Gravity(softening=...)"
        )


def closest_pair(system: Any, t: Any, y: tuple[Array, Array]) -> str | None:
    """Name the closest two bodies of the state `y` at `t`, None of fewer than two.

    At least one of them attracts: test particles do not meet each other.
    """
    x = np.asarray(y[0], float).T
    pairs = []
    for j in range(min(system.bodies.masses.size, len(x) - 1)):
        # A row at a time: of 10⁴ bodies all at once would be a gigabyte.
        distances = np.linalg.norm(x[j + 1 :] - x[j], axis=1)
        i = int(np.argmin(distances))
        pairs.append((float(distances[i]), j + 1 + i, j))
    if not pairs:
        return None
    distance, i, j = min(pairs)
    begin = np.asarray(system.initial_state()[0], float).T
    separation = np.linalg.norm(begin[i] - begin[j])
    return (
        f"The closest two, {pair_names(system, j, i)}, were {distance:.3g} apart at "
        f"t = {float(t):.6g}, and {separation:.3g} at t0."
    )
