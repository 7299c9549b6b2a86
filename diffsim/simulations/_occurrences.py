"""What is recorded of an event, read from the rows of a run."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._event import Occurrences
from ._event_steps import Watch
from ._rows import Rows, located


def occurrences_of(
    rows: Rows, watch: Watch, index: int, end: Array, look: Callable
) -> Occurrences:
    """When the event of `index` happened up to the time `end`, by `look` at it."""
    event, crossed = watch.events[index], rows.crossed[:, index]
    (at,) = jnp.nonzero(crossed, size=event.limit, fill_value=0)
    there = jnp.arange(event.limit) < jnp.sum(crossed)

    def wait(t, y, i, there):
        step, fresh = rows.lengths[i], rows.fresh[i]
        aside, args = watch.aside, watch.args
        return located(event, t, y, step, fresh, aside, args, there=there)

    def one(i, there):
        t, y = rows.times[i], jax.tree.map(lambda a: a[i], rows.states)
        # A step ends with the event that acts in it.
        s = rows.lengths[i] if event.acts else wait(t, y, i, there)
        return t + s, look(t + s, watch.aside(t, y, s))

    times, states = jax.vmap(one)(at, there)
    seen = there & (times <= end)
    times, states = jax.tree.map(
        lambda a: jnp.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, jnp.nan),
        (times, states),
    )
    return Occurrences(times, states, jnp.sum(seen))
