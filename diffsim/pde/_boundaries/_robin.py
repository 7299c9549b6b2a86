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
