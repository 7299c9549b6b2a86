"""Event location within a step, by root finding."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..._jaxpr._tracing import closure_convert
from ..._types import PyTree
from ...implicit import (
    BracketedNewton,
    ImplicitAdjoint,
    ImplicitEquation,
    implicit_solve,
)
from .._elapsed_time import Epoch
from .._integrate._step import AbstractStep
from ._event import Event


#: Steps of the search for an event. Newton takes three; the rest is for g that bend.
_SEARCH = 80

#: A larger share of the change of g over a step, between neighboring times, is a jump.
_JUMP = 0.1

#: What became of a change of sign: an event was found, g jumps there, or neither.
FOUND, JUMPS, LOST = range(3)


class EventDetector(NamedTuple):
    """The events of a run, and the step that leads to any time."""

    events: tuple[Event, ...]
    epoch: Epoch
    step: AbstractStep
    args: Any

    def off_grid_state(
        self, t: Array, y: PyTree[Array], length: Array
    ) -> PyTree[Array]:
        """The state `length` after y at t."""
        return self.step.single(t, y, length)

    def quick(self, t: Array, y: PyTree[Array], length: Array) -> PyTree[Array]:
        """The same by less code.

        Where a step of many stages is made a few times, it takes longer to compile than
        to run.
        """
        return self.step.rolled_up().single(t, y, length)

    def values(self, t: Array, y: PyTree[Array]) -> Float[Array, " event"]:
        return event_values(self.events, self.epoch, t, y, self.args)

    def counting(self, t: Array, y: PyTree[Array]) -> Bool[Array, " event"]:
        """Which events count in a step that begins here."""
        time = self.epoch.at(t)
        return jnp.stack([e.counts(time, y, self.args) for e in self.events])

    def modifies_run(self) -> Bool[Array, " event"]:
        return jnp.array([event.modifies_run for event in self.events])

    def located(
        self, index: Array, t, y, length, window, *, there
    ) -> tuple[Array, Array]:
        """How long after t event `index` happens, and what became of it.

        It changed its sign within a step of `length` that begins there.

        `window` is how far behind both of its ends to look, see `StepLog`.

        Where it does not, `there` is False, and the answer zero with derivative zero.
        All events share what is compiled for a step; to choose one is cheap.
        """

        def residual(s):
            g = self.values(t + s, self.quick(t, y, s))[index]
            # An equation of its own, so that no NaN comes of what is not there.
            return jnp.where(there, g, s)

        since, until = window
        lower = jnp.where(there, since, -length)
        fine = float(jnp.finfo(length.dtype).eps) ** 0.5
        # A step of Newton's leaves its square.
        solver = BracketedNewton(lower, length + until, _SEARCH, tolerance=fine)
        # `root` would look again whether it is one, by more copies of the step.
        opened, consts = closure_convert(residual, length)
        consts = stop_gradient_unless(consts, there)
        equation = ImplicitEquation(
            lambda s, given: opened(given, s), consts, solver, _first_crossing
        )
        # Outside: where a line through both ends vanishes is nearer.
        guess = lower - length
        return implicit_solve(equation, guess, ImplicitAdjoint())


def _first_crossing(how, function, guess, theta):
    solver, _ = how
    found = solver.search(function, guess, theta)
    (begin, end), (before, after) = found.ends, found.values
    # The sign has changed: where ends that are worked out again do not show it, which
    # is a matter of the last bit, it did so at the one nearer to zero.
    hidden = jnp.sign(before) * jnp.sign(after) >= 0
    nearest = jnp.where(jnp.abs(before) <= jnp.abs(after), begin, end)
    # At a jump or a pole g stays large however near its ends come.
    (lower, upper), (below, above) = found.last_ends, found.last_values
    rounding = 2 * jnp.finfo(begin.dtype).eps
    jumps = upper - lower <= rounding * jnp.maximum(jnp.abs(upper), end - begin)
    jumps &= ~(jnp.abs(above - below) <= _JUMP * jnp.abs(after - before))
    outcome = jnp.where(jumps, JUMPS, jnp.where(found.reached, FOUND, LOST))
    wait, outcome = (
        jnp.where(hidden, nearest, found.y),
        jnp.where(hidden, FOUND, outcome),
    )
    return wait, outcome, None


def stop_gradient_unless(tree: PyTree, there: Array) -> PyTree:
    """`tree`, and constants where not `there`.

    What fills up a list of events is evaluated like an event, where nothing promises a
    derivative, and zero times NaN is NaN.
    """

    def held(a):
        floats = jnp.issubdtype(a.dtype, jnp.inexact)
        return jnp.where(there, a, jax.lax.stop_gradient(a)) if floats else a

    return jax.tree.map(held, tree)


def event_values(
    events: tuple[Event, ...], epoch: Epoch, t: Array, y: PyTree[Array], args: Any
) -> Float[Array, " event"]:
    """The conditions of `events` at t after the `epoch`."""
    found = [event.value(epoch.at(t), y, args) for event in events]
    return jnp.stack([jnp.asarray(g, t.dtype) for g in found])


def zero_crossings(events: tuple[Event, ...], before: Array, after: Array) -> Array:
    """Which of the events lie between two values each; a zero belongs to the past."""
    up, down = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
    ways = {"up": up, "down": down, None: up | down}
    return jnp.stack([ways[e.direction][..., i] for i, e in enumerate(events)], axis=-1)


def ahead(length: Array) -> Array:
    """How far behind a reset events are looked for again."""
    return jnp.asarray(jnp.finfo(length.dtype).eps ** 0.5, length.dtype) * length
