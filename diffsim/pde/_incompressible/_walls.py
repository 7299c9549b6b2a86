"""Boundary conditions of a flow: `NoSlip`, `FreeSlip`, and which are allowed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._types import Numbers
from ..._validation import checked_return, function_of, is_traced
from .._boundaries import (
    AbstractBoundary,
    Dirichlet,
    Extrapolation,
    GhostCells,
    Inflow,
    Outflow,
    Periodic,
    SignedReflection,
    array_or_function,
    boundaries_per_side,
)
from .._domain import Domain
from .._grid import Grid, broadcasts_to


class NoSlip(eqx.Module):
    r"""No-slip wall, $u = u_w$ with $u_w \cdot n = 0$.

    ```python
    lid = pde.NoSlip(velocity=(1.0, 0.0))
    walls = pde.Periodic(), (pde.NoSlip(), lid)
    gap = pde.IncompressibleFlow(1.0, pde.Grid((2, 16)), walls)
    ds.simulate(gap, 1.0).states[0]  # Couette flow, u = y
    ```

    **Arguments**

    - `velocity`: $u_w$, length / time: 0 for a wall at rest, one number an axis for a
        lid, or a function of (t, x) that returns one an axis, x of shape (axis, *wall).
        What floats in it is a parameter. Its component along the normal is 0: of a
        function it is not read.
    """

    velocity: Any

    def __init__(self, velocity: Numbers | Any = 0.0):
        self.velocity = array_or_function("velocity", velocity)


class FreeSlip(eqx.Module):
    r"""Free-slip wall, or a plane of symmetry: $u \cdot n = 0$ and
    $\partial u_\tau/\partial n = 0$.

    ```python
    walls = pde.Periodic(), (pde.NoSlip(), pde.FreeSlip())  # a bed and a surface
    stream = pde.IncompressibleFlow(1.0, pde.Grid((2, 16)), walls, forcing=(1.0, 0.0))
    ds.simulate(stream, 3.0).states[0]  # u = y − y²/2
    ```
    """


Side = NoSlip | FreeSlip | Inflow | Outflow | Periodic
Sides = tuple[tuple[Side, Side], ...]

_KINDS = (
    "pde.NoSlip(), pde.FreeSlip(), pde.Inflow(velocity), pde.Outflow() or "
    "pde.Periodic()"
)


def validate_boundary(walls: Any, grid: Grid) -> Sides:
    """The walls of all sides, a pair for each axis, checked."""
    pairs = boundaries_per_side(
        walls, grid.ndim, name="boundary", kinds=Side, expected=_KINDS
    )
    sides = [side for pair in pairs for side in pair]
    kinds = {type(side) for side in sides}
    if Inflow in kinds and Outflow not in kinds:
        raise ValueError(
            "boundary has an Inflow and no Outflow: what flows in has to leave; make "
            "another side pde.Outflow()"
        )
    for axis, pair in enumerate(pairs):
        for side in pair:
            _check_velocity(side, axis, grid)
    return pairs


def velocity_at(side: Side, axis: int, t: Any, x: Array) -> Array:
    """Velocity prescribed across `axis`, at the coordinates x, shape (axis, ...)."""
    if isinstance(side, Inflow):
        return one_per_axis(side.value, t, x)
    if isinstance(side, NoSlip):
        return one_per_axis(side.velocity, t, x).at[axis].set(0)
    return jnp.zeros_like(x)


def one_per_axis(velocity: Any, t: Any, x: Array) -> Array:
    """A number, one an axis or a function of (t, x), shape (axis, ...) as x."""
    if callable(velocity):
        name = "a velocity or forcing"
        with explain_tracer_errors(name):
            returned = velocity(t, x)
        return jnp.broadcast_to(checked_return(name, returned, x.dtype), x.shape)
    array = jnp.asarray(velocity, x.dtype)
    if array.ndim == 1:
        array = array.reshape(-1, *[1] * (x.ndim - 1))
    return jnp.broadcast_to(array, x.shape)


def is_open(side: Side) -> bool:
    """Whether the velocity across it follows from the flow."""
    return isinstance(side, Outflow)


def is_moving(side: Side) -> bool:
    return isinstance(side, Inflow) and callable(side.value)


def normal_velocity_ghosts(side: Side, dtype: Any) -> GhostCells:
    """The velocity beyond the last one that is unknown, of the component that crosses.

    Of a closed side it is the one at the wall; beyond an open one it is its mirror
    image.
    """
    interior = [[0.0, 1.0]] if is_open(side) else [[0.0]]
    boundary = [0.0] if is_open(side) else [1.0]
    return GhostCells(jnp.asarray(interior, dtype), jnp.asarray(boundary, dtype))


def tangential_velocity_ghosts(side: Side, dtype: Any) -> GhostCells:
    """The ghost of a component along the side, half a cell beyond it.

    At a wall it is on the parabola through it and two values: a line through one misses
    the friction of the layer there by a quarter. At an inflow it is on that line, whose
    mean at the side is what is carried in.
    """
    interior, boundary = [1.0], 0.0
    if isinstance(side, NoSlip):
        interior, boundary = [-2.0, 1 / 3], 8 / 3
    elif isinstance(side, Inflow):
        interior, boundary = [-1.0], 2.0
    return GhostCells(jnp.asarray([interior], dtype), jnp.asarray([boundary], dtype))


def wall_stiffness_factor(side: Side) -> float:
    r"""Factor by which friction decays faster along the side than the 4ν / Δx² inside.

    Of the ghost at a wall, of the component along it: there the fastest decay is
    $8/\sqrt3$ instead of 4, that of $(3 - 2\sqrt3)^j$ in the j-th cell from the wall.
    """
    return 2 / np.sqrt(3) if isinstance(side, NoSlip) else 1.0


def cell_center_domain(grid: Grid, walls: Sides) -> Domain:
    """The grid, with a boundary for all components at once on every side."""
    pairs = (
        tuple(_cell_center_boundary(side, axis, grid) for side in pair)
        for axis, pair in enumerate(walls)
    )
    return Domain(grid, tuple(pairs))


def _cell_center_boundary(side: Side, axis: int, grid: Grid) -> AbstractBoundary:
    if isinstance(side, Periodic):
        return side
    if is_open(side):
        return Extrapolation()
    if isinstance(side, FreeSlip):
        return SignedReflection(tuple(i == axis for i in range(grid.ndim)))
    return Dirichlet(eqx.Partial(velocity_at, side, axis))


def check_on_axes(name: str, value: Any, shape: tuple[int, ...]):
    """Raise `ValueError` unless it is one number an axis, for x of this shape."""
    if callable(value):
        function_of(name, value, ("t", "x"))
        t, x = (jax.ShapeDtypeStruct(s, jnp.result_type(float)) for s in ((), shape))
        with explain_tracer_errors(name):
            got = jax.eval_shape(
                lambda t, x: checked_return(name, value(t, x), x.dtype), t, x
            ).shape
        fits = len(got) in (0, len(shape)) and broadcasts_to(got, shape)
    else:
        got = jnp.shape(value)
        fits = got in ((), shape[:1])
    if not fits:
        raise ValueError(
            f"{name} must be a number, one for each of {shape[0]} axes, or a function "
            f"of (t, x) that returns one for each, shape {shape} where x has that; got "
            f"shape {got}"
        )


def _check_velocity(side: Side, axis: int, grid: Grid):
    """Raise `ValueError` for a velocity of another shape or through a closed wall."""
    if not isinstance(side, NoSlip | Inflow):
        return
    name = f"the velocity of {type(side).__name__} at axis {axis}"
    velocity = side.velocity if isinstance(side, NoSlip) else side.value
    side_shape = (*grid.shape[:axis], 1, *grid.shape[axis + 1 :])
    check_on_axes(name, velocity, (grid.ndim, *side_shape))
    if not isinstance(side, NoSlip) or callable(velocity) or is_traced(velocity):
        return
    normal = np.asarray(velocity)[axis if velocity.ndim else ()]
    if normal != 0:
        raise ValueError(
            f"{name} must be 0 across the wall, got {normal}; give one number an axis, "
            "or take pde.Inflow where fluid comes through"
        )
