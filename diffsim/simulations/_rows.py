"""A run kept step by step."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree


class Rows(NamedTuple):
    """The steps of a run: where each began, how long it was, what happened in it.

    Rows behind the end have length zero and stand at the end. An event is looked for
    from `since` behind the beginning of a row to `until` behind its end, both 0 but
    where another one acts: after a reset `since` is a little behind it for what has
    just been, and a little before it for what may be at the same time.
    """

    times: Float[Array, " row"]
    states: PyTree[Array]
    lengths: Float[Array, " row"]
    since: Float[Array, "row event"]
    until: Float[Array, "row event"]
    crossed: Bool[Array, "row event"]


def begun_by(rows: Rows, times: Array) -> tuple[Array, PyTree[Array]]:
    """When the last step begun by each of `times` began, and the state there."""
    # Which row it is jumps with the time and has no derivative; what is in it has.
    starts, until = jax.lax.stop_gradient((rows.times, times))
    at = jnp.maximum(jnp.searchsorted(starts, until, side="right") - 1, 0)
    return rows.times[at], jax.tree.map(lambda a: a[at], rows.states)
