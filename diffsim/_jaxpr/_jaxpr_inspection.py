"""Reading jaxprs: operations, loops, sizes of arrays.

The only place in `sweeps` that looks inside one. Releases of JAX rename parameters and
merge classes, so what can be read off the shapes is, and what does not agree with them
counts as not understood.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ._primitives import short_map


LOOPS = frozenset(["scan", "while"])

#: Parameters of a scan in the releases that are supported, 0.8 to 0.12. One that is not
#: among them may change what the loop computes.
_SCAN_PARAMETERS = frozenset(
    ["jaxpr", "length", "reverse", "unroll", "num_consts", "num_carry", "linear"]
    + ["_split_transpose", "ft_in", "ft_out"]
)
#: Of a while loop, none of which may be missing.
_WHILE_PARAMETERS = frozenset(
    ["cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts"]
)


def inner(eqn: Any) -> list[Any]:
    """Return the jaxprs inside an equation."""
    found = []
    for value in eqn.params.values():
        several = value if isinstance(value, tuple | list) else (value,)
        found += [x for x in several if hasattr(x, "eqns")]
    written_out = short_map(eqn)
    return found if written_out is None else [*found, written_out]


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, open or closed, those of calls and loops included."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inside in inner(eqn):
            yield from equations(inside)


def operations(jaxpr: Any) -> set[str]:
    """Names of all operations in a jaxpr."""
    return {eqn.primitive.name for eqn in equations(jaxpr)}


class Scan(NamedTuple):
    """A `lax.scan`: constants, carry and rows are its inputs, in this order."""

    body: Any
    constants: int
    carry: int
    length: int
    reverse: bool
    unroll: int | bool


def scan_of(eqn: Any) -> Scan | None:
    """The loop that the equation is; None if that is not understood.

    How many inputs are constants, carry and rows is read off the shapes: a row has an
    axis more outside the loop than inside, and so has an output that is not carried.
    """
    given = eqn.params
    bodies = inner(eqn)
    if set(given) - _SCAN_PARAMETERS or len(bodies) != 1:
        return None
    inside = getattr(bodies[0], "jaxpr", bodies[0])
    if not (_same_number(eqn.invars, inside.invars) and "length" in given):
        return None
    if not _same_number(eqn.outvars, inside.outvars):
        return None
    shared = _leading_of_same_rank(eqn.invars, inside.invars)
    carry = _leading_of_same_rank(eqn.outvars, inside.outvars)
    if shared is None or carry is None or carry > shared:
        return None
    first = shared - carry
    told = given.get("num_consts", first), given.get("num_carry", carry)
    carried = zip(inside.invars[first:shared], inside.outvars[:carry], strict=True)
    if told != (first, carry) or not all(_same_type(a, b) for a, b in carried):
        return None
    reverse, unroll = given.get("reverse", False), given.get("unroll", 1)
    return Scan(bodies[0], first, carry, given["length"], reverse, unroll)


def _same_number(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others)


def _leading_of_same_rank(outside: Sequence[Any], inside: Sequence[Any]) -> int | None:
    """Number of variables without a loop axis; None if one follows that has it."""
    extra = [a.aval.ndim - b.aval.ndim for a, b in zip(outside, inside, strict=True)]
    leading = extra.count(0)
    ordered = extra == [0] * leading + [1] * (len(extra) - leading)
    return leading if ordered else None


def _same_type(one: Any, other: Any) -> bool:
    return one.aval.shape == other.aval.shape and one.aval.dtype == other.aval.dtype


class While(NamedTuple):
    """A `lax.while_loop`: constants of condition and body, then the carry."""

    condition: Any
    body: Any
    condition_constants: int
    constants: int


def while_of(eqn: Any) -> While | None:
    """The loop that the equation is; None if that is not understood."""
    given = eqn.params
    if eqn.primitive.name != "while" or set(given) != _WHILE_PARAMETERS:
        return None
    found = While(
        given["cond_jaxpr"],
        given["body_jaxpr"],
        given["cond_nconsts"],
        given["body_nconsts"],
    )
    carry = len(eqn.outvars)
    fits = len(eqn.invars) == found.condition_constants + found.constants + carry
    return found if fits else None


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
