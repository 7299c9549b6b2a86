"""The closest two bodies, for the sentence of a run that failed."""

from typing import Any

import numpy as np
from jaxtyping import Array


def closest_pair(system: Any, t: Any, y: tuple[Array, Array]) -> str | None:
    """Name the closest two bodies of the state `y` at `t`, None of fewer than two.

    At least one of them attracts: test particles do not meet each other.
    """
    x = np.asarray(y[0], float).T
    pairs = [
        (*_nearest(x, j), j) for j in range(system.bodies.masses.size) if j + 1 < len(x)
    ]
    if not pairs:
        return None
    distance, i, j = min(pairs)
    begin = np.asarray(system.initial_state()[0], float).T
    separation = np.linalg.norm(begin[i] - begin[j])
    return (
        f"The closest two, {pair_names(system, j, i)}, were {distance:.3g} apart at "
        f"t = {float(t):.6g}, and {separation:.3g} at t0."
    )


def _nearest(x: np.ndarray, j: int) -> tuple[float, int]:
    """The distance and the number of the nearest body after j."""
    # A row at a time: of 10⁴ bodies all at once would be a gigabyte.
    distances = np.linalg.norm(x[j + 1 :] - x[j], axis=1)
    i = int(np.argmin(distances))
    return float(distances[i]), j + 1 + i


def pair_names(system: Any, j: int, i: int) -> str:
    """The names of two bodies, or their numbers."""
    names = system.body_names
    return f"bodies {j} and {i}" if names is None else f"{names[j]} and {names[i]}"
