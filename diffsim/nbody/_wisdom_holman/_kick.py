r"""Kicks by what is not a Kepler orbit, as changes of the velocities of a frame.

$$g(q) = B\,a(x) + \mu\,q/|q|^3,$$

the transformed total acceleration less that of the orbits. Both are as large as each
other and g is not, but its rounding is that of the acceleration, below the rounding of
the velocity that it is added to as long as a step is short.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._frames import Frame


class Change(NamedTuple):
    """Of velocities, or of places: of the orbits and of the barycenter."""

    orbits: Float[Array, "3 orbit"]
    center: Float[Array, "3 1"]

    def times(self, factor: Any) -> "Change":
        """All of it times a number."""
        return Change(factor * self.orbits, factor * self.center)

    def plus(self, other: "Change") -> "Change":
        """The sum of two."""
        return Change(self.orbits + other.orbits, self.center + other.center)


#: By place, a rate.
Perturbation = Callable[[Change], Change]


def perturbation(
    frame: Frame, terms: Any, t: Any, args: Any, *, isolated: bool
) -> Perturbation:
    """g at a time, and the acceleration of the barycenter.

    If `isolated`, where bodies attract each other and nothing else acts, that is zero,
    and places are about the barycenter: to add it would round them.
    """

    def of(place: Change) -> Change:
        q, center = place
        x = frame.inertial_positions(q)
        x = x if isolated else x + center
        one = jnp.ones((), q.dtype)
        a = terms.second(t, (x, jnp.zeros_like(x)), one, args)[1]
        r2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2]
        found = frame.velocities(a) + frame.gm / r2 / jnp.sqrt(r2) * q
        pushed = jnp.zeros_like(center) if isolated else frame.barycenter(a)
        return Change(found, pushed)

    return of


def plain_kick(g: Perturbation, place: Change, h: Array) -> Change:
    r"""$h\,g$."""
    return g(place).times(h)


def modified_kick(g: Perturbation, place: Change, h: Array) -> Change:
    r"""$h\,g + \tfrac{h^3}{12}\,g'g$: what is left of order ε² h² is taken off."""
    rate = g(place)
    return rate.times(h).plus(_along(g, place, rate).times(h * h * h / 12))


def lazy_kick(g: Perturbation, place: Change, h: Array) -> Change:
    r"""$h\,g(q + \tfrac{h^2}{12} g)$, the same to order h³ without a derivative."""
    return g(place.plus(g(place).times(h * h / 12))).times(h)


def commutator_kick(g: Perturbation, place: Change, h: Array) -> Change:
    r"""$h^3 g'g$ alone."""
    return _along(g, place, g(place)).times(h * h * h)


def _along(g: Perturbation, place: Change, rate: Change) -> Change:
    return jax.jvp(g, (place,), (rate,))[1]
