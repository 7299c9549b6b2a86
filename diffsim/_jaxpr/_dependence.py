"""Which outputs of a function are made of which inputs."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._types import PyTree


def depends_on_first(function: Callable[..., PyTree], *args: Any) -> bool:
    """Whether an output is made of the first argument, an array, by its operations.

    Comparisons count, which no derivative shows. A loop or a branch that is given the
    array counts as reading it.
    """
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    others = [False] * (len(jaxpr.invars) - 1)
    return any(outputs_made_of(jaxpr, [True, *others]))


def outputs_made_of(jaxpr: Any, marks: Sequence[bool]) -> list[bool]:
    """Which outputs are made of the inputs that are marked."""
    marked = {v for v, mark in zip(jaxpr.invars, marks, strict=True) if mark}

    def is_marked(variable: Any) -> bool:
        # Literals, which have a value, cannot be looked up in all releases.
        return not hasattr(variable, "val") and variable in marked

    for eqn in jaxpr.eqns:
        inputs = [is_marked(v) for v in eqn.invars]
        if any(inputs):
            outputs = _outputs_of_equation(eqn, inputs)
            marked |= {v for v, mark in zip(eqn.outvars, outputs, strict=True) if mark}
    return [is_marked(v) for v in jaxpr.outvars]


def _outputs_of_equation(eqn: Any, marks: Sequence[bool]) -> list[bool]:
    called = [getattr(p, "jaxpr", p) for p in eqn.params.values()]
    called = [p for p in called if hasattr(p, "eqns")]
    is_loop = eqn.primitive.name in ("scan", "while", "cond")
    if len(called) == 1 and not is_loop:
        (inside,) = called
        same = len(inside.invars) == len(marks)
        if same and len(inside.outvars) == len(eqn.outvars):
            return outputs_made_of(inside, marks)
    return [True] * len(eqn.outvars)
