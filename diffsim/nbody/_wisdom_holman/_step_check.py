"""Checks of a system and a step before a run, where their values are known."""

import warnings
from typing import Any

import jax
import numpy as np

from ..._validation import is_traced
from ...simulations import Method
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
    if any(is_traced(leaf) for leaf in jax.tree.leaves((system, method.step))):
        return
    softening = float(system.gravity.softening)
    if softening != 0:
        raise ValueError(
            f"{name} follows Kepler orbits, which Gravity(softening={softening:g}) has "
            "none of; take softening=0, or integrators.Leapfrog()"
        )
    _check_center(name, np.asarray(system.bodies.masses))
    if method.step is not None:
        _warn_of_a_long_step(system, solver, float(method.step))


def _check_center(name: str, masses: np.ndarray):
    if masses[0] == 0 and np.any(masses):
        raise ValueError(
            f"{name} follows orbits about the first body, and masses[0] is 0; put the "
            "most massive body first, or take nbody.IAS15()"
        )


def _warn_of_a_long_step(system, solver, step: float):
    period, body = _shortest_period(system, solver)
    if not step > _LONGEST * period:
        return
    names = system.body_names
    which = f"body {body}" if names is None else names[body]
    warnings.warn(
        f"step={step:.4g} is longer than half the shortest period, {period:.4g} of "
        f"{which}, whose orbit it does not follow; take a step of "
        f"{_GOOD * period:.2g}, 1/20 of it",
        # this function, the caller in this file, check_method, simulate's own, the user
        stacklevel=6,
    )


def _shortest_period(system, solver) -> tuple[float, int]:
    """The shortest of bound orbits in the frame of the solver, and its body."""
    with jax.ensure_compile_time_eval():
        frame = solver.constants(system).frame
        x, v = system.initial_state()
        q, w, gm = frame.positions(x), frame.velocities(v), frame.gm
    q, w, gm = (np.asarray(a, float) for a in (q, w, gm))
    with np.errstate(all="ignore"):
        beta = 2 * gm / np.linalg.norm(q, axis=0) - np.sum(w * w, 0)
        periods = np.where(beta > 0, 2 * np.pi * gm / beta**1.5, np.inf)
    # Anything but a number is no orbit to warn of.
    periods = np.where(periods > 0, periods, np.inf)
    return float(np.min(periods)), int(np.argmin(periods)) + 1
