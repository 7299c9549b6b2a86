"""Boundaries of hyperbolic equations: inflow, outflow and reflecting walls."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import Numbers
from ._boundary import (
    AbstractGhostCellBoundary,
    GhostCells,
    constant_extrapolation,
    evaluate_prescribed,
    ghost_centers,
    prescribed_value,
)


class Inflow(AbstractGhostCellBoundary):
    """Inflow: the state outside is known, as hyperbolic equations take it in.

    ```python
    puffs = pde.Inflow(lambda t, x: jnp.sin(2 * np.pi * t))
    wind, pipe = pde.AdvectionDiffusion(None, velocity=1.0), pde.Grid(100)
    smoke = pde.Evolution(wind, jnp.zeros(100), pipe, (puffs, pde.Outflow()))
    ds.simulate(smoke, 2.0).states  # sin 2π(2 − x), nearly
    ```

    **Arguments:** `value` as for `Dirichlet`; it is the value of the ghost cells.

    **Limits:** of order one beside the boundary, whatever the scheme (convenience);
    where the field is smooth and known, `Dirichlet` has the order of the scheme.
    """

    value: Any

    def __init__(self, value: Numbers | Any):
        self.value = prescribed_value(value)

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        del order
        return GhostCells(
            jnp.zeros((width, 1), spacing.dtype), jnp.ones(width, spacing.dtype)
        )

    def at(self, t: Array, x: Array) -> Array:
        return evaluate_prescribed(self.value, t, x)


class Extrapolation(AbstractGhostCellBoundary):
    """Extrapolation by the polynomial through `order` cells, for what obeys nothing."""

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        places, nothing = ghost_centers(width), jnp.zeros(width, spacing.dtype)
        return GhostCells(constant_extrapolation(spacing.dtype, places, order), nothing)


class Outflow(AbstractGhostCellBoundary):
    """Outflow: the state outside is that of the last cell, so that waves leave.

    ```python
    def hump(x):
        depth = 1 + 0.1 * jnp.exp(-(((x[0] - 0.5) / 0.1) ** 2))
        return jnp.stack([depth, 0 * depth])

    water = pde.Evolution(pde.ShallowWater(9.81), hump, pde.Grid(100), pde.Outflow())
    ds.simulate(water, 1.0).states[0]  # 1 again: both waves have left
    ```

    **Limits:** of order one at the boundary (mathematics: nothing is known outside).
    """

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        del order
        return GhostCells(
            jnp.ones((width, 1), spacing.dtype), jnp.zeros(width, spacing.dtype)
        )


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
        weights = signs[:, None, None] * jnp.eye(width, dtype=spacing.dtype)
        return GhostCells(weights, jnp.zeros(width, spacing.dtype))
