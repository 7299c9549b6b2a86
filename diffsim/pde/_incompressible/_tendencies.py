"""Tendencies of a flow: advection, friction, drag and forcing."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import slice_in_dim
from jaxtyping import Array

from ...implicit import BiCGStab, Krylov, linear_solve
from ...simulations import AbstractIMEXTerm
from .._stencils import divergence
from ._penalization import Obstacle
from ._projection import project_out_gradient
from ._staggered_grid import Faces, StaggeredGrid
from ._walls import one_per_axis


class Tendencies(eqx.Module):
    """Tendencies of velocity but for pressure, on the unknown faces."""

    space: StaggeredGrid
    viscosity: Array
    forcing: Any
    obstacle: Obstacle | None
    #: χ/η of every component; nothing without an obstacle.
    drag_rate: Faces

    @classmethod
    def of(cls, flow: Any) -> "Tendencies":
        """Tendencies of a flow; what does not change in a run is evaluated here."""
        space, body = StaggeredGrid(flow.grid, flow.boundary), flow.obstacle
        drag_rate = ()
        if body is not None:
            places = map(space.points, range(flow.grid.ndim))
            spacing, shifts = flow.grid.spacing, space.images()
            drag_rate = tuple(
                body.inside(x, spacing, shifts) / body.penalization_time for x in places
            )
        return cls(space, flow.viscosity, flow.forcing, body, drag_rate)

    def total(self, t: Any, u: Faces) -> Faces:
        forces = _sum(self.drag(t, u), self.external(t))
        return _sum(momentum(self.space, self.viscosity, u, t), forces)

    def resistance(self, t: Any, u: Faces) -> Faces:
        """Friction and drag, linear in u; at no time, None, without what moves."""
        return _sum(friction(self.space, self.viscosity, u, t), self.drag(t, u))

    def others(self, t: Any, u: Faces) -> Faces:
        return _sum(momentum(self.space, None, u, t), self.external(t))

    def external(self, t: Any) -> Faces:
        if self.forcing is None:
            return ()
        places = map(self.space.points, range(self.space.grid.ndim))
        return tuple(one_per_axis(self.forcing, t, x)[i] for i, x in enumerate(places))

    def drag(self, t: Any, u: Faces) -> Faces:
        """−χ/η (u − u_b), or nothing without an obstacle."""
        if self.obstacle is None:
            return ()
        if t is None:
            return tuple(-k * a for k, a in zip(self.drag_rate, u, strict=True))
        places = map(self.space.points, range(self.space.grid.ndim))
        velocity = self.obstacle.velocity
        return tuple(
            k * (one_per_axis(velocity, t, x)[i] - a)
            for i, (k, a, x) in enumerate(zip(self.drag_rate, u, places, strict=True))
        )


class ProjectedDynamics(AbstractIMEXTerm):
    """Projected forces, of which friction and drag are the stiff ones."""

    forces: Tendencies

    @property
    def fully_implicit(self):
        return False

    def vf(self, t, y, args):
        del args
        return self._projected_tendency(Tendencies.total, t, y)

    def explicit(self, t, y, args):
        del args
        return self._projected_tendency(Tendencies.others, t, y)

    def implicit(self, t, y, args):
        del args
        return self._projected_resistance(t, y)

    def solve(self, t, rhs, length, guess, args):
        """Solve by BiCGStab: beside no-slip walls friction is not symmetric."""
        del guess, args

        def operator(v):
            return jax.tree.map(
                lambda a, c: a - length * c, v, self._projected_resistance(None, v)
            )

        b = jax.tree.map(lambda c: length * c, self._projected_resistance(t, rhs))
        moved = linear_solve(operator, b, linear_solver=Krylov(BiCGStab()), throw=False)
        return jax.tree.map(jnp.add, rhs, moved)

    def _projected_resistance(self, t: Any, u: Faces) -> Faces:
        """Project friction and drag, without what crosses the sides."""
        space, rate = self.forces.space, self.forces.resistance(t, u)
        return project_out_gradient(space, rate, None)[0]

    def _projected_tendency(self, forces: Any, t: Any, u: Faces) -> Faces:
        # The gradient evaluates it again: five times less memory, and no slower.
        rate = eqx.filter_checkpoint(forces, prevent_cse=False)(self.forces, t, u)
        return project_out_gradient(self.forces.space, rate, t)[0]


def _sum(a: Faces, b: Faces) -> Faces:
    """Sum two, either of which may be nothing."""
    return tuple(map(jnp.add, a, b)) if a and b else a or b


def momentum(space: StaggeredGrid, viscosity: Any, u: Faces, t: Any) -> Faces:
    r"""Momentum tendency $-\nabla\cdot(uu) + \nu\nabla^2 u$; ν None: no friction.

    By fluxes between them, each the product of two means (Harlow and Welch): of flows
    without divergence they neither make energy nor take it.
    """
    views = [space.around(i, a, t) for i, a in enumerate(u)]
    means = [[(low + high) / 2 for low, high in pairs] for pairs in views]
    spacing, rates = space.grid.spacing, []
    for i, pairs in enumerate(views):
        carried = divergence(
            [
                1 / dx * _advecting_velocity(space, means, i, axis, t) * means[i][axis]
                for axis, dx in enumerate(spacing)
            ]
        )
        if viscosity is None:
            rates.append(-carried)
        else:
            rates.append(viscosity * _viscous_term(space, pairs) - carried)
    return tuple(rates)


def friction(space: StaggeredGrid, viscosity: Array, u: Faces, t: Any) -> Faces:
    return tuple(
        viscosity * _viscous_term(space, space.around(i, a, t)) for i, a in enumerate(u)
    )


def _viscous_term(space: StaggeredGrid, pairs: list[list[Array]]) -> Array:
    """∇² of a component, from its values on both sides of the places between."""
    slopes = zip(pairs, space.grid.spacing, strict=True)
    # Viscosity behind the divergence: its derivative is one sum, not one an axis.
    return divergence([dx**-2 * (high - low) for (low, high), dx in slopes])


def _advecting_velocity(
    space: StaggeredGrid, means: list[list[Array]], i: int, axis: int, t: Any
) -> Array:
    """The velocity along `axis` at the places between faces of component i."""
    if i == axis:
        return means[i][i]
    inside = slice_in_dim(means[axis][i], *space.span(i), axis=i)
    walls = tuple(space.at_wall(i, axis, end, t)[axis] for end in (0, 1))
    return space.with_boundary_faces(axis, inside, walls)
