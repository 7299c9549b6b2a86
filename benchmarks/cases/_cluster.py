"""A cluster of many bodies: what the cases of direct summation measure."""

from typing import Any

import numpy as np

import diffsim as ds
from diffsim import integrators, nbody

from .._peers import rebound_leapfrog


STEP, SOFTENING = 1e-3, 1e-2


def cluster(bodies: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masses, positions and velocities, seeded; total mass 1."""
    random = np.random.default_rng(0)
    x, v = random.normal(size=(bodies, 3)), 0.1 * random.normal(size=(bodies, 3))
    return np.full(bodies, 1 / bodies), x, v


def run(masses: Any, x: Any, v: Any, *, steps: int, adjoint=None) -> tuple[Any, Any]:
    """Positions and velocities after a number of leapfrog steps."""
    gravity = nbody.Gravity(softening=SOFTENING)
    system = nbody.NBody(nbody.Bodies(masses, x, v), gravity)
    method = ds.Method(integrators.Leapfrog(), step=STEP, adjoint=adjoint)
    final = ds.simulate(system, steps * STEP, method, throw=False).states
    return final.positions, final.velocities


def rebound(start: Any) -> Any:
    """The same cluster for REBOUND."""
    return rebound_leapfrog(*start, step=STEP, softening=SOFTENING)
