"""`IncompressibleFlow`: Navier–Stokes between walls."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..._jit._fresh_jit import fresh_jit
from ..._parameter_selection import cast
from ..._results import RESULTS, check_signs
from ..._types import Numbers, PyTree
from ..._validation import (
    PositiveParameter,
    all_hold,
    as_floating,
    check_precision,
    compile_time_eval,
    finite,
    function_of,
    instance,
    is_traced,
    scalar,
)
from ...simulations import AbstractSimulation, Method
from .._boundaries import array_or_function
from .._domain import Domain
from .._grid import FieldAxes, Grid, broadcasts_to, components
from .._time_step import CFL, LinearizedModes, warn_if_unstable
from ._penalization import Obstacle
from ._projection import leray_project, project_out_gradient
from ._staggered_grid import Faces, StaggeredGrid
from ._tendencies import ProjectedDynamics, Tendencies
from ._walls import (
    Sides,
    cell_center_domain,
    check_on_axes,
    one_per_axis,
    validate_boundary,
    wall_stiffness_factor,
)


class IncompressibleFlow(AbstractSimulation):
    r"""Incompressible Navier–Stokes equations between walls, in two or three axes:

    $$\partial_t u + \nabla\cdot(uu) = -\nabla p + \nu\nabla^2 u + f
      - \tfrac{\chi}{\eta}(u - u_b), \qquad \nabla\cdot u = 0$$

    Every component lives on the faces that it crosses (Harlow and Welch), fluxes are
    central, of order 2, friction at a wall is that of the parabola through it and two
    values, and every rate is projected: pressure takes out of it what would diverge, by
    one Poisson problem solved directly. So the dynamics are an ordinary equation on the
    flows without divergence, for any solver.

    ```python
    lid = pde.NoSlip((1.0, 0.0))
    cavity = pde.IncompressibleFlow(
        0.01, pde.Grid((64, 64)), (pde.NoSlip(), (pde.NoSlip(), lid))
    )
    ds.simulate(cavity, [1.0, 2.0]).states  # (time, axis, x, y)
    ```

    **Arguments**

    - `viscosity`: ν, length² / time, a number.
    - `grid`: a `Grid` of two or three axes.
    - `boundary`: `NoSlip`, `FreeSlip`, `Inflow`, `Outflow` or `Periodic`: one for all
        sides, or a tuple with an entry for each axis, one for both of its sides or a
        pair. `Inflow(velocity)` takes one number an axis, or a function of (t, x) that
        returns one an axis; at an `Outflow` pressure is zero and so are the changes of
        velocity across it.
    - `forcing`: f, length / time²: a number an axis, or a function of (t, x) that
        returns one an axis, x of shape (axis, ...).
    - `obstacle`: an `Obstacle`.
    - `initial`: the velocity at `t0`: one number an axis, a function of x that returns
        one an axis, a field in the centers of cells, shape (axis, *grid), whose means
        are taken on the faces, or, to go on exactly, the components on the unknown
        faces, as `trajectory.final.y` and
        `pde.steady_state(flow, observe=lambda t, y: y)` have them. What diverges in it
        is projected out. None is at rest. The numbers of a function that is a pytree,
        as an `eqx.Module` is, are parameters, `initial.amplitude`.
    - `t0`: the epoch. A Python number is static; an array is a parameter.

    States are velocities in the centers of cells, shape (time, axis, *grid). Methods of
    a flow show more of an internal state, as `observe=flow.force` does in `simulate`:
    `velocities` on all faces, `pressure` in the centers of cells, the `force` on the
    obstacle. `domain` is the grid with what states obey at the walls, for `pde.probe`.

    **Good values:** cells of 2 ν / max|u| or shorter where the flow varies, and no
    longer than half a layer at a wall, $\sqrt{\nu L/u}$; explicit methods are stable
    for steps of up to about Δx² / 2dν in d dimensions, up to an eighth less beside
    `NoSlip`, and Δx / max|u|, which the default controller finds. Where the first, or
    the time of an obstacle, is far below the second take `integrators.KenCarp4()`,
    which solves for friction and drag: in the cavity on 128² cells it takes a fifth of
    the time of the default at a Reynolds number of 1, as long at 5, and seven times as
    long at 100.

    **Raises:** `ValueError` for sides without a wall, an `Inflow` without an `Outflow`,
    shapes that do not fit, and a viscosity below 0.

    **Limits:** where cells are longer than 2 ν / |u| central fluxes leave wiggles
    beside what is sharp (convenience); forces know the time and the place, not the
    flow, and viscosity is a number (convenience); forces and walls that act for less
    than a hundredth of a run may be skipped, see `Evolution` (mathematics); flow that
    comes back in through an `Outflow` may grow without bound (mathematics of this
    condition).
    """

    viscosity: Array
    grid: Grid
    boundary: Sides
    forcing: Any
    obstacle: Obstacle | None
    initial: Any
    t0: float | Array

    bounds_steps: ClassVar[bool] = True
    references: ClassVar[tuple[str, ...]] = (
        "10.1063/1.1761178",
        "10.1016/j.jcp.2011.11.028",
    )

    def __init__(
        self,
        viscosity: Numbers,
        grid: Grid,
        boundary: Any,
        *,
        forcing: Any = None,
        obstacle: Obstacle | None = None,
        initial: Any = None,
        t0: float | Array = 0.0,
    ):
        self.viscosity = as_floating("viscosity", scalar("viscosity", viscosity))
        self.grid = instance("grid", grid, Grid, "pde.Grid((64, 64))")
        if grid.ndim == 1 or min(grid.shape) < 2:
            raise ValueError(
                f"grid must have two or three axes of 2 cells or more, got shape "
                f"{grid.shape}"
            )
        self.boundary = validate_boundary(boundary, grid)
        self.forcing = forcing
        if forcing is not None:
            self.forcing = array_or_function("forcing", forcing)
            check_on_axes("forcing", self.forcing, (grid.ndim, *grid.shape))
        space = StaggeredGrid(grid, self.boundary)
        self.obstacle = obstacle
        if obstacle is not None:
            instance("obstacle", obstacle, Obstacle, "pde.Obstacle(distance)")
            _check_obstacle(obstacle, space)
        self.initial = _validate_initial(initial, space)
        self.t0 = scalar("t0", t0)

    def __check_init__(self) -> None:
        check_signs([self._viscosity_sign()])

    def _viscosity_sign(self) -> PositiveParameter:
        hint = "a negative one makes a flow rougher without bound"
        return PositiveParameter("viscosity", self.viscosity, zero=True, hint=hint)

    def initial_state(self) -> Faces:
        start = _initial_velocities(self.initial, self._space)
        return leray_project(self._space, start, self._time(self.t0))

    def terms(self) -> diffrax.AbstractTerm[Any, Any]:
        return ProjectedDynamics(self._forces)

    def check_method(self, method: Method, duration: float | None = None) -> bool:
        # Steps that an error chooses are as short as they have to be.
        if method.adaptive and not isinstance(method.controller, CFL):
            return False
        return warn_if_unstable(self, method, duration)

    def is_valid(self) -> Bool[Array, ""]:
        drag = () if self.obstacle is None else self.obstacle.positive_parameters()
        return self.grid.is_valid() & all_hold((self._viscosity_sign(), *drag))

    def courant_rate(self, t: Any, y: Faces) -> Array:
        """Courant rate of a state, with friction and drag, for `CFL`."""
        return self._advective_rate(t, y) + self._damping_rate()

    def waves(self, t: Any, y: Faces) -> LinearizedModes:
        """Linearized dynamics: central differences turn a mode once a crossing."""
        part = jnp.linspace(0, 1, 65, dtype=self._dtype)
        return LinearizedModes(
            -2 * self._damping_rate() * part**2, self._advective_rate(t, y) * part
        )

    def _advective_rate(self, t: Any, y: Faces) -> Array:
        """Courant rate of the flow, and of what moves along the walls."""
        space, t = self._space, self._time(t)
        fastest = space.max_advection_speed(leray_project(space, y, t), t)
        return jnp.sum(fastest / space.grid.spacing)

    def _damping_rate(self) -> Array:
        """Courant rate of friction and drag: half of what they take a time."""
        spacing = self._space.grid.spacing
        # A component decays faster along the walls of the other axes.
        stiff = np.array(
            [max(map(wall_stiffness_factor, pair)) for pair in self.boundary]
        )
        along = jnp.asarray(np.where(np.eye(stiff.size), 1, stiff), self._dtype)
        fastest = jnp.max(jnp.sum(along * spacing**-2, axis=1))
        friction = 2 * self.viscosity.astype(self._dtype) * fastest
        drag = 0 if self.obstacle is None else 0.5 / self.obstacle.penalization_time
        return friction + drag

    def default_method(self) -> Method:
        return Method(diffrax.Tsit5(), max_steps=100_000)

    def blow_up(self) -> RESULTS:
        return RESULTS.field_not_finite

    def observe(self, t: Any, y: PyTree) -> Array:
        space, t = self._space, self._time(t)
        return space.centered(leray_project(space, y, t), t)

    def state_axes(self) -> FieldAxes:
        space, solid = self._space, None
        if self.obstacle is not None:
            x = self.grid.centers
            solid = self.obstacle.inside(x, self.grid.spacing, space.images())
        names = components("velocity", self.grid.ndim)
        return FieldAxes.of(names, self.grid, self.boundary, solid)

    @fresh_jit
    def velocities(self, t: Any, y: Faces) -> Faces:
        """The components of an internal state, each on all faces across its axis."""
        space, t = self._space, self._time(t)
        return space.faces(leray_project(space, y, t), t)

    @fresh_jit
    def pressure(self, t: Any, y: Faces) -> Array:
        """p of an internal state over the density, in the centers of cells.

        Zero at an `Outflow`, and of mean zero without one.
        """
        forces, t = self._forces, self._time(t)
        return project_out_gradient(forces.space, forces.total(t, y), t)[1]

    @fresh_jit
    def force(self, t: Any, y: Faces) -> Array:
        r"""Force of the flow on the obstacle over the density, one number an axis.

        $\int \chi/\eta\,(u - u_b)$: drag along the stream, lift across it. Of a body
        that speeds up, what its inside takes is part of it. Zero without one.
        """
        forces, t = self._forces, self._time(t)
        if self.obstacle is None:
            return jnp.zeros(self.grid.ndim, self._dtype)
        parts = [-jnp.sum(a) for a in forces.drag(t, y)]
        return forces.space.grid.volume * jnp.stack(parts)

    @property
    def domain(self) -> Domain:
        """The grid with boundaries for states: velocities in the centers of cells."""
        return cell_center_domain(self.grid, self.boundary)

    @property
    def _dtype(self) -> np.dtype:
        """Data type of the state: that of an initial field, else of the corners."""
        arrays = jax.tree.leaves(self.initial)
        is_field = not callable(self.initial) and any(a.ndim > 1 for a in arrays)
        return jnp.result_type(*arrays) if is_field else self.grid.lower.dtype

    def _time(self, t: Any) -> Array:
        return jnp.asarray(t, self._dtype)

    @property
    def _space(self) -> StaggeredGrid:
        return cast(StaggeredGrid(self.grid, self.boundary), self._dtype)

    @property
    def _forces(self) -> Tendencies:
        return Tendencies.of(cast(self, self._dtype))


def _check_obstacle(obstacle: Obstacle, space: StaggeredGrid):
    """Raise `ValueError` for a body that does not fit the grid, or lies outside."""
    grid = space.grid
    x = jax.ShapeDtypeStruct((grid.ndim, *grid.shape), jnp.result_type(float))
    shape = jnp.shape(eqx.filter_eval_shape(obstacle.distance, x))
    if not broadcasts_to(shape, grid.shape):
        raise ValueError(
            f"the distance of obstacle must return one number a place, shape "
            f"{grid.shape} for x of shape {x.shape}, got {shape}"
        )
    check_on_axes("the velocity of obstacle", obstacle.velocity, x.shape)
    if any(is_traced(leaf) for leaf in jax.tree.leaves((obstacle, space))):
        return
    with compile_time_eval():
        places = map(space.points, range(grid.ndim))
        parts = [obstacle.inside(x, grid.spacing, space.images()) for x in places]
        largest = jnp.max(jnp.stack([jnp.max(part) for part in parts]))
    # A distance may close over what is traced.
    if not is_traced(largest) and largest < 0.5:
        raise ValueError(
            "obstacle must reach over a face of a cell, got one that lies outside of "
            f"the domain, from {grid.lower} to {grid.upper}, or is smaller than a "
            f"cell, {grid.spacing}; its distance is negative inside"
        )


def _validate_initial(
    initial: Any, space: StaggeredGrid
) -> Array | Faces | Callable | None:
    """Validate an initial velocity; None is at rest."""
    shape = space.grid.ndim, *space.grid.shape
    if initial is None:
        return None
    if callable(initial):
        function_of("initial", initial, ("x",))
        check_on_axes("initial", lambda t, x: initial(x), shape)
        if not any(is_traced(a) for a in jax.tree.leaves((initial, space))):
            with compile_time_eval():
                for component in _initial_velocities(initial, space):
                    finite("initial", component)
        return initial
    if isinstance(initial, tuple | list) and any(map(np.ndim, initial)):
        arrays = tuple(as_floating("initial", a) for a in initial)
        wanted = tuple(map(space.shape, range(space.grid.ndim)))
        shapes = tuple(a.shape for a in arrays)
        if shapes != wanted:
            raise ValueError(
                f"initial must have the components on unknown faces, of shapes "
                f"{wanted} for this grid and these walls, got {shapes}; or give a "
                "function of x"
            )
        for a in arrays:
            check_precision("initial", finite("initial", a))
        return arrays
    field = as_floating("initial", initial)
    check_precision("initial", finite("initial", field))
    if field.ndim <= 1:
        check_on_axes("initial", field, shape)
    elif field.shape != shape:
        raise ValueError(
            f"initial must have shape {shape} as a field in the centers of cells, got "
            f"{field.shape}; or give one number an axis, a function of x, or the tuple "
            "of components on the unknown faces"
        )
    return field


def _initial_velocities(initial: Any, space: StaggeredGrid) -> Faces:
    """The initial velocity on the unknown faces, whether or not it diverges."""
    dtype = space.grid.lower.dtype
    if isinstance(initial, tuple):
        return tuple(a.astype(dtype) for a in initial)
    places = enumerate(map(space.points, range(space.grid.ndim)))
    if initial is None:
        return tuple(jnp.zeros_like(x[i]) for i, x in places)
    if callable(initial):
        return tuple(
            one_per_axis(lambda t, x: initial(x), None, x)[i] for i, x in places
        )
    if initial.ndim > 1:
        domain = cell_center_domain(space.grid, space.walls)
        views = domain.with_extrapolated_boundaries.face_neighbors(initial)
        means = [(low + high)[i] / 2 for i, (low, high) in enumerate(views)]
        return tuple(space.unknown(a, i).astype(dtype) for i, a in enumerate(means))
    return tuple(one_per_axis(initial, None, x)[i] for i, x in places)
