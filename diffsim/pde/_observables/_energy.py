"""Kinetic energy and enstrophy of flows."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ._integral import integral
from ._velocity import velocity, vorticity


@eqx.filter_jit
def energy(simulation: Any, state: Array) -> Array:
    r"""Kinetic energy over the density, $E = \tfrac12\int |u|^2\,dx$.

    $dE/dt = -2\nu Z$ in a periodic box and between walls at rest, with Z the
    `enstrophy`.

    **Arguments**

    - `simulation`: an `IncompressibleFlow`, or an `Evolution` of `NavierStokes`.
    - `state`: one state, or states with a leading time axis.

    **Returns:** length⁴ / time² in two dimensions, length⁵ / time² in three, shape
    (time,) or ().

    **Raises:** `ValueError` for another simulation or states of another shape.

    **Limits:** of an `IncompressibleFlow` that of the velocities in the centers of
    cells, of order 2 (convenience).
    """
    u = velocity(simulation, state)
    return integral(jnp.sum(u**2, -simulation.grid.ndim - 1), simulation.grid) / 2


@eqx.filter_jit
def enstrophy(simulation: Any, state: Array) -> Array:
    r"""Enstrophy, $Z = \tfrac12\int |\omega|^2\,dx$ with the `vorticity` ω.

    **Arguments**

    - `simulation`, `state`: as for `energy`.

    **Returns:** length² / time² in two dimensions, length³ / time² in three, shape
    (time,) or ().

    **Raises:** `ValueError` for another simulation or states of another shape.

    **Limits:** as `vorticity`.
    """
    grid = simulation.grid
    squares = vorticity(simulation, state) ** 2
    if grid.ndim == 3:
        squares = jnp.sum(squares, -4)
    return integral(squares, grid) / 2
