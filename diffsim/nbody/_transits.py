"""Conjunctions as events, and what is seen of them: durations and light travel time."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._bodies import State
from ._nbody import NBody, TotalAcceleration


class Conjunction(eqx.Module):
    """Half the rate of the squared distance on the sky, which rises through 0."""

    observer: Float[Array, "3"]
    planet: int = eqx.field(static=True)
    star: int = eqx.field(static=True)

    def __call__(self, t: Any, state: State, simulation: Any) -> Array:
        del t, simulation
        d, w = (
            x[self.planet] - x[self.star] for x in (state.positions, state.velocities)
        )
        n = self.observer.astype(d.dtype)
        return jnp.sum(d * w) - jnp.sum(d * n) * jnp.sum(w * n)


class InFront(eqx.Module):
    """Whether the planet is nearer to the observer than the star, or `behind` it."""

    observer: Float[Array, "3"]
    planet: int = eqx.field(static=True)
    star: int = eqx.field(static=True)
    behind: bool = eqx.field(static=True)

    def __call__(self, t: Any, state: State, simulation: Any) -> Array:
        del t, simulation
        d = state.positions[self.planet] - state.positions[self.star]
        nearer = jnp.sum(d * self.observer) > 0
        return ~nearer if self.behind else nearer


class Seen(NamedTuple):
    """Of transits: when, how far from the center, how fast, and for how long."""

    times: Array
    separations: Array
    speeds: Array
    durations: Array | None


class View(NamedTuple):
    """How transits are looked at; `c` None is without light travel time."""

    observer: Float[Array, "3"]
    star: int
    c: Array | None


def seen_transits(
    simulation: NBody,
    view: View,
    planets: Array,
    times: Array,
    states: State,
    reach: Array | None,
) -> Seen:
    """What is seen of conjunctions of `planets` at `times`, where the `states` are.

    With the distance of centers at which the discs touch, `reach`, for how long.
    """

    def one(given):
        planet, t, x, v, reach = given
        scene = _Scene(simulation, view, planet, t, (x.T, v.T))
        return scene.seen(reach)

    every = planets, times, states.positions, states.velocities, reach
    # One after another: of a batch of small states a CPU makes one slow loop.
    return jax.lax.map(one, every)


#: Steps of Newton's method from a start that a straight line gives, and Runge–Kutta
#: steps to a contact: 8 leave 1e-10 of the orbit where the star is a tenth of it.
_NEWTON, _STEPS = 5, 8


class _Scene(NamedTuple):
    """All bodies at a conjunction, and what is seen a little before and after."""

    simulation: NBody
    view: View
    planet: Array
    t: Array
    y: tuple[Array, Array]

    def seen(self, reach: Array | None) -> Seen:
        zero = jnp.zeros_like(self.t)
        s = zero if self.view.c is None else _newton(self._approach, zero)
        d, w, t = self._apparent(s, steps=1)
        separation = jnp.sqrt(jnp.sum(d * d))
        speed = jnp.sqrt(jnp.sum(w * w))
        if reach is None:
            return Seen(t, separation, speed, None)
        transits = separation < reach
        # Elsewhere some distance that is reached, so that no derivative is NaN.
        target = jnp.where(transits, reach, 2 * separation)
        half = jnp.sqrt(target**2 - separation**2) / speed

        def contact(start):
            def beyond(s):
                d, _, _ = self._apparent(s, steps=_STEPS)
                return jnp.sum(d * d) - target**2

            return self._apparent(_newton(beyond, start), steps=_STEPS)[2]

        first, last = jax.lax.map(contact, jnp.stack([s - half, s + half]))
        duration = jnp.where(transits, last - first, jnp.nan)
        return Seen(t, separation, speed, duration)

    def _approach(self, s: Array) -> Array:
        d, w, _ = self._apparent(s, steps=1)
        return jnp.sum(d * w)

    def _apparent(self, s: Array, *, steps: int) -> tuple[Array, Array, Array]:
        """From the star to the planet on the sky, its rate, and the time it is seen.

        By light that passes the planet `s` after the conjunction.
        """
        n, c = self.view.observer.astype(s.dtype), self.view.c
        star, t = self.view.star, self.t + s
        x, v = _flow(self.simulation, self.t, self.y, s, steps)
        planet, rate = x[:, self.planet], v[:, self.planet]
        if c is None:
            d, w = planet - x[:, star], rate - v[:, star]
            return _across(d, n), _across(w, n), t
        a = jnp.asarray(TotalAcceleration(self.simulation)(t, x, v))[:, star]
        where, moves = x[:, star], v[:, star]
        wait, at = jnp.zeros_like(s), where
        # How long before it the light left the star, which hardly moves in that time.
        for _ in range(4):
            wait = jnp.sum((planet - at) * n) / c
            at = where - moves * wait + a * wait**2 / 2
        moves = moves - a * wait
        ahead, behind = (1 - jnp.sum(u * n) / c for u in (rate, moves))
        d, w = planet - at, rate / ahead - moves / behind
        return _across(d, n), _across(w, n), t - jnp.sum(planet * n) / c


def _across(a: Array, n: Array) -> Array:
    """The part of a vector across the line of sight."""
    return a - jnp.sum(a * n) * n


def _newton(function: Any, start: Array) -> Array:
    """A root near `start`; each step squares the errors of its derivatives as well."""

    def step(s, _):
        value, slope = jax.jvp(function, (s,), (jnp.ones_like(s),))
        return s - value / slope, None

    return jax.lax.scan(step, start, None, length=_NEWTON)[0]


def _flow(
    simulation: NBody, t: Array, y: tuple[Array, Array], s: Array, steps: int
) -> tuple[Array, Array]:
    """The state `s` after y, by classical Runge–Kutta steps."""
    force, h = TotalAcceleration(simulation), s / steps

    def rate(t, x, v):
        return v, jnp.asarray(force(t, x, v))

    def step(y, i):
        x, v = y
        now = t + i * h
        a1, b1 = rate(now, x, v)
        a2, b2 = rate(now + h / 2, x + h / 2 * a1, v + h / 2 * b1)
        a3, b3 = rate(now + h / 2, x + h / 2 * a2, v + h / 2 * b2)
        a4, b4 = rate(now + h, x + h * a3, v + h * b3)
        x = x + h / 6 * (a1 + 2 * (a2 + a3) + a4)
        return (x, v + h / 6 * (b1 + 2 * (b2 + b3) + b4)), None

    return jax.lax.scan(step, y, jnp.arange(steps, dtype=s.dtype))[0]
