"""What a jaxpr contains: its operations, its loops, the sizes of its arrays."""

import math
from collections.abc import Iterator
from typing import Any


LOOPS = frozenset(["scan", "while"])


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, open or closed, those of calls and loops included."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inside in inner(eqn):
            yield from equations(inside)


def inner(eqn: Any) -> list[Any]:
    """The jaxprs inside an equation."""
    found = [eqn.params.get(k) for k in ("jaxpr", "call_jaxpr", "body_jaxpr")]
    return [x for x in found if x is not None] + list(eqn.params.get("branches", ()))


def operations(jaxpr: Any) -> set[str]:
    """Names of all operations in a jaxpr."""
    return {eqn.primitive.name for eqn in equations(jaxpr)}


def largest_in_loops(jaxpr: Any) -> int:
    """Bytes of the largest array in the innermost loops; of all where there is none."""
    loops = [eqn for eqn in equations(jaxpr) if eqn.primitive.name in LOOPS]
    bodies = [body for eqn in loops for body in inner(eqn)]
    innermost = [body for body in bodies if not LOOPS & operations(body)]
    return max(
        (
            math.prod(variable.aval.shape) * variable.aval.dtype.itemsize
            for body in innermost or [jaxpr]
            for eqn in equations(body)
            for variable in eqn.outvars
        ),
        default=0,
    )
