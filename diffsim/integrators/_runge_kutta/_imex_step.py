"""IMEX step whose stages are solved by the dynamics themselves."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array

from ..._results import is_finite
from ..._types import PyTree
from ...simulations import AbstractIMEXTerm
from ._esdirk_step import Step, complete_step
from ._tableau import (
    Tableau,
    add_scaled,
    empty_stages,
    rows,
    stacked_linear_combination,
    with_stage,
)


class IMEXStep(NamedTuple):
    """One step of split dynamics: from y at t by `length`, `args` for its functions.

    `slope` is the implicit one at its start, `explicit` the other one, None where
    everything is implicit.
    """

    split: AbstractIMEXTerm
    t: Array
    length: Array
    y: PyTree[Array]
    slope: PyTree[Array]
    explicit: PyTree[Array] | None
    args: Any


def imex_step(tableau: Tableau, leap: IMEXStep) -> Step:
    """The step, differentiable as its solves are."""
    split, y, length, args = leap.split, leap.y, leap.length, leap.args
    slopes = _first(tableau, leap.slope)
    explicit = None
    if leap.explicit is not None:
        explicit = _first(tableau, leap.explicit)

    # A loop, for a solve is much to compile, and so is its derivative.
    def stage(carry, row):
        slopes, explicit = carry
        t = leap.t + row.nodes.astype(length.dtype) * length
        base = add_scaled(y, length, stacked_linear_combination(row.implicit, slopes))
        if explicit is not None:
            base = add_scaled(
                base, length, stacked_linear_combination(row.explicit, explicit)
            )
        guess = stacked_linear_combination(row.predictor, slopes)
        z, slope = _stage(tableau, leap, t, base, guess)
        slopes = with_stage(slopes, row.index, slope)
        if explicit is not None:
            explicit = with_stage(explicit, row.index, split.explicit(t, z, args))
        return (slopes, explicit), None

    (slopes, explicit), _ = jax.lax.scan(stage, (slopes, explicit), rows(tableau))
    slopes, explicit = (_as_lists(tableau, k) for k in (slopes, explicit))
    return complete_step(tableau, leap, slopes, explicit, _Solved([*slopes, *explicit]))


def _first(tableau: Tableau, slope: PyTree[Array]) -> PyTree[Array]:
    """Slopes of all stages, stacked, of which only the first is known."""
    return with_stage(empty_stages(slope, tableau.stages), 0, slope)


def _as_lists(tableau: Tableau, slopes: PyTree[Array]) -> list[PyTree[Array]]:
    if slopes is None:
        return []
    return [jax.tree.map(lambda k, i=i: k[i], slopes) for i in range(tableau.stages)]


class _Solved(NamedTuple):
    """Slopes of a step whose stages are solved, or NaN."""

    slopes: list[PyTree[Array]]
    factor: None = None

    @property
    def converged(self) -> Array:
        return is_finite(self.slopes)


def _stage(
    tableau: Tableau, leap: IMEXStep, t, base: PyTree[Array], slope: PyTree[Array]
):
    """The state of a stage and its implicit slope, which a solve is more exact of."""
    length = tableau.gamma * leap.length
    guess = add_scaled(base, length, slope)
    z = leap.split.solve(t, base, length, guess, leap.args)

    def quotient():
        return jax.tree.map(lambda a, b: (a - b) / length.astype(a.dtype), z, base)

    def rate():
        return leap.split.implicit(t, z, leap.args)

    # An off-grid step of no length has a slope, which its derivative by time is.
    return z, jax.lax.cond(length == 0, rate, quotient)
