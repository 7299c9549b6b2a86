"""Five bodies like the Sun and its giants, on circles: what several cases measure.

One flat vector holds all that a run starts from: 5 masses, 15 positions, 15 velocities.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import integrators, nbody

from .._harness import Effort
from .._peers import rebound_leapfrog


MASSES = (1.0, 1e-3, 3e-4, 4e-5, 5e-5)
RADII = (5.2, 9.5, 19.2, 30.0)
STEP = 0.5  # 150 a period of the innermost planet

#: Where the vector is cut, and the 15 numbers of the Jacobian: positions of the four
#: planets, and the velocities of the first three bodies along x.
CUTS = (5, 20)
FREE = (*range(8, 20), 20, 23, 26)


class Problem(NamedTuple):
    """Number of steps and output times, on the grid."""

    steps: int
    times: np.ndarray


def problem(effort: Effort) -> Problem:
    """12 500 steps with output at 100 times."""
    steps, outputs = effort.size(12_500, 100), effort.size(100, 10)
    return Problem(steps, np.arange(1, outputs + 1) * (steps // outputs) * STEP)


def start(planet: float = MASSES[1]) -> np.ndarray:
    """The vector of masses, positions and velocities, (35,); `planet`: mass of one."""
    x, v = np.zeros((2, 5, 3))
    x[1:, 0] = RADII
    v[1:, 1] = 1 / np.sqrt(RADII)
    masses = (MASSES[0], planet, *MASSES[2:])
    return np.concatenate([masses, x.ravel(), v.ravel()])


def arrays(vector: Any) -> tuple[Any, Any, Any]:
    """Masses (5,), positions (5, 3) and velocities (5, 3) of a vector."""
    m, x, v = vector[: CUTS[0]], vector[CUTS[0] : CUTS[1]], vector[CUTS[1] :]
    return m, x.reshape(5, 3), v.reshape(5, 3)


def system(vector: Any) -> nbody.NBody:
    """The simulation."""
    return nbody.NBody(nbody.Bodies(*arrays(vector)))


def states(vector: Any, times: np.ndarray, adjoint=None) -> nbody.State:
    """Positions and velocities at `times`."""
    method = ds.Method(integrators.Leapfrog(), step=STEP, adjoint=adjoint)
    return ds.simulate(system(vector), times, method, throw=False).states


def moved(p: Any) -> Any:
    """The vector with the 15 numbers of the Jacobian displaced by `p`."""
    return jnp.asarray(start()).at[jnp.array(FREE)].add(p)


def sum_of_squares(found: nbody.State) -> Any:
    """Of all outputs: the function whose gradient is taken."""
    return jnp.sum(found.positions**2) + jnp.sum(found.velocities**2)


def rebound(vector: np.ndarray) -> Any:
    """The same system for REBOUND."""
    return rebound_leapfrog(*arrays(np.asarray(vector)), step=STEP)


def jacobian_of(found: nbody.State) -> np.ndarray:
    """Derivatives of states, parameters last, as (time, 6, body, parameter)."""
    stacked = np.concatenate([found.positions, found.velocities], axis=2)
    return stacked.swapaxes(1, 2)
