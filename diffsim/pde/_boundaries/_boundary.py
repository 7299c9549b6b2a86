"""`AbstractGhostCellBoundary`: ghost cells that make a condition hold."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._tracer_errors import explain_tracer_errors
from ..._validation import as_floating, check_signature, checked_return, is_traced


class GhostCells(NamedTuple):
    """Ghost cells, the nearest to the wall first: $A u + B g$.

    `interior_weights` is A, shape (ghost, cell), of the cells from the wall inwards, or
    (channel, ghost, cell); `boundary_weight` is B, shape (ghost,), of the value g at
    the wall.
    """

    interior_weights: Array
    boundary_weight: Array


class AbstractBoundary(eqx.Module):
    """Boundary condition along one side of a grid, or none (periodic)."""


class AbstractGhostCellBoundary(AbstractBoundary):
    """A condition along one side of a grid, by what stands in the cells beyond."""

    @abc.abstractmethod
    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        """How `width` ghost cells follow from the cells and the value at the wall.

        `spacing` is Δx across the wall, `order` that of the scheme they are for.
        """

    @abc.abstractmethod
    def at(self, t: Array, x: Array) -> Array:
        """g at the coordinates `x`, shape (axis, ...): broadcasts to (channel, ...)."""


def prescribed(name: str, given: Any) -> Any:
    """A number, an array or a function of (t, x), as a boundary keeps it."""
    if callable(given):
        check_signature(name, given, ("t", "x"))
        return given
    given = as_floating(name, given)
    if not is_traced(given) and not np.all(np.isfinite(np.asarray(given))):
        raise ValueError(
            f"{name} of a boundary must be finite, got values that are infinite or not "
            "a number"
        )
    return given


def prescribed_at(given: Any, t: Array, x: Array) -> Array:
    """Evaluate a prescribed value along the boundary."""
    if callable(given):
        name = "the value of a boundary"
        with explain_tracer_errors(name):
            found = given(t, x)
        return checked_return(name, found, x.dtype)
    given = given.astype(x.dtype)
    # One number a channel.
    walls = x.ndim - 1
    return given.reshape(-1, *[1] * walls) if given.ndim == 1 else given


def ghost_cell_extrapolation(
    alpha: Array, beta: Array, spacing: Array, width: int, cells: int
) -> GhostCells:
    r"""Ghosts on the polynomial through so many cells, $\alpha u + \beta u_n = g$.

    With $l_j$ the Lagrange polynomials of the cells and $R$ the one that vanishes in
    all of them, $p = \sum_j u_j l_j + c R$, and the condition at the wall gives c.
    """
    centers, ghosts, bases = _polynomials(width, cells)
    full = np.poly(centers)
    wall = np.array([np.polyval(b, 0.0) for b in bases])
    slope = np.array([np.polyval(np.polyder(b), 0.0) for b in bases])
    at = constant_extrapolation(spacing.dtype, width, cells)
    wall, slope, beyond = (
        jnp.asarray(a, spacing.dtype) for a in (wall, slope, np.polyval(full, ghosts))
    )
    # The outward derivative; s counts cells inwards.
    beta = -beta / spacing
    full = [float(np.polyval(f, 0.0)) for f in (full, np.polyder(full))]
    given = beyond / (alpha * full[0] + beta * full[1])
    return GhostCells(at - given[:, None] * (alpha * wall + beta * slope), given)


def constant_extrapolation(dtype: Any, width: int, cells: int) -> Array:
    """Ghosts on the polynomial through so many cells, shape (ghost, cell)."""
    _, ghosts, bases = _polynomials(width, cells)
    return jnp.asarray(np.stack([np.polyval(b, ghosts) for b in bases], -1), dtype)


def _polynomials(width: int, cells: int) -> tuple[np.ndarray, np.ndarray, list]:
    """Centers of cells and ghosts, in cells from the wall, and Lagrange polynomials."""
    centers = np.arange(cells) + 0.5
    bases = [np.atleast_1d(np.poly(np.delete(centers, j))) for j in range(cells)]
    bases = [b / np.polyval(b, s) for b, s in zip(bases, centers, strict=True)]
    return centers, -(np.arange(width) + 0.5), bases


class Periodic(AbstractBoundary):
    """Periodic boundary; both sides of an axis have it."""
