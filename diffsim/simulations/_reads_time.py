"""`reads_time`: whether a rate depends on the time beside the state."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jaxtyping import Array, PyTree


def reads_time(
    rate: Callable[[Array, PyTree[Array]], PyTree[Array]], t: Array, y: PyTree[Array]
) -> bool:
    """Whether what `rate(t, y)` returns is made of t, by its operations alone.

    Comparisons count, which no derivative tells of. A loop or a branch that is given
    the time counts as reading it.
    """
    jaxpr = jax.make_jaxpr(rate)(t, y).jaxpr
    others = [False] * (len(jaxpr.invars) - 1)
    return any(made_of(jaxpr, [True, *others]))


def made_of(jaxpr: Any, given: Sequence[bool]) -> list[bool]:
    """Which outputs are made of the inputs that are marked."""
    marked = {v for v, mark in zip(jaxpr.invars, given, strict=True) if mark}

    def is_marked(variable: Any) -> bool:
        # Literals, which have a value, cannot be looked up in all releases.
        return not hasattr(variable, "val") and variable in marked

    for eqn in jaxpr.eqns:
        marks = [is_marked(v) for v in eqn.invars]
        if any(marks):
            found = _through(eqn, marks)
            marked |= {v for v, mark in zip(eqn.outvars, found, strict=True) if mark}
    return [is_marked(v) for v in jaxpr.outvars]


def _through(eqn: Any, marks: Sequence[bool]) -> list[bool]:
    """As `made_of`, of one operation; of what calls another, of that."""
    called = [getattr(p, "jaxpr", p) for p in eqn.params.values()]
    called = [p for p in called if hasattr(p, "eqns")]
    is_loop = eqn.primitive.name in ("scan", "while", "cond")
    if len(called) == 1 and not is_loop:
        (inside,) = called
        same = len(inside.invars) == len(marks)
        if same and len(inside.outvars) == len(eqn.outvars):
            return made_of(inside, marks)
    return [True] * len(eqn.outvars)
