"""`AbstractBoundary`: conditions along the sides of a grid, by ghost cells."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._validation import as_floating, checked_return, function_of, is_traced


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
    name: str, given: Any, arguments: tuple[str, ...] | None = None
) -> Array | Callable:
    """Convert numbers to an array, and check that a function takes `arguments`."""
    if not callable(given):
        return as_floating(name, given)
    if arguments is not None:
        function_of(name, given, arguments)
    return given


def prescribed_value(
    name: str, given: Any, arguments: tuple[str, ...] = ("t", "x")
) -> Array | Callable:
    """Validate a number, an array or a function of `arguments` for a boundary."""
    given = array_or_function(name, given, arguments)
    if callable(given):
        return given
    if not is_traced(given) and not np.all(np.isfinite(np.asarray(given))):
        raise ValueError(
            f"{name} of a boundary must be finite, got values that are infinite or not "
            "a number"
        )
    return given


def evaluate_prescribed(given: Any, t: Array, x: Array, *fields: Array) -> Array:
    """Evaluate a prescribed value along the boundary."""
    if callable(given):
        name = "the value of a boundary"
        with explain_tracer_errors(name):
            found = given(t, x, *fields)
        return checked_return(name, found, x.dtype)
    given = given.astype(x.dtype)
    # One number a channel.
    walls = x.ndim - 1
    return given.reshape(-1, *[1] * walls) if given.ndim == 1 else given


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
    full = np.poly(centers)
    wall = np.array([np.polyval(b, 0.0) for b in bases])
    slope = np.array([np.polyval(np.polyder(b), 0.0) for b in bases])
    at = constant_extrapolation(spacing.dtype, places, cells)
    wall, slope, beyond = (
        jnp.asarray(a, spacing.dtype) for a in (wall, slope, np.polyval(full, places))
    )
    # The outward derivative; s counts cells inwards.
    beta = -beta / spacing
    full = [float(np.polyval(f, 0.0)) for f in (full, np.polyder(full))]
    given = beyond / (alpha * full[0] + beta * full[1])
    return GhostCells(at - given[:, None] * (alpha * wall + beta * slope), given)


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
    given: Any, ndim: int, *, name: str, kinds: Any, expected: str
) -> tuple[tuple[Any, Any], ...]:
    """Expand one for all sides, or an entry for each axis, to a pair for each axis.

    `name` is that of the argument, `kinds` what a side may be, `expected` in words. Of
    one axis a pair is its own.
    """
    _refuse_class(given, name)
    if isinstance(given, kinds):
        given = (given,) * ndim
    if ndim == 1 and isinstance(given, tuple | list) and len(given) == 2:
        given = (given,)
    if not isinstance(given, tuple | list) or len(given) != ndim:
        raise ValueError(
            f"{name} must be one for all sides or a tuple with an entry for each of "
            f"{ndim} axes, each like {expected}, got {given!r:.80}"
            f"{_flow_hint(given, name)}"
        )
    pairs = []
    for axis, one in enumerate(given):
        sides = (one, one) if isinstance(one, kinds) else one
        _refuse_class(one, name)
        if not isinstance(sides, tuple | list) or len(sides) != 2:
            raise ValueError(
                f"{name} of axis {axis} must be one for both sides or a pair, lower "
                f"and upper, each like {expected}, got {one!r:.80}"
                f"{_flow_hint(one, name)}"
            )
        _check_pair(axis, sides, name, kinds, expected)
        pairs.append(tuple(sides))
    return tuple(pairs)


def _check_pair(axis: int, sides: Any, name: str, kinds: Any, expected: str):
    for end, side in zip(("lower", "upper"), sides, strict=True):
        _refuse_class(side, name)
        if not isinstance(side, kinds):
            raise ValueError(
                f"the {end} side of axis {axis} has nothing in {name}: got "
                f"{side!r:.60}, expected {expected}{_flow_hint(side, name)}"
            )
    if len({isinstance(side, Periodic) for side in sides}) > 1:
        raise ValueError(f"axis {axis} is periodic at one side: make it so at both")


def _refuse_class(given: Any, name: str):
    """Refuse the class of a side in place of one that it makes."""
    if isinstance(given, type):
        kind = given.__name__
        raise ValueError(
            f"{name} must be made of objects, got the class {kind}; pde.{kind}(...) "
            "with parentheses makes one"
        )


def _flow_hint(given: Any, name: str) -> str:
    """Say where walls of a flow belong, whose classes are above this package."""
    if name == "boundary" and type(given).__name__ in ("NoSlip", "FreeSlip"):
        return "; walls of fluids are for pde.IncompressibleFlow(nu, grid, boundary)"
    return ""
