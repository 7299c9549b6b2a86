"""Validation of the arguments of a flow."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._results import check_signs
from ..._validation import (
    PositiveParameter,
    as_floating,
    check_precision,
    compile_time_eval,
    function_of,
    instance,
    is_traced,
)
from .._boundaries import array_or_function
from .._grid import Grid
from ._penalization import Obstacle
from ._staggered_grid import Faces, StaggeredGrid
from ._walls import cell_center_domain, check_on_axes, one_per_axis


def check_viscosity(viscosity: Array):
    """Raise `ValueError` unless it is one number, not negative."""
    if viscosity.ndim:
        raise ValueError(f"viscosity must be a number, got shape {viscosity.shape}")
    check_signs([viscosity_sign(viscosity)])


def viscosity_sign(viscosity: Array) -> PositiveParameter:
    hint = "a negative one makes a flow rougher without bound"
    return PositiveParameter("viscosity", viscosity, zero=True, hint=hint)


def check_grid(grid: Grid):
    """Raise `ValueError` for one dimension and for grids without faces inside."""
    instance("grid", grid, Grid, "pde.Grid((64, 64))")
    if grid.ndim == 1 or min(grid.shape) < 2:
        raise ValueError(
            f"grid must have two or three axes of 2 cells or more, got shape "
            f"{grid.shape}"
        )


def check_obstacle(obstacle: Any, space: StaggeredGrid):
    """Raise `ValueError` for what is no obstacle of this grid."""
    if obstacle is None:
        return
    grid = space.grid
    if not isinstance(obstacle, Obstacle):
        raise ValueError(
            f"obstacle must be a pde.Obstacle(distance) or None, got {obstacle!r:.60}"
        )
    x = jax.ShapeDtypeStruct((grid.ndim, *grid.shape), jnp.result_type(float))
    try:
        shape = jnp.shape(eqx.filter_eval_shape(obstacle.distance, x))
        fits = np.broadcast_shapes(shape, grid.shape) == grid.shape
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the distance of obstacle must be a function of x, shape {x.shape}, on "
            f"this grid: {error}"
        ) from error
    if not fits:
        raise ValueError(
            f"the distance of obstacle must return one number a place, shape "
            f"{grid.shape} for x of shape {x.shape}, got {shape}"
        )
    check_on_axes("the velocity of obstacle", obstacle.velocity, x.shape)
    _check_covers(obstacle, space)


def _check_covers(obstacle: Obstacle, space: StaggeredGrid):
    """Raise `ValueError` for a body with no unknown of the flow inside."""
    if any(is_traced(leaf) for leaf in jax.tree.leaves((obstacle, space))):
        return
    grid = space.grid
    with compile_time_eval():
        places = map(space.points, range(grid.ndim))
        parts = [obstacle.inside(x, grid.spacing, space.images()) for x in places]
        most = jnp.max(jnp.stack([jnp.max(part) for part in parts]))
    # A distance may close over what is traced.
    if not is_traced(most) and most < 0.5:
        raise ValueError(
            "obstacle must reach over a face of a cell, got one that lies outside of "
            f"the domain, from {grid.lower} to {grid.upper}, or is smaller than a "
            f"cell, {grid.spacing}; its distance is negative inside"
        )


def validate_forcing(given: Any, grid: Grid) -> Array | Callable | None:
    """Validate a forcing."""
    if given is None:
        return None
    given = array_or_function("forcing", given)
    check_on_axes("forcing", given, (grid.ndim, *grid.shape))
    return given


def validate_initial(
    given: Any, space: StaggeredGrid
) -> Array | Faces | Callable | None:
    """Validate an initial velocity; None is at rest."""
    ndim = space.grid.ndim
    if given is None:
        return None
    if callable(given):
        function_of("initial", given, ("x",))
        check_on_axes("initial", lambda t, x: given(x), (ndim, *space.grid.shape))
        _check_finite_on_faces(given, space)
        return given
    if isinstance(given, tuple | list) and any(map(np.ndim, given)):
        return _validate_faces(given, space)
    given = as_floating("initial", given)
    shape = ndim, *space.grid.shape
    if given.ndim > 1 and given.shape != shape:
        raise ValueError(
            f"initial must have shape {shape} as a field in the centers of cells, got "
            f"{given.shape}; or give one number an axis, a function of x, or the tuple "
            "of components on the unknown faces"
        )
    check_precision("initial", given)
    if given.ndim <= 1:
        check_on_axes("initial", given, shape)
    _check_finite(given)
    return given


def initial_velocities(given: Any, space: StaggeredGrid) -> Faces:
    """The initial velocity on the unknown faces, whether or not it diverges."""
    dtype = space.grid.lower.dtype
    if isinstance(given, tuple):
        return tuple(a.astype(dtype) for a in given)
    places = enumerate(map(space.points, range(space.grid.ndim)))
    if given is None:
        return tuple(jnp.zeros_like(x[i]) for i, x in places)
    if callable(given):
        return tuple(one_per_axis(lambda t, x: given(x), None, x)[i] for i, x in places)
    if given.ndim > 1:
        views = cell_center_domain(
            space.grid, space.walls
        ).with_extrapolated_boundaries.face_neighbors(given)
        means = [(low + high)[i] / 2 for i, (low, high) in enumerate(views)]
        return tuple(space.unknown(a, i).astype(dtype) for i, a in enumerate(means))
    return tuple(one_per_axis(given, None, x)[i] for i, x in places)


def _validate_faces(given: Any, space: StaggeredGrid) -> Faces:
    arrays = tuple(as_floating("initial", a) for a in given)
    wanted = tuple(map(space.shape, range(space.grid.ndim)))
    shapes = tuple(a.shape for a in arrays)
    if shapes != wanted:
        raise ValueError(
            f"initial must have the components on unknown faces, of shapes {wanted} "
            f"for this grid and these walls, got {shapes}; or give a function of x"
        )
    for a in arrays:
        check_precision("initial", a)
        _check_finite(a)
    return arrays


def _check_finite_on_faces(function: Any, space: StaggeredGrid):
    if any(is_traced(leaf) for leaf in jax.tree.leaves((function, space))):
        return
    with compile_time_eval():
        for component in initial_velocities(function, space):
            _check_finite(component)


def _check_finite(initial: Array):
    if not is_traced(initial) and not np.all(np.isfinite(np.asarray(initial))):
        raise ValueError(
            "initial must be finite, got values that are infinite or not a number"
        )
