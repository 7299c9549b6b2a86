"""`AbstractBoundary`: conditions along the sides of a grid, by ghost cells."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._validation import as_floating, checked_return, finite, function_of, instance


class GhostCells(NamedTuple):
    """Ghost cells, the nearest to the boundary first: $A u + B g$.

    ```python
    class Antisymmetric(pde.AbstractGhostCellBoundary):  # the negative mirror image
        def ghosts(self, spacing, width, order):
            return pde.GhostCells(-jnp.eye(width), jnp.zeros(width))

    line = pde.Domain(pde.Grid(64), Antisymmetric())
    u = jnp.sin(np.pi * line.grid.centers[0])
    pde.laplacian(u, line, order=4)  # −π² u, at the ends too
    ```

    `interior_weights` is A, shape (ghost, cell), of the cells from the boundary
    inwards, or (channel, ghost, cell); `boundary_weight` is B, shape (ghost,), of the
    value g at the boundary.
    """

    interior_weights: Array
    boundary_weight: Array


class AbstractBoundary(eqx.Module):
    """Boundary condition along one side of a grid, or none (periodic)."""


class AbstractGhostCellBoundary(AbstractBoundary):
    """Boundary condition along one side of a grid, by its ghost cells."""

    @abc.abstractmethod
    def ghosts(self, spacing: Array, width: int, order: int) -> GhostCells:
        """Return how `width` ghost cells follow from the cells and the boundary value.

        `spacing` is Δx across the boundary, `order` that of the scheme they are for.
        """

    def at(self, t: Array, x: Array) -> Array:
        """g at the coordinates `x`, shape (axis, ...): broadcasts to (channel, ...).

        0 by default.
        """
        del t
        return jnp.zeros((), x.dtype)

    @property
    def is_nonlinear(self) -> bool:
        """Whether g depends on u at the boundary, as `Robin` and `Neumann` allow."""
        return False


class Periodic(AbstractBoundary):
    """Periodic boundary; both sides of an axis have it.

    ```python
    channel = pde.Domain(pde.Grid((64, 32)), (pde.Periodic(), pde.Dirichlet(0.0)))
    x, y = channel.grid.centers
    pde.laplacian(jnp.cos(2 * np.pi * x) * jnp.sin(np.pi * y), channel)  # −5π² u
    ```
    """


def map_sides(
    function: Callable[[int, int, Any], Any], pairs: Sequence[Any]
) -> list[tuple[Any, Any] | None]:
    """`function(axis, end, side)` of both sides of each axis, None where periodic.

    `pairs` has an entry for each axis, the lower and the upper side, or None.
    """
    return [
        pair and (function(axis, 0, pair[0]), function(axis, 1, pair[1]))
        for axis, pair in enumerate(pairs)
    ]


def array_or_function(
    name: str, value: Any, arguments: tuple[str, ...] | None = None
) -> Array | Callable:
    """Convert numbers to an array, and check that a function takes `arguments`."""
    if not callable(value):
        return as_floating(name, value)
    return value if arguments is None else function_of(name, value, arguments)


def prescribed_value(
    value: Any, arguments: tuple[str, ...] = ("t", "x")
) -> Array | Callable:
    """Validate a number, an array or a function of `arguments` for a boundary."""
    value = array_or_function("value", value, arguments)
    return value if callable(value) else finite("value of a boundary", value)


def evaluate_prescribed(value: Any, t: Array, x: Array, *fields: Array) -> Array:
    if callable(value):
        name = "the value of a boundary"
        with explain_tracer_errors(name):
            returned = value(t, x, *fields)
        return checked_return(name, returned, x.dtype)
    value = value.astype(x.dtype)
    # A vector holds one number a channel.
    return value.reshape(-1, *[1] * (x.ndim - 1)) if value.ndim == 1 else value


def ghost_centers(width: int) -> np.ndarray:
    """Centers of ghosts, in Δx from the boundary inwards."""
    return -(np.arange(width) + 0.5)


def boundary_polynomial(
    alpha: Array, beta: Array, spacing: Array, places: np.ndarray, cells: int
) -> GhostCells:
    r"""The polynomial through so many cells with $\alpha u + \beta u_n = g$.

    At `places`, in Δx from the boundary inwards.

    With $l_j$ the Lagrange polynomials of the cells and $R$ the one that vanishes in
    all of them, $p = \sum_j u_j l_j + c R$, and the boundary condition gives c.
    """
    centers, bases = _polynomials(cells)
    vanishing = np.poly(centers)
    value = np.array([np.polyval(b, 0.0) for b in bases])
    slope = np.array([np.polyval(np.polyder(b), 0.0) for b in bases])
    interior = constant_extrapolation(spacing.dtype, places, cells)
    value, slope, vanishing_at_places = (
        jnp.asarray(a, spacing.dtype)
        for a in (value, slope, np.polyval(vanishing, places))
    )
    # β of the derivative by the number of cells inwards, minus the outward one.
    beta = -beta / spacing
    at_boundary = float(np.polyval(vanishing, 0.0))
    slope_at_boundary = float(np.polyval(np.polyder(vanishing), 0.0))
    weight = vanishing_at_places / (alpha * at_boundary + beta * slope_at_boundary)
    return GhostCells(
        interior - weight[:, None] * (alpha * value + beta * slope), weight
    )


def constant_extrapolation(dtype: Any, places: np.ndarray, cells: int) -> Array:
    """The polynomial through so many cells, at `places`, shape (place, cell)."""
    _, bases = _polynomials(cells)
    return jnp.asarray(np.stack([np.polyval(b, places) for b in bases], -1), dtype)


def _polynomials(cells: int) -> tuple[np.ndarray, list]:
    """Centers of cells from the boundary, in Δx, and Lagrange bases."""
    centers = np.arange(cells) + 0.5
    bases = [np.atleast_1d(np.poly(np.delete(centers, j))) for j in range(cells)]
    bases = [b / np.polyval(b, s) for b, s in zip(bases, centers, strict=True)]
    return centers, bases


def boundaries_per_side(
    sides: Any, ndim: int, *, name: str, kinds: Any, expected: str
) -> tuple[tuple[Any, Any], ...]:
    """Expand one for all sides, or an entry for each axis, to a pair for each axis.

    `name` is that of the argument, `kinds` what a side may be, `expected` in words. Of
    one axis a pair is its own.
    """
    axes = sides if isinstance(sides, tuple | list) else (sides,) * ndim
    if ndim == 1 and len(axes) == 2:
        axes = (axes,)
    pairs = [side if isinstance(side, tuple | list) else (side, side) for side in axes]
    if len(pairs) != ndim or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"{name} must be one for all sides or a tuple with an entry for each of "
            f"{ndim} axes, one for both of its sides or a pair, lower and upper, got "
            f"{sides!r:.80}"
        )
    for axis, pair in enumerate(pairs):
        for end, side in zip(("lower", "upper"), pair, strict=True):
            instance(f"{name} at the {end} side of axis {axis}", side, kinds, expected)
        if len({isinstance(side, Periodic) for side in pair}) > 1:
            raise ValueError(f"axis {axis} is periodic at one side: make it so at both")
    return tuple((low, high) for low, high in pairs)
