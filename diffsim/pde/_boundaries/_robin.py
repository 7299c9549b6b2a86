"""Dirichlet, Neumann and Robin boundary conditions."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import Numbers
from ..._validation import as_floating, check_number, is_traced
from ._boundary import (
    AbstractGhostCellBoundary,
    GhostCells,
    evaluate_prescribed,
    ghost_cell_extrapolation,
    prescribed_value,
)


class Dirichlet(AbstractGhostCellBoundary):
    r"""Dirichlet boundary condition $u = g$.

    ```python
    surface = pde.Dirichlet(lambda t, x: jnp.sin(2 * np.pi * t))  # summer and winter
    ends, depth = (surface, pde.Neumann()), pde.Grid(50)
    ground = pde.Evolution(pde.Diffusion(0.01 * np.pi), jnp.zeros(50), depth, ends)
    ds.simulate(ground, 3.0).states  # exp(−10 x) sin(6π − 10 x), nearly
    ```

    **Arguments**

    - `value`: g: a number, an array with one number a channel or of shape (channel,
        *side) with length one across the boundary, or a function of (t, x), x of shape
        (axis, *side), any `eqx.Module` for instance. What floats in it is a parameter.
    """

    value: Any

    def __init__(self, value: Numbers | Any = 0.0):
        self.value = prescribed_value("value", value)

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        one = jnp.ones_like(spacing)
        nothing = jnp.zeros_like(spacing)
        return ghost_cell_extrapolation(one, nothing, spacing, width, max(order - 1, 1))

    def at(self, t: Array, x: Array) -> Array:
        return evaluate_prescribed(self.value, t, x)


class Neumann(AbstractGhostCellBoundary):
    r"""Neumann boundary condition $\partial u/\partial n = g$, n the outward normal.

    ```python
    ends = pde.Neumann(1.0), pde.Dirichlet(0.0)  # heat of one comes in at the left
    pde.poisson(jnp.zeros(50), pde.Domain(pde.Grid(50), ends))  # u = 1 − x
    ```

    **Arguments:** `value` as for `Dirichlet`; 0 lets nothing diffuse through.
        What a velocity carries still passes: take one that vanishes there, on faces.
    """

    value: Any

    def __init__(self, value: Numbers | Any = 0.0):
        self.value = prescribed_value("value", value)

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        one = jnp.ones_like(spacing)
        nothing = jnp.zeros_like(spacing)
        return ghost_cell_extrapolation(
            nothing, one, spacing, width, _cells_of_slopes(order)
        )

    def at(self, t: Array, x: Array) -> Array:
        return evaluate_prescribed(self.value, t, x)


class Robin(AbstractGhostCellBoundary):
    r"""Robin boundary condition $\alpha u + \beta\,\partial u/\partial n = g$.

    ```python
    air = pde.Robin(alpha=1.0, beta=1.0)  # heat leaves in proportion to u
    rod = pde.Domain(pde.Grid(50), (pde.Dirichlet(1.0), air))
    pde.poisson(jnp.zeros(50), rod)  # u = 1 − x/2
    ```

    n is the outward normal.

    **Arguments**

    - `alpha`, `beta`: numbers, of one sign for a boundary that the field relaxes at.
    - `value`: g, as for `Dirichlet`.

    **Raises:** `ValueError` where both are 0, and where one is an array.

    **Limits:** NaN where α Δx = −2 β, where no ghost cell fulfils it (mathematics).
    """

    alpha: Array
    beta: Array
    value: Any

    def __init__(self, alpha: Numbers, beta: Numbers, value: Numbers | Any = 0.0):
        check_number("alpha", alpha)
        check_number("beta", beta)
        self.alpha = as_floating("alpha", alpha)
        self.beta = as_floating("beta", beta)
        self.value = prescribed_value("value", value)
        if is_traced(self.alpha) or is_traced(self.beta):
            return
        if np.any((np.asarray(self.alpha) == 0) & (np.asarray(self.beta) == 0)):
            raise ValueError(
                "alpha and beta must not both be 0, which leaves u at the boundary "
                "undetermined; give pde.Dirichlet(value) or pde.Neumann(value)"
            )

    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        alpha, beta = (a.astype(spacing.dtype) for a in (self.alpha, self.beta))
        return ghost_cell_extrapolation(
            alpha, beta, spacing, width, _cells_of_slopes(order)
        )

    def at(self, t: Array, x: Array) -> Array:
        return evaluate_prescribed(self.value, t, x)


def _cells_of_slopes(order: int) -> int:
    """Cells behind a ghost that a prescribed slope completes, which says less.

    For order 2 a line will do: across the boundary it is wrong by the third derivative
    alone, and diffusion stays symmetric.
    """
    return order if order > 2 else 1
