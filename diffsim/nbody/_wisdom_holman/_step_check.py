"""Checks of a system and a step before a run, where their values are known."""

import warnings
from typing import Any

import jax
import numpy as np

from ..._validation import is_traced
from ...simulations import Method, Separable
from ._hybrid import HybridWisdomHolman
from ._kepler_splitting import AbstractKeplerSplitting, check_bodies


#: A step to start with, and the longest that follows an orbit at all, in periods.
_GOOD, _LONGEST = 1 / 20, 1 / 2


def check_kepler_splitting(system: Any, method: Method):
    """Refuse systems that solvers by Kepler orbits do not take, warn of long steps."""
    solver, name = method.solver, type(method.solver).__name__
    if isinstance(solver, HybridWisdomHolman):
        solver = solver.map
    if not isinstance(solver, AbstractKeplerSplitting):
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
        times = _periods(system, solver) if hybrid else _turns(system, solver)
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


def _periods(system, solver) -> np.ndarray:
    """Of bound orbits in the frame of the solver, infinite of the others."""
    gm, beta, _ = _orbits(system, solver)
    with np.errstate(all="ignore"):
        return _positive(np.where(beta > 0, 2 * np.pi * gm / beta**1.5, np.inf))


def _turns(system, solver) -> np.ndarray:
    """Times of a turn at the angular speed of the pericenter, of bound orbits."""
    gm, beta, h2 = _orbits(system, solver)
    with np.errstate(all="ignore"):
        e = np.sqrt(np.maximum(1 - beta * h2 / gm**2, 0))
        q = h2 / (gm * (1 + e))
        turn = 2 * np.pi * np.sqrt(q**3 / (gm * (1 + e)))
    return _positive(np.where(beta > 0, turn, np.inf))


def _orbits(system, solver) -> tuple[np.ndarray, ...]:
    """GM, GM / a and the square of the angular momentum of every orbit."""
    with jax.ensure_compile_time_eval():
        frame = solver.constants(system).frame
        x, v = system.initial_state()
        q, w, gm = frame.positions(x), frame.velocities(v), frame.gm
    q, w, gm = (np.asarray(a, float) for a in (q, w, gm))
    r = np.linalg.norm(q, axis=0)
    h2 = np.sum(np.cross(q, w, axis=0) ** 2, axis=0)
    with np.errstate(all="ignore"):
        return gm, 2 * gm / r - np.sum(w * w, 0), h2


def _positive(times: np.ndarray) -> np.ndarray:
    # Anything but a number is no orbit to warn of.
    return np.where(times > 0, times, np.inf)
