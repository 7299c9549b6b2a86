"""Reflecting boundaries: walls and mirrors."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ._boundary import AbstractGhostCellBoundary, GhostCells


class ReflectingWall(AbstractGhostCellBoundary):
    """Reflecting wall: the state outside is the mirror image of that inside.

    ```python
    def hump(x):
        depth = 1 + 0.1 * jnp.exp(-((x[0] / 0.1) ** 2))
        return jnp.stack([depth, 0 * depth])

    tank, wall = pde.Grid(100), pde.ReflectingWall()
    water = pde.Evolution(pde.ShallowWater(9.81), hump, tank, wall)
    run = ds.simulate(water, [0.0, 1.0])
    pde.integral(run["depth"], tank)  # the same: no water leaves
    ```

    Fields are even in it, and the momentum, or velocity, across it is odd, as the
    equation says of its channels. Operators, which know of no momentum, take every
    field as even, and what a given velocity carries passes as through `Neumann`.
    """

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        del order
        return GhostCells(
            jnp.eye(width, dtype=spacing.dtype), jnp.zeros(width, spacing.dtype)
        )


class SignedReflection(AbstractGhostCellBoundary):
    """A `ReflectingWall` that knows which channels change sign in it."""

    odd_channels: tuple[bool, ...] = eqx.field(static=True)

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        del order
        signs = jnp.asarray(
            [-1.0 if odd else 1.0 for odd in self.odd_channels], spacing.dtype
        )
        own = signs[:, None, None] * jnp.eye(width, dtype=spacing.dtype)
        return GhostCells(own, jnp.zeros(width, spacing.dtype))
