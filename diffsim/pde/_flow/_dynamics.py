"""What accelerates a flow: all of it at once, or friction and drag implicitly."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...simulations import AbstractSplit
from ._momentum import friction, momentum
from ._obstacle import Obstacle
from ._pressure import projected
from ._staggered import Faces, Staggered
from ._walls import on_axes


class Forces(eqx.Module):
    """Everything but pressure, on the unknown faces."""

    space: Staggered
    viscosity: Array
    forcing: Any
    obstacle: Obstacle | None
    #: χ/η of every component; nothing without an obstacle.
    hindrance: Faces

    @classmethod
    def of(cls, flow: Any) -> "Forces":
        """Those of a flow, with what does not change in a run worked out."""
        space = Staggered(flow.grid, flow.walls)
        body = flow.obstacle
        hindrance = ()
        if body is not None:
            places = (space.points(i) for i in range(flow.grid.ndim))
            spacing = flow.grid.spacing
            hindrance = tuple(body.inside(x, spacing) / body.time for x in places)
        return cls(space, flow.viscosity, flow.forcing, body, hindrance)

    def all(self, t: Any, u: Faces) -> Faces:
        found = momentum(self.space, self.viscosity, u, t)
        return _added(_added(found, self.drag(t, u)), self.given(t))

    def given(self, t: Any) -> Faces:
        """The forcing."""
        if self.forcing is None:
            return ()
        places = map(self.space.points, range(self.space.grid.ndim))
        return tuple(on_axes(self.forcing, t, x)[i] for i, x in enumerate(places))

    def drag(self, t: Any, u: Faces) -> Faces:
        """−χ/η (u − u_b)."""
        if self.obstacle is None:
            return ()
        found = []
        for i, (k, a) in enumerate(zip(self.hindrance, u, strict=True)):
            body = on_axes(self.obstacle.velocity, t, self.space.points(i))[i]
            found.append(k * (body - a))
        return tuple(found)


class Viscous(AbstractSplit):
    forces: Forces

    @classmethod
    def of(cls, flow: Any) -> "Viscous":
        return cls(Forces.of(flow))

    @property
    def whole(self):
        return False

    def vf(self, t, y, args):
        del args
        return projected(self.forces.space, self.forces.all(t, y), t)[0]

    def explicit(self, t, y, args):
        raise NotImplementedError

    def implicit(self, t, y, args):
        raise NotImplementedError

    def solve(self, t, rhs, length, guess, args):
        raise NotImplementedError


def cast(tree: Any, dtype: Any) -> Any:
    """With every float in the type of the state, which governs."""
    floats, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.tree.map(lambda a: a.astype(dtype), floats), rest)


def _added(a: Faces, b: Faces) -> Faces:
    return tuple(map(jnp.add, a, b)) if b else a
