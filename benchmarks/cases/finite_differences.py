"""The Jacobian of 5 bodies in 15 numbers by finite differences of REBOUND's runs."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._harness import Case, Effort, Row, compiled, contest, ratio
from .._peers import integrate, states_at
from . import _five_bodies as five
from ._five_bodies_reference import column_errors, references


#: Displacements tried. Each column keeps its best, which nobody knows beforehand.
_WIDTHS = tuple(10.0**-k for k in range(3, 11))


def measure(effort: Effort) -> list[Row]:
    """Our Jacobian against 16 runs (one-sided) and 30 runs (two-sided) of REBOUND."""
    problem = five.problem(effort)
    ours = compiled(
        jax.jacfwd(lambda p: five.states(five.moved(p), problem.times)), np.zeros(15)
    )
    times = contest(
        effort,
        ours=ours.turn,
        one_sided=_runs(problem, 16),
        two_sided=_runs(problem, 30),
    )
    errors = _errors(problem, five.jacobian_of(ours.value))
    rows = []
    for name, sides in (("one_sided", "one-sided"), ("two_sided", "two-sided")):
        details = {"error_of_differences": errors.get(name)}
        row = ratio(
            f"Jacobian in 15 numbers, {problem.steps} steps of 5 bodies",
            times["ours"],
            times[name],
            program=ours,
            peer=f"{sides} differences of REBOUND's runs{_says(errors.get(name))}",
            error=errors.get("ours"),
            reference="complex step in long double" if errors else None,
            details=details,
        )
        rows.append(row)
    return rows


CASE = Case("finite_differences", __doc__ or "", measure)


def _says(error: float | None) -> str:
    return "" if error is None else f" (error {error:.0e} at the best step)"


def _runs(problem: five.Problem, count: int) -> Callable[[], Callable[[], Any]]:
    """That many runs, one after the other; making them is not timed."""

    def prepare():
        simulations = [five.rebound(five.start()) for _ in range(count)]
        return lambda: [integrate(one, problem.times) for one in simulations]

    return prepare


def _errors(problem: five.Problem, ours: np.ndarray) -> dict[str, float]:
    """The worst column of each Jacobian; empty where there is no reference."""
    exact = references(problem.steps, len(problem.times))
    if exact is None:
        return {}
    one, two = _differences(problem)
    judged = {"ours": [ours], "one_sided": one, "two_sided": two}
    return {
        name: float(np.min([column_errors(j, exact) for j in found], axis=0).max())
        for name, found in judged.items()
    }


def _differences(problem: five.Problem) -> tuple[list, list]:
    """One- and two-sided Jacobians for every width."""

    def run(k: int, shift: float) -> np.ndarray:
        vector = five.start()
        vector[k] += shift
        x, v = states_at(five.rebound(vector), problem.times)
        return np.concatenate([x, v], axis=-1).swapaxes(1, 2)  # (time, 6, body)

    middle, one, two = run(0, 0.0), [], []
    for h in _WIDTHS:
        ahead = np.stack([run(k, h) for k in five.FREE], axis=-1)
        behind = np.stack([run(k, -h) for k in five.FREE], axis=-1)
        one.append((ahead - middle[..., None]) / h)
        two.append((ahead - behind) / (2 * h))
    return one, two
