"""A cluster of many bodies: what the cases of direct summation measure."""

from typing import Any

import jax.numpy as jnp
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


def accelerations(masses: Any, x: Any) -> Any:
    """One leapfrog step of length 1 from rest ends with the accelerations as speeds."""
    gravity = nbody.Gravity(softening=SOFTENING)
    system = nbody.NBody(nbody.Bodies(masses, x, jnp.zeros_like(x)), gravity)
    method = ds.Method(integrators.Leapfrog(), step=1.0)
    return ds.simulate(system, 1.0, method, throw=False).states.velocities


def sum_of_squares(masses: Any, x: Any) -> Any:
    """Of all accelerations: the function whose gradient is taken."""
    return jnp.sum(accelerations(masses, x) ** 2)


def first_accelerations(masses: Any, x: Any, count: int = 16) -> np.ndarray:
    """Those of the first bodies by NumPy, in float64."""
    masses, x = np.asarray(masses, float), np.asarray(x, float)

    def acceleration(target: np.ndarray) -> np.ndarray:
        d = x - target
        r2 = (d**2).sum(1) + SOFTENING**2
        return (masses / (r2 * np.sqrt(r2))) @ d

    return np.array([acceleration(target) for target in x[:count]])
