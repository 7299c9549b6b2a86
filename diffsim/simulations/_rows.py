"""A run kept step by step, and what can be read from it at any time."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..implicit import Bracketed, root
from ._event import Event


#: `aside(t, y, length)`: the state `length` after y at t, by one step.
Aside = Callable[[Array, PyTree[Array], Array], PyTree[Array]]

#: Steps of the search for an event. Newton takes five; the rest is for g that bend.
_SEARCH = 20


class Rows(NamedTuple):
    """The steps of a run: where each began, how long it was, what happened in it.

    Rows behind the end have length zero and stand at the end. A row is `fresh` after a
    reset, where an event that has just been is no event any more.
    """

    times: Float[Array, " row"]
    states: PyTree[Array]
    lengths: Float[Array, " row"]
    fresh: Bool[Array, " row"]
    crossed: Bool[Array, "row event"]


def outputs_of(rows: Rows, times: Array, aside: Aside) -> PyTree[Array]:
    """The states at `times`, each by a side step from the row before it."""
    starts, states = begun_by(rows, times)
    return jax.vmap(aside)(starts, states, times - starts)


def begun_by(rows: Rows, times: Array) -> tuple[Array, PyTree[Array]]:
    """When the last step begun by each of `times` began, and the state there."""
    # Which row it is jumps with the time and has no derivative; what is in it has.
    starts, until = jax.lax.stop_gradient((rows.times, times))
    at = jnp.maximum(jnp.searchsorted(starts, until, side="right") - 1, 0)
    return rows.times[at], jax.tree.map(lambda a: a[at], rows.states)


def located(event: Event, t, y, length, fresh, aside: Aside, args, *, there) -> Array:
    """How long after t, within one step of `length`, `event` happens.

    Where it does not, `there` is False, and the answer zero with derivative zero.
    """

    def residual(s, _):
        g = event.value(t + s, aside(t, y, s), args)
        # An equation of its own, so that no NaN comes of what is not there.
        return jnp.where(there, g, s)

    lower = jnp.where(there, jnp.where(fresh, ahead(length), 0), -length)
    solver = Bracketed(lower, length, _SEARCH)
    return root(residual, length / 2, solver=solver, throw=False)


def ahead(length: Array) -> Array:
    """How far behind a reset events are looked for again."""
    return jnp.asarray(jnp.finfo(length.dtype).eps ** 0.5, length.dtype) * length
