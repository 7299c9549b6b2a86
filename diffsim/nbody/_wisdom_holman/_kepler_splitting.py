r"""`AbstractKeplerSplitting`: Kepler orbits and kicks in turn.

Kicks by what is not a Kepler orbit are changes of the velocities of a frame,

$$g(q) = B\,a(x) + \mu\,q/|q|^3,$$

the transformed total acceleration less that of the orbits. Both are as large as each
other and g is not, but its rounding is that of the acceleration, below the rounding of
the velocity that it is added to as long as a step is short.
"""

import abc
import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._types import PyTree
from ..._validation import instance, is_traced, one_of
from ...simulations import AbstractUnsynchronizedSolver, Separable
from .._bodies import Bodies
from .._compensated_sum import add_compensated
from .._forces import Gravity
from .._kepler import kepler_drift
from ._frames import Frame, frame_of


_Choice = TypeVar("_Choice")


class Stage(NamedTuple):
    """A flow over `share` of a step, undone by the opposite share.

    If `even`, over that share of its length whatever its sign: of what belongs to a
    method and not to a direction.
    """

    #: "drift", or a key of `_KICKS`.
    flow: str
    share: float
    even: bool = False


class Orbits(NamedTuple):
    """Places and velocities of orbits, what was rounded of them, the barycenter."""

    q: Float[Array, "3 orbit"]
    w: Float[Array, "3 orbit"]
    q_low: Float[Array, "3 orbit"]
    w_low: Float[Array, "3 orbit"]
    center: Float[Array, "3 1"]
    speed: Float[Array, "3 1"]


class Constants(eqx.Module):
    """The frame of a system, and whether nothing acts but its own attraction."""

    frame: Frame
    isolated: bool = eqx.field(static=True)


class AbstractKeplerSplitting(AbstractUnsynchronizedSolver):
    r"""Compositions of Kepler orbits $e^{hA}$ and perturbations $e^{hB}$, B small.

    Subclasses say what leads from the state to the first kick of a step, and what from
    there to that of the next.
    """

    #: Frame of the orbits, a key of `FRAMES`.
    coordinates: eqx.AbstractVar[str]

    term_structure: ClassVar[Any] = Separable
    time_symmetric: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def entry(self) -> tuple[Stage, ...]:
        """From the state to the first kick."""

    @property
    @abc.abstractmethod
    def cycle(self) -> tuple[Stage, ...]:
        """From the first kick of a step to that of the next."""

    @property
    def evaluations(self) -> int:
        """Force evaluations a step."""
        return sum(stage.flow != "drift" for stage in self.cycle)

    def constants(self, args: Any) -> Constants:
        check_bodies(self, args)
        count = args.bodies.masses.size
        x, _ = jax.eval_shape(args.initial_state)
        frame = frame_of(
            self.coordinates, args.bodies.masses, args.gravity.G, x.shape[1] - count
        )
        frame = jax.tree.map(lambda a: a.astype(x.dtype), frame)
        isolated = all(isinstance(force, Gravity) for force in args.forces)
        return Constants(frame, isolated)

    def enter(self, constants, terms, t, length, y, args) -> Orbits:
        x, v = y
        frame = constants.frame
        q, w = frame.positions(x), frame.velocities(v)
        center, speed = frame.barycenter(x), frame.barycenter(v)
        zero = jnp.zeros_like(q)
        z = Orbits(q, w, zero, zero, center, speed)
        return self._follow(self.entry, constants, terms, t, length, z, args)

    def leave(self, constants, terms, t, length, z, args) -> PyTree[Array]:
        stages = _reversed(self.entry)
        start = t + _time(self.entry) * length
        z = self._follow(stages, constants, terms, start, length, z, args)
        frame = constants.frame
        x = frame.inertial_positions(z.q) + z.center
        return x, frame.inertial_velocities(z.w) + z.speed

    def forth(self, constants, terms, t, length, z, args) -> Orbits:
        start = t + _time(self.entry) * length
        return self._follow(self.cycle, constants, terms, start, length, z, args)

    def back(self, constants, terms, t, length, z, args) -> Orbits:
        stages = _reversed(self.cycle)
        start = t + (_time(self.entry) + _time(self.cycle)) * length
        return self._follow(stages, constants, terms, start, length, z, args)

    def _follow(self, stages, constants, terms, t, length, z, args) -> Orbits:
        length = jnp.asarray(length, z.q.dtype)

        def apply(flow, here, h):
            z, t = here
            if flow == "drift":
                return _drift(constants.frame, z, h), t + h
            g = perturbation(
                constants.frame, terms, t, args, isolated=constants.isolated
            )
            return _kick(constants, flow, g, z, h), t

        here = z, jnp.asarray(t, z.q.dtype)
        flows: list[str] = []
        lengths: list[Array] = []
        for stage in stages:
            h = stage.share * (jnp.abs(length) if stage.even else length)
            if flows and flows[-1] == stage.flow == "drift":
                lengths[-1] = lengths[-1] + h
                continue
            flows.append(stage.flow)
            lengths.append(h)
        if len(flows) > 2 and flows[-2:] == [flows[1], flows[0]]:
            # A flow of no length, so that the last one has a pair as all others have.
            flows.append(flows[1])
            lengths.append(jnp.zeros_like(length))
        rolled = _repeated_pairs(flows)
        if rolled:
            pairs = jnp.stack(lengths[: 2 * rolled]).reshape(rolled, 2)

            def pair(here, both):
                here = apply(flows[0], here, both[0])
                return apply(flows[1], here, both[1]), None

            here, _ = jax.lax.scan(pair, here, pairs)
        for flow, h in zip(flows[2 * rolled :], lengths[2 * rolled :], strict=True):
            here = apply(flow, here, h)
        return here[0]


def _repeated_pairs(flows: list[str]) -> int:
    """How often the first two flows come again and again, 0 where that is seldom.

    A loop of them is compiled in the time of two: a corrector of order 17 has 65.
    """
    count = 0
    while flows[2 * count : 2 * count + 2] == flows[:2] and len(flows) > 1:
        count += 1
    return count if count > 2 else 0


def choice(name: str, default: _Choice, choices: Iterable[_Choice]) -> _Choice:
    """A static field of a method, by keyword, that is one of a few values."""
    converter = functools.partial(one_of, name, choices=tuple(choices))
    return eqx.field(static=True, default=default, kw_only=True, converter=converter)


def check_bodies(solver: Any, simulation: Any):
    """Refuse simulations that are no bodies about a center of attraction."""
    bodies: Any = getattr(simulation, "bodies", None)
    instance("bodies of the simulation", bodies, Bodies, "nbody.NBody has")
    more = simulation.test_particles
    count = bodies.masses.size + (0 if more is None else len(more.positions))
    gravity = simulation.gravity
    softening = 0.0 if gravity is None else gravity.softening
    softened = not is_traced(softening) and float(softening)
    if gravity is None or softened or count < 2:
        raise ValueError(
            f"{type(solver).__name__} follows Kepler orbits and needs two bodies or "
            "more and nbody.Gravity(softening=0); take integrators.Leapfrog()"
        )


def _time(stages: tuple[Stage, ...]) -> float:
    """How much of a step passes; of even stages none does."""
    return sum(s.share for s in stages if s.flow == "drift" and not s.even)


def _reversed(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(stage._replace(share=-stage.share) for stage in stages[::-1])


def _drift(frame: Frame, z: Orbits, h: Array) -> Orbits:
    dq, dw = kepler_drift(z.q, z.w, h, frame.gm)
    q, q_low = add_compensated(z.q, z.q_low, dq)
    w, w_low = add_compensated(z.w, z.w_low, dw)
    return Orbits(q, w, q_low, w_low, z.center + h * z.speed, z.speed)


def _kick(constants: Constants, flow: str, g, z: Orbits, h) -> Orbits:
    z = _jump(constants.frame, z, h / 2)
    kick = _KICKS[flow]
    change = kick(g, Change(z.q, z.center), h)
    w, w_low = add_compensated(z.w, z.w_low, change.orbits)
    z = z._replace(w=w, w_low=w_low, speed=z.speed + change.center)
    return _jump(constants.frame, z, h / 2)


def _jump(frame: Frame, z: Orbits, h: Array) -> Orbits:
    if frame.jump is None:
        return z
    q, q_low = add_compensated(z.q, z.q_low, h * frame.jump(z.w))
    return z._replace(q=q, q_low=q_low)


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
        rate = frame.velocities(a) + frame.gm / r2 / jnp.sqrt(r2) * q
        pushed = jnp.zeros_like(center) if isolated else frame.barycenter(a)
        return Change(rate, pushed)

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


_KICKS: dict[str, Callable] = {
    "kick": plain_kick,
    "modified kick": modified_kick,
    "lazy kick": lazy_kick,
    "commutator": commutator_kick,
}
