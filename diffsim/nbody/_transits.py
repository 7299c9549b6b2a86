"""Conjunctions as events, their durations and light travel time."""

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
    """Transits of `planets` whose conjunctions are at `times`, with the `states` there.

    With the distance of centers at which the discs touch, `reach`, their durations.
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


class _Apparent(NamedTuple):
    """From the star to the planet on the sky, its rate, and the time it is seen.

    `pace` is how fast that time goes, `a` about the rate of the rate.
    """

    d: Array
    w: Array
    a: Array
    t: Array
    pace: Array


class _Scene(NamedTuple):
    """All bodies at a conjunction, and what is seen a little before and after."""

    simulation: NBody
    view: View
    planet: Array
    t: Array
    y: tuple[Array, Array]

    def seen(self, reach: Array | None) -> Seen:
        s = jnp.zeros_like(self.t)
        if self.view.c is not None:
            s = _repeated(self._toward_middle, s)
        middle = self.apparent(s, 1)
        separation, speed = length(middle.d), length(middle.w)
        if reach is None:
            return Seen(middle.t, separation, speed, None)
        transits = separation < reach
        # Elsewhere some distance that is reached, so that no derivative is NaN.
        b2 = jnp.sum(middle.d * middle.d)
        target2 = jnp.where(transits, reach**2, 2 * b2)
        half = jnp.sqrt(target2 - b2) / speed

        def contact(start):
            def step(s):
                here = self.apparent(s, _STEPS)
                beyond = jnp.sum(here.d * here.d) - target2
                return s - beyond / (2 * jnp.sum(here.d * here.w) * here.pace)

            return self.apparent(_repeated(step, start), _STEPS).t

        first, last = jax.lax.map(contact, jnp.stack([s - half, s + half]))
        duration = jnp.where(transits, last - first, jnp.nan)
        return Seen(middle.t, separation, speed, duration)

    def _toward_middle(self, s: Array) -> Array:
        here = self.apparent(s, 1)
        # But for v / c, which is left of the error by each step.
        slope = jnp.sum(here.w * here.w) + jnp.sum(here.d * here.a)
        return s - jnp.sum(here.d * here.w) / slope

    def apparent(self, s: Array, steps: int) -> _Apparent:
        """The scene by light that passes the planet `s` after the conjunction."""
        n, c = self.view.observer.astype(s.dtype), self.view.c
        star, t, planet = self.view.star, self.t + s, self.planet
        force = TotalAcceleration(self.simulation)
        x, v = _flow(force, self.t, self.y, s, steps)
        a = jnp.asarray(force(t, x, v))
        at, moves, bends = (u[:, star] for u in (x, v, a))
        ahead = behind = jnp.ones_like(s)
        if c is not None:
            # How long before it the light left the star, which moves little since.
            wait, there = jnp.zeros_like(s), at
            for _ in range(4):
                wait = jnp.sum((x[:, planet] - there) * n) / c
                there = at - moves * wait + bends * wait**2 / 2
            at, moves = (u[:, star] for u in _flow(force, t, (x, v), -wait, 1))
            rest = jnp.sum((x[:, planet] - at) * n) / c - wait
            at = at - moves * rest
            ahead, behind = (1 - jnp.sum(u * n) / c for u in (v[:, planet], moves))
            t = t - jnp.sum(x[:, planet] * n) / c
        d, w = x[:, planet] - at, v[:, planet] / ahead - moves / behind
        d, w, bend = (u - jnp.sum(u * n) * n for u in (d, w, a[:, planet] - bends))
        return _Apparent(d, w, bend, t, ahead)


def length(a: Array) -> Array:
    """|a| along the last axis, whose derivative at zero is zero."""
    squared = jnp.sum(a * a, axis=-1)
    some = squared > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, squared, 1)), 0)


def _repeated(step: Any, start: Array) -> Array:
    """The fixed point of `step`, which lessens errors of derivatives as its own."""
    return jax.lax.scan(lambda s, _: (step(s), None), start, None, length=_NEWTON)[0]


def _flow(
    force: TotalAcceleration, t: Array, y: tuple[Array, Array], s: Array, steps: int
) -> tuple[Array, Array]:
    """The state `s` after y, by classical Runge–Kutta steps."""
    h = s / steps

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
