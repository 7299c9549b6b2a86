"""Interpolation of fields to points."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._parameter_selection import cast
from ..._types import Numbers
from ..._validation import as_floating, instance, is_traced, one_of
from .._boundaries import (
    AbstractGhostCellBoundary,
    Extrapolation,
    Inflow,
    Outflow,
    ReflectingWall,
)
from .._domain import Domain, as_field


def probe(
    u: Array,
    points: Numbers,
    domain: Domain,
    t: Any = 0.0,
    *,
    order: int = 4,
) -> Array:
    r"""Values at any points, by polynomials through the cells around them.

    Cubic in each axis, or linear. Beside a boundary the polynomial fulfils it, so
    that a field has the value of a `Dirichlet` at the boundary itself, and what reaches
    beyond a periodic side comes in at the other. Differentiable in the field, the
    points, boundary values and the corners of the grid.

    ```python
    square = pde.Domain(pde.Grid((32, 32)), pde.Dirichlet(0.0))
    x, y = square.grid.centers
    u = jnp.sin(np.pi * x) * jnp.sin(np.pi * y)
    pde.probe(u, [[0.25, 0.5], [0.0, 0.5]], square)  # √½ and 0

    def hot(x):
        return jnp.sin(np.pi * x[0])

    rod = pde.Evolution(pde.Diffusion(0.1), hot, pde.Grid(32), pde.Dirichlet(0.0))
    run = ds.simulate(rod, [0.0, 1.0])
    pde.probe(run["u"], [0.5], rod.domain, run.times)  # 1 and exp(−0.1 π²)
    ```

    **Arguments**

    - `u`: shape (..., *grid), one field or states with their times.
    - `points`: coordinates, shape (point, axis), or (axis,) for one; in one dimension
        an axis of length one, too.
    - `domain`: the grid and its boundaries: `evolution.domain`, or `flow.domain` for
        the velocities of an `IncompressibleFlow`.
    - `t`: at which the boundaries are taken; a number, or one for each of the leading
        axis of u, shape (time,).
    - `order`: of the error in Δx for smooth u, 4 or 2.

    **Returns:** shape (..., point), or (...) for one.

    **Raises:** `ValueError` for points beyond a boundary, and shapes that do not fit.
    NaN for points that are traced and lie beyond a boundary.

    **Limits:** derivatives by the points jump where the cells around them change, by
    one order less than the error (mathematics). At an `Inflow`, `Outflow` or
    `ReflectingWall`, which say nothing about the field at the boundary itself, the
    polynomial is that of the cells inside (convenience).
    """
    one_of("order", order, (2, 4))
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    domain.check(u, order)
    u = as_field(u)
    points = _validate_points(points, domain, u.dtype)
    t = jnp.asarray(t, u.dtype)
    if t.shape not in ((), u.shape[: u.ndim - domain.grid.ndim][:1]):
        raise ValueError(
            f"t must be a number or one for each of the leading axis of u, got shape "
            f"{t.shape} for u of shape {u.shape}"
        )
    return _interpolate(u, points, domain, t, order)


@fresh_jit
def _interpolate(
    u: Array, points: Array, domain: Domain, t: Array, order: int
) -> Array:
    points, domain = cast((points, domain), u.dtype)
    framed = partial(_pad_with_ghosts, domain=domain, order=order)
    u = jax.vmap(framed)(u, t) if t.ndim else framed(u, t)
    shape, ndim = points.shape[:-1], domain.grid.ndim
    points = points.reshape(-1, ndim)
    around = [
        _lagrange_stencil(points[:, axis], domain, axis, order) for axis in range(ndim)
    ]
    places = [
        jnp.expand_dims(place, [1 + other for other in range(ndim) if other != axis])
        for axis, (place, _) in enumerate(around)
    ]
    # Shape (..., point, 4, 4, 4), of which each sum takes the last axis.
    values = u[(..., *places)]
    for axis in range(ndim - 1, -1, -1):
        weights = around[axis][1]
        values = jnp.sum(jnp.expand_dims(weights, range(1, 1 + axis)) * values, -1)
    inside = _inside(points, domain.grid.lower, domain.grid.upper, domain)
    values = jnp.where(jnp.all(inside, -1), values, jnp.nan)
    return values.reshape(*values.shape[:-1], *shape)


def _lagrange_stencil(
    x: Array, domain: Domain, axis: int, order: int
) -> tuple[Array, Array]:
    """Return the cells of a padded field around x, and Lagrange's weights of them."""
    grid, nodes = domain.grid, np.arange(order)
    length = grid.upper[axis] - grid.lower[axis]
    passed = x - grid.lower[axis]
    if domain.periodic(axis):
        passed = jnp.mod(passed, length)
    place = passed * (grid.shape[axis] / length) + (order - 1) / 2
    first = jnp.floor(place) - (order // 2 - 1)
    apart = (place - first)[:, None] - nodes
    weights = [
        jnp.prod(apart[:, others] / (j - others), axis=-1)
        for j, others in ((j, np.delete(nodes, j)) for j in nodes)
    ]
    return first.astype(int)[:, None] + nodes, jnp.stack(weights, -1)


def _pad_with_ghosts(u: Array, t: Array, domain: Domain, order: int) -> Array:
    """Pad with ghost cells beyond every side, and beyond the edges between them."""
    grid, free = domain.grid, domain.with_extrapolated_boundaries
    ndim, field = grid.ndim, u
    for axis, sides in enumerate(domain.boundary):
        values = []
        for end, side in enumerate(sides):
            value, wall = jnp.zeros((), u.dtype), grid.wall(axis, end)
            if isinstance(side, AbstractGhostCellBoundary):
                value = domain.boundary_value(axis, end, field, t, order)[0]
            shape = (*u.shape[:-ndim], *wall.shape[1:])
            value = jnp.broadcast_to(value, shape).astype(u.dtype)
            # The boundary value is padded along the axes on which the field is by now.
            for earlier in range(axis):
                nothing = 2 * (jnp.zeros((), u.dtype),)
                value = _pad_axis(value, free, earlier, nothing, order)
            values.append(jnp.moveaxis(value, axis - ndim, -1))
        u = _pad_axis(u, domain, axis, values, order)
    return u


def _pad_axis(
    u: Array, domain: Domain, axis: int, values: Sequence[Array], order: int
) -> Array:
    """Pad both ends of an axis by order / 2 ghost cells, from the boundary `values`."""
    grid, width = domain.grid, order // 2
    lines = jnp.moveaxis(u, axis - grid.ndim, -1)
    inwards = lines, jnp.flip(lines, -1)
    beyond = []
    for end, side in enumerate(domain.boundary[axis]):
        if not isinstance(side, AbstractGhostCellBoundary):
            beyond.append(inwards[1 - end][..., :width])
            continue
        # These say nothing about the field at the boundary itself.
        if isinstance(side, Inflow | Outflow | ReflectingWall):
            side = Extrapolation()
        ghosts = side.ghosts(grid.spacing[axis], width, order)
        weights = ghosts.interior_weights
        if weights.ndim == 3:
            weights = jnp.expand_dims(weights, range(1, grid.ndim))
        cells = inwards[end][..., None, : weights.shape[-1]]
        inner = jnp.sum(weights * cells, -1)
        beyond.append(inner + ghosts.boundary_weight * values[end])
    low, high = beyond
    lines = jnp.concatenate([jnp.flip(low, -1), lines, high], -1)
    return jnp.moveaxis(lines, -1, axis - grid.ndim)


def _inside(points: Any, lower: Any, upper: Any, domain: Domain) -> Array | np.ndarray:
    """Whether a point is inside, along every axis that is not periodic."""
    periodic = np.array([domain.periodic(i) for i in range(domain.grid.ndim)])
    return (points >= lower) & (points <= upper) | periodic


def _validate_points(points: Any, domain: Domain, dtype: Any) -> Array:
    array, ndim = as_floating("points", points), domain.grid.ndim
    if array.shape[-1:] != (ndim,):
        raise ValueError(
            f"points must have shape (point, {ndim}), or ({ndim},) for one, got "
            f"{array.shape}"
        )
    numbers = points, domain.grid.lower, domain.grid.upper
    if any(map(is_traced, jax.tree.leaves(numbers))):
        return array
    # By NumPy: within a compiled function JAX would trace known numbers.
    places, lower, upper = (np.asarray(a, dtype) for a in numbers)
    outside = ~np.all(_inside(places, lower, upper, domain), -1)
    if np.any(outside):
        raise ValueError(
            f"points must lie within the domain, from {lower} to {upper}, got "
            f"{places[outside][0]}"
        )
    return array
