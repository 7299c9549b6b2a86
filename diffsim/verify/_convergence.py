"""`convergence`: the order with which a method approaches its limit."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._text_table import MOST_ROWS, Block, Table, text_representation
from .._types import PyTree
from ._leaves import float_outputs


class Convergence(eqx.Module):
    """Errors over steps, and their order; `print` it for a table.

    - `steps`, `errors`: descending steps and the relative error at each. Without an
        exact answer one entry less: the errors are the differences to the next step.
    - `order`: slope of log error over log step, by regression over the errors above
        `floor`; NaN if fewer than two are.
    - `orders`: the slopes between neighbors; NaN where one is below `floor`.
    """

    steps: np.ndarray
    errors: np.ndarray
    order: float
    orders: np.ndarray
    floor: float

    def __repr__(self) -> str:
        return text_representation(self, _description)


def _description(curve: Convergence) -> list[Block]:
    rows = [
        (f"{step:.3e}", f"{error:.3e}", "" if np.isnan(slope) else f"{slope:.3f}")
        for step, error, slope in zip(
            curve.steps, curve.errors, [np.nan, *curve.orders], strict=True
        )
    ]
    more = max(0, len(rows) - MOST_ROWS)
    table = Table(("step", "error", "order"), rows[:MOST_ROWS], more=more)
    return [table, f"order {curve.order:.3f}"]


def convergence(
    run: Callable[[float], Any],
    steps: Sequence[float],
    *,
    exact: PyTree | None = None,
    floor: float | None = None,
) -> Convergence:
    r"""Observed order of a method: the slope of its error over its step.

    $$e(h) = C h^p, \qquad p = \frac{d \log e}{d \log h}$$

    ```python
    system = problems.kepler()

    def orbit(step):
        return ds.simulate(system, 5.0, ds.Method(integrators.Leapfrog(), step)).states

    found = verify.convergence(orbit, [0.05, 0.025, 0.0125])
    found.order  # 1.99, and 2 for shorter steps
    ```

    **Arguments**

    - `run`: `run(step)` returns arrays, or a `Trajectory` (its states count): a
        simulation at a time step, or an equation at a grid spacing with outputs at the
        same places.
    - `steps`: at least two different positive numbers.
    - `exact`: what `run` converges to, of the same structure. None measures without:
        the differences of runs at successive steps fall with the same order if the
        steps are in a geometric progression, since $C h^p - C (h/r)^p \propto h^p$.
        A method that converges to a wrong limit passes that; give `exact` where known.
    - `floor`: relative error that rounding makes meaningless; None means 4096 ulps,
        9e-13 in float64.

    **Returns:** `Convergence`. Errors are root mean squares relative to the root mean
    square of the answer, the largest over all arrays.

    **Good values:** three to five steps, each half the last, the first short enough
    that the error is a few percent at most.

    **Raises:** `ValueError` for steps that are not positive or too few, that are not
    geometric while `exact` is None, for a run that is not finite, and for an `exact` of
    other shapes than the runs.
    """
    descending = _descending(steps, geometric=exact is None)
    runs = [_finite_arrays(f"run({h:g})", run(float(h))) for h in descending]
    if exact is None:
        pairs = list(itertools.pairwise(runs))
        descending = descending[:-1]
    else:
        truth = _finite_arrays("exact", exact)
        pairs = [(arrays, truth) for arrays in runs]
    if floor is None:
        floor = 4096 * max(float(jnp.finfo(y.dtype).eps) for y in runs[0])
    errors = np.asarray([_relative(*pair, pairs[-1][1]) for pair in pairs])
    clean = errors > floor
    logs = np.log(np.where(clean, errors, np.nan))
    orders = np.diff(logs) / np.diff(np.log(descending))
    order = float("nan")
    if clean.sum() >= 2:
        order = float(np.polyfit(np.log(descending[clean]), logs[clean], 1)[0])
    return Convergence(descending, errors, order, orders, floor)


def _descending(steps: Sequence[float], *, geometric: bool) -> np.ndarray:
    ordered = np.unique(np.asarray(steps, np.float64))[::-1]
    least = 3 if geometric else 2
    if ordered.size < least or not np.all(ordered > 0):
        raise ValueError(
            f"steps must be at least {least} different positive numbers"
            f"{' where exact is None' if geometric else ''}, got {list(steps)}"
        )
    ratios = ordered[:-1] / ordered[1:]
    if geometric and not np.allclose(ratios, ratios[0], rtol=1e-6):
        raise ValueError(
            "steps must be in a geometric progression (each half the last, say) where "
            f"exact is None, got {ordered.tolist()}"
        )
    return ordered


def _finite_arrays(name: str, output: PyTree) -> list[np.ndarray]:
    """Float arrays of `output`; a run that blew up has no error to regress over."""
    arrays = [np.asarray(y) for y in float_outputs(output)]
    bad = sum(int(np.sum(~np.isfinite(y))) for y in arrays)
    if bad or not arrays:
        found = f"{bad} that are NaN or infinite" if bad else "none"
        raise ValueError(
            f"{name} must be finite float arrays, got {found}; leave out steps at "
            "which a method is unstable"
        )
    return arrays


def _relative(
    values: list[np.ndarray], truth: list[np.ndarray], best: list[np.ndarray]
) -> float:
    """Largest error over all arrays, each relative to the best answer there is."""
    shapes, expected = [y.shape for y in values], [y.shape for y in truth]
    if shapes != expected:
        raise ValueError(
            f"runs must return arrays of one set of shapes, got {shapes} and {expected}"
        )
    errors = []
    for y, z, answer in zip(values, truth, best, strict=True):
        size = float(np.sqrt(np.mean(np.abs(answer) ** 2)))
        errors.append(float(np.sqrt(np.mean(np.abs(y - z) ** 2))) / (size or 1.0))
    return max(errors)
