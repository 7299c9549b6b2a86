"""`IncompressibleFlow`: Navier–Stokes between walls."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._checks import as_floating, is_traced
from ..._types import Numbers
from ...simulations import AbstractSimulation, Method
from .._grid import Grid
from ._dynamics import Flowing, Forces, cast
from ._obstacle import Obstacle
from ._pressure import projected, solenoidal
from ._staggered import Staggered
from ._walls import Sides, check_on_axes, on_axes, walls_of


class IncompressibleFlow(AbstractSimulation):
    viscosity: Array
    grid: Grid
    walls: Sides
    forcing: Any
    obstacle: Obstacle | None
    initial: Any
    t0: float | Array

    references: ClassVar[tuple[str, ...]] = (
        "10.1063/1.1761178",
        "10.1016/j.jcp.2011.11.028",
    )

    def __init__(
        self,
        viscosity: Numbers,
        grid: Grid,
        walls: Any,
        *,
        forcing: Any = None,
        obstacle: Obstacle | None = None,
        initial: Any = None,
        t0: float | Array = 0.0,
    ):
        self.viscosity = as_floating("viscosity", viscosity)
        _check_viscosity(self.viscosity)
        self.grid = _checked_grid(grid)
        self.walls = walls_of(walls, grid)
        self.forcing = _on_axes("forcing", forcing, grid)
        self.obstacle = _checked_obstacle(obstacle, grid)
        self.initial = _checked_initial(initial, Staggered(grid, self.walls))
        self.t0 = t0

    @property
    def dtype(self) -> Any:
        """Of the state: that of the initial velocity, else of the corners."""
        arrays = self.initial if isinstance(self.initial, tuple) else [self.grid.lower]
        return jnp.result_type(*arrays)

    def initial_state(self):
        space = self._space
        shapes = [space.points(i) for i in range(space.grid.ndim)]
        if isinstance(self.initial, tuple):
            start = tuple(a.astype(self.dtype) for a in self.initial)
        elif callable(self.initial):
            start = tuple(_component(self.initial(x), i, x) for i, x in enumerate(shapes))
        else:
            start = tuple(on_axes(self.initial, None, x)[i] for i, x in enumerate(shapes))
        return solenoidal(space, start, self._time(self.t0))

    def terms(self):
        return Flowing(Forces.of(self._cast))

    def default_method(self):
        return Method(diffrax.Tsit5())

    def observe(self, t, y):
        space = self._space
        return space.centered(solenoidal(space, y, t), t)

    def pressure(self, t: Array, y: Any) -> Array:
        space = self._space
        forces = Forces.of(self._cast)
        return projected(space, forces.total(t, y), t)[1]

    def force(self, t: Array, y: Any) -> Array:
        forces = Forces.of(self._cast)
        return jnp.stack([-jnp.sum(a) for a in forces.drag(t, y)]) * forces.space.grid.volume

    def velocities(self, t: Array, y: Any) -> tuple[Array, ...]:
        space = self._space
        return space.faces(solenoidal(space, y, t), t)

    @property
    def _cast(self) -> "IncompressibleFlow":
        return cast(self, self.dtype)

    @property
    def _space(self) -> Staggered:
        return cast(Staggered(self.grid, self.walls), self.dtype)

    def _time(self, t):
        return jnp.asarray(t, self.dtype)


def _component(found, i, x):
    return jnp.broadcast_to(jnp.asarray(found, x.dtype), x.shape)[i]


def _check_viscosity(viscosity: Array):
    if viscosity.ndim:
        raise ValueError(f"viscosity must be a number, got shape {viscosity.shape}")
    if not is_traced(viscosity) and not np.asarray(viscosity) >= 0:
        raise ValueError(
            f"viscosity must be 0 or positive, got {viscosity}: flows of a negative one "
            "grow rougher without bound"
        )


def _checked_grid(grid):
    if grid.ndim == 1 or min(grid.shape) < 2:
        raise ValueError(
            f"grid must have two or three axes of at least 2 cells, got shape "
            f"{grid.shape}"
        )
    return grid


def _on_axes(name, given, grid):
    if given is None:
        return None
    given = given if callable(given) else as_floating(name, given)
    check_on_axes(name, given, (grid.ndim, *grid.shape))
    return given


def _checked_obstacle(obstacle, grid):
    return obstacle


def _checked_initial(initial, space):
    if initial is None:
        return as_floating("initial", 0.0)
    if isinstance(initial, tuple):
        return tuple(as_floating("initial", a) for a in initial)
    return initial if callable(initial) else as_floating("initial", initial)
