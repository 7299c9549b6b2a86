"""The integral of a field: its mass, momentum or charge."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .._domain import Domain, as_field
from .._grid import Grid


@eqx.filter_jit
def integral(u: Array, grid: Grid) -> Array:
    r"""$\int u\,dx$ of every channel, the sum over cells times their volume.

    ```python
    run = ds.simulate(plate, times)
    mass = pde.integral(run.states, plate.grid)  # (time, channel)
    ```

    What conserves it does so to rounding: what leaves a cell enters its neighbour.

    **Arguments**

    - `u`: shape (..., *grid), one field or states with their times; or a condition, of
        which this is the volume that it holds in.
    - `grid`: the `Grid`.

    **Raises:** `ValueError` for a field that does not fit the grid.

    **Limits:** of order 2 in Δx at walls, exact for periodic fields that the grid
    resolves (mathematics: it is the midpoint rule).
    """
    u = as_field(u)
    Domain(grid).check(u)
    return jnp.sum(u, range(-grid.ndim, 0)) * grid.volume.astype(u.dtype)
