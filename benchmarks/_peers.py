"""REBOUND, set up for the same problem as diffsim."""

import importlib
from types import ModuleType
from typing import Any

import numpy as np


def peer(package: str) -> ModuleType:
    """A package to compare with, from the extra `bench`."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f'this benchmark compares with {package}: pip install "diffsim[bench]"'
        ) from missing


def rebound_leapfrog(masses, positions, velocities, *, step, softening=0.0) -> Any:
    """A `rebound.Simulation` with leapfrog and the plain double loop over pairs."""
    simulation = rebound_of(masses, positions, velocities)
    simulation.integrator = "leapfrog"
    simulation.gravity = "basic"
    simulation.dt = step
    simulation.softening = softening
    return simulation


def rebound_of(masses, positions, velocities) -> Any:
    """A `rebound.Simulation` of these bodies with G = 1, as it comes."""
    simulation = peer("rebound").Simulation()
    arrays = (np.asarray(a, float) for a in (masses, positions, velocities))
    for mass, x, v in zip(*arrays, strict=True):
        simulation.add(m=mass, x=x[0], y=x[1], z=x[2], vx=v[0], vy=v[1], vz=v[2])
    return simulation


def integrate(simulation: Any, times) -> None:
    """Runs to all `times`, which lie on the grid of steps, and keeps nothing."""
    for t in times:
        simulation.integrate(t, exact_finish_time=0)


def states_of(simulation: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities now, each (body, 3)."""
    x, v = np.zeros((2, simulation.N, 3))
    simulation.serialize_particle_data(xyz=x, vxvyvz=v)
    return x, v


def states_at(simulation: Any, times) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities at all `times`, each (time, body, 3)."""
    found = []
    for t in times:
        integrate(simulation, [t])
        found.append(states_of(simulation))
    x, v = zip(*found, strict=True)
    return np.array(x), np.array(v)
