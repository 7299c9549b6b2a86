"""A run kept step by step."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree


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


def begun_by(rows: Rows, times: Array) -> tuple[Array, PyTree[Array]]:
    """When the last step begun by each of `times` began, and the state there."""
    # Which row it is jumps with the time and has no derivative; what is in it has.
    starts, until = jax.lax.stop_gradient((rows.times, times))
    at = jnp.maximum(jnp.searchsorted(starts, until, side="right") - 1, 0)
    return rows.times[at], jax.tree.map(lambda a: a[at], rows.states)
