"""Derivatives of the run of five bodies, in long double."""

import functools

import numpy as np

from .. import _long_double
from ._five_bodies import CUTS, FREE, STEP, Problem, start


class References:
    """Gradient (35,) of the sum of squares, and Jacobian (time, 6, body, 15)."""

    def __init__(self, problem: Problem):
        def run(table):
            outputs = _outputs(table, problem)
            flat = outputs.reshape(-1, outputs.shape[-1])
            return np.concatenate([flat, (flat**2).sum(0)[None]])

        found = _long_double.derivatives(run, start())
        outputs = (len(problem.times), 6, 5, len(FREE))
        self.gradient = found[-1].astype(float)
        self.jacobian = found[:-1, list(FREE)].astype(float).reshape(outputs)


@functools.cache
def references(steps: int, outputs: int) -> References | None:
    """Once for all cases; None where long double is double."""
    if not _long_double.is_available():
        return None
    times = np.arange(1, outputs + 1) * (steps // outputs) * STEP
    return References(Problem(steps, times))


def column_errors(jacobian: np.ndarray, exact: References) -> np.ndarray:
    """Of each parameter's column, relative to its largest entry."""
    difference = np.abs(jacobian - exact.jacobian).max((0, 1, 2))
    return difference / np.abs(exact.jacobian).max((0, 1, 2))


def _outputs(table: np.ndarray, problem: Problem) -> np.ndarray:
    def vectors(rows):
        return rows.reshape(5, 3, -1).transpose(1, 0, 2)

    m, x, v = np.split(table, CUTS)
    every = problem.steps // len(problem.times)
    return _long_double.leapfrog(
        m, vectors(x), vectors(v), step=STEP, steps=problem.steps, every=every
    )
