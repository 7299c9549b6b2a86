"""A step whose stages are solved by the dynamics themselves."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._failures import is_finite
from ...simulations import AbstractSplit
from ._combine import combined, shifted
from ._step import Step, completed
from ._tableau import Tableau


class Leap(NamedTuple):
    """One step of split dynamics: from y at t by `length`, `args` for its functions.

    `slope` is the implicit one at its start.
    """

    split: AbstractSplit
    t: Array
    length: Array
    y: PyTree[Array]
    slope: PyTree[Array]
    args: Any


def directly_stepped(tableau: Tableau, leap: Leap) -> Step:
    """The step, differentiable as its solves are."""
    split, y, length, args = leap.split, leap.y, leap.length, leap.args
    slopes, explicit = [leap.slope], []
    if not split.whole:
        explicit.append(split.explicit(leap.t, y, args))
    for i in range(1, tableau.stages):
        t = leap.t + float(tableau.nodes[i]) * length
        change = combined(tableau.implicit[i], slopes)
        if explicit:
            assert tableau.explicit is not None
            others = combined(tableau.explicit[i], explicit)
            change = jax.tree.map(jnp.add, change, others)
        base = shifted(y, length, change)
        guess = combined(tableau.predictor[i], slopes)
        z, slope = _stage(tableau, leap, t, base, guess)
        slopes.append(slope)
        if explicit:
            explicit.append(split.explicit(t, z, args))
    return completed(tableau, leap, slopes, explicit, _Solved([*slopes, *explicit]))


class _Solved(NamedTuple):
    """Whether every stage was: what cannot be solved for is NaN."""

    slopes: list[PyTree[Array]]
    factor: None = None

    @property
    def good(self) -> Array:
        return is_finite(self.slopes)


def _stage(tableau: Tableau, leap: Leap, t, base: PyTree[Array], slope: PyTree[Array]):
    """The state of a stage and its implicit slope, which a solve is more exact of."""
    length = tableau.gamma * leap.length
    guess = shifted(base, length, slope)
    z = leap.split.solve(t, base, length, guess, leap.args)

    def quotient():
        return jax.tree.map(lambda a, b: (a - b) / length.astype(a.dtype), z, base)

    def rate():
        return leap.split.implicit(t, z, leap.args)

    # A side step of no length has a slope, which its derivative by time is.
    return z, jax.lax.cond(length == 0, rate, quotient)
