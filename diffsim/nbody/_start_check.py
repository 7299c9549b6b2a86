"""Check before a run that no two bodies begin in one place."""

from typing import Any

import jax
import numpy as np

from .._results import should_return_nan
from .._validation import is_traced
from ..simulations import AbstractSplittingSolver, Method
from ._closest_pair import pair_names


def check_apart_at_start(system: Any, method: Method):
    """Refuse bodies in one place where a splitting would let them drift apart.

    It never sees the force between them, which is infinite. All other solvers do, and
    their run fails, as does that of bodies which stay together.
    """
    splits = isinstance(method.solver, AbstractSplittingSolver)
    if not splits or system.gravity is None or should_return_nan(None):
        return
    start = system.initial_state()
    if any(map(is_traced, jax.tree.leaves((start, system.gravity)))):
        return
    if np.any(np.asarray(system.gravity.softening)):
        return
    x, v = (np.asarray(a).T for a in start)
    # Neighbors in order of their coordinates, bodies of one place by their number.
    order = np.lexsort(x.T)
    first, second = order[:-1], order[1:]
    together = np.all(x[first] == x[second], 1) & np.any(v[first] != v[second], 1)
    # Test particles do not meet each other.
    pairs = np.flatnonzero(together & (first < system.bodies.masses.size))
    if pairs.size:
        j, i = int(first[pairs[0]]), int(second[pairs[0]])
        raise ValueError(
            f"positions must differ, got {pair_names(system, j, i)} in one place at "
            "t0, where their attraction is infinite; move one of them, or give "
            "Gravity(softening=...)"
        )
