"""A system as REBOUND's simulation."""

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from .._checks import is_traced
from ._forces import Gravity


def rebound_simulation(system: Any) -> Any:
    """Build the simulation that `NBody.to_rebound` returns."""
    if any(not isinstance(force, Gravity) for force in system.forces):
        raise ValueError(
            "to_rebound needs Gravity alone, got other forces, which REBOUND knows "
            "nothing of; NBody(system.bodies, system.gravity) has none"
        )
    if is_traced(system.bodies.positions) or is_traced(system.bodies.masses):
        raise ValueError(
            "to_rebound needs concrete bodies; call it outside jit and grad"
        )
    simulation = _rebound().Simulation()
    simulation.G, simulation.t = float(system.gravity.G), float(system.t0)
    simulation.softening = float(system.gravity.softening)
    x, v = (np.asarray(a, float).T for a in system.initial_state())
    massive = system.bodies.masses.size
    masses = np.pad(np.asarray(system.bodies.masses, float), (0, len(x) - massive))
    for i, row in enumerate(np.column_stack([masses, x, v])):
        values = dict(zip(("m", "x", "y", "z", "vx", "vy", "vz"), row, strict=True))
        named = {} if system.body_names is None else {"name": system.body_names[i]}
        simulation.add(**values, **named)
    if len(x) > massive:
        simulation.N_active = massive
    return simulation


def _rebound() -> ModuleType:
    try:
        return importlib.import_module("rebound")
    except ImportError as error:
        raise ImportError("to_rebound needs REBOUND: pip install rebound") from error
