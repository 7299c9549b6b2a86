"""`Leg`: one direction of time, however it was run."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._results import RESULTS


class Leg(NamedTuple):
    """Internal states at the outputs, nearest to the epoch first, and how it ended.

    `ends` are the ends of adaptive steps, padded with infinity; None at fixed steps.
    `reached` are the outputs that lie before an event that ended the run; None is all.
    """

    states: PyTree[Array]
    end: PyTree[Array]
    end_time: Array
    result: RESULTS
    stats: dict[str, Array]
    ends: Array | None
    reached: Array | None = None


def fixed_stats(steps: int | Array) -> dict[str, Array]:
    """Diffrax's statistics for a run whose number of steps is known."""
    counts = {"num_steps": steps, "num_accepted_steps": steps, "num_rejected_steps": 0}
    return {name: jnp.asarray(count) for name, count in counts.items()}
