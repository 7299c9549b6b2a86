"""Equations of jaxprs: calls, loops, branches, and what follows from which input.

Releases of JAX rename parameters and merge classes, so what can be read off the shapes
is, and what does not agree with them counts as not understood.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from .._types import PyTree
from ._primitives import LinearMapRules
from ._tracing import ClosedJaxpr, Jaxpr, evaluate


LOOPS = frozenset(["scan", "while"])
#: Calls, which are evaluated in place; derivative rules have done their work by now.
CALLS = frozenset(
    ["checkpoint", "closed_call", "custom_jvp_call", "custom_vjp_call", "jit"]
    + ["linear", "one_or_many", "pjit", "remat2", "sealed"]
)
#: Parameters of a scan in JAX 0.10 to 0.12, which are supported. One that is not among
#: them may change what the loop computes.
_SCAN_PARAMETERS = frozenset(
    ["jaxpr", "length", "reverse", "unroll", "num_consts", "num_carry", "linear"]
    + ["_split_transpose", "ft_in", "ft_out"]
)
#: Parameters of a while loop, none of which may be missing.
_WHILE_PARAMETERS = frozenset(
    ["cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts"]
)


def inner(eqn: Any) -> list[Any]:
    """Return the jaxprs inside an equation; of a short linear map its code."""
    several = [x if isinstance(x, tuple | list) else (x,) for x in eqn.params.values()]
    jaxprs = [x for some in several for x in some if hasattr(x, "eqns")]
    if eqn.primitive.name == "linear" and eqn.params["maps"].short:
        types = tuple((x.aval.shape, x.aval.dtype) for x in eqn.invars)
        jaxprs += [_code_of(eqn.params["maps"], eqn.params["known"], types)]
    return jaxprs


# Read again and again: for loops, for sizes, for what is not understood.
@functools.lru_cache(maxsize=256)
def _code_of(maps: LinearMapRules, known: int, types: tuple[Any, ...]) -> ClosedJaxpr:
    inputs = [jax.ShapeDtypeStruct(*one) for one in types]
    return jax.make_jaxpr(lambda *x: maps.forward(x[:known], x[known:]))(*inputs)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, open or closed, those of calls and loops included."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inside in inner(eqn):
            yield from equations(inside)


def operations(jaxpr: Any) -> set[str]:
    """Names of all operations in a jaxpr."""
    return {eqn.primitive.name for eqn in equations(jaxpr)}


def called(eqn: Any) -> ClosedJaxpr | Jaxpr | None:
    """The jaxpr that a call evaluates, input by input.

    None of what is no call, and where that is not clear.
    """
    if eqn.primitive.name not in CALLS:
        return None
    inside = inner(eqn)
    return inside[0] if len(inside) == 1 and _fits(inside[0], eqn.invars, eqn) else None


def branches_of(eqn: Any) -> list[ClosedJaxpr] | None:
    """The branches of a `cond`, by its first input; None if that is not clear."""
    branches = inner(eqn)
    fit = all(_fits(branch, eqn.invars[1:], eqn) for branch in branches)
    is_cond = eqn.primitive.name == "cond"
    return branches if is_cond and len(branches) > 1 and fit else None


def _fits(jaxpr: Any, inputs: Sequence[Any], eqn: Any) -> bool:
    inside = getattr(jaxpr, "jaxpr", jaxpr)
    arity = len(inside.invars), len(inside.outvars)
    return arity == (len(inputs), len(eqn.outvars))


class Scan(NamedTuple):
    """A `lax.scan`: constants, carry and rows are its inputs, in this order."""

    body: Any
    constants: int
    carry: int
    length: int
    reverse: bool
    unroll: int | bool

    def parts(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Constants, carry and rows of the inputs."""
        first, second = self.constants, self.constants + self.carry
        return list(inputs[:first]), list(inputs[first:second]), list(inputs[second:])


def scan_of(eqn: Any) -> Scan | None:
    """The loop that the equation is; None if that is not understood.

    How many inputs are constants, carry and rows is read off the shapes: a row has an
    axis more outside the loop than inside, and so has an output that is not carried.
    """
    params, bodies = eqn.params, inner(eqn)
    understood = eqn.primitive.name == "scan" and not set(params) - _SCAN_PARAMETERS
    if not (understood and "length" in params and len(bodies) == 1):
        return None
    inside = getattr(bodies[0], "jaxpr", bodies[0])
    if not _fits(inside, eqn.invars, eqn):
        return None
    shared = _leading_of_same_rank(eqn.invars, inside.invars)
    carry = _leading_of_same_rank(eqn.outvars, inside.outvars)
    if shared is None or carry is None or carry > shared:
        return None
    first = shared - carry
    told = params.get("num_consts", first), params.get("num_carry", carry)
    carried = zip(inside.invars[first:shared], inside.outvars[:carry], strict=True)
    if told != (first, carry) or not all(_same_type(a, b) for a, b in carried):
        return None
    reverse, unroll = params.get("reverse", False), params.get("unroll", 1)
    return Scan(bodies[0], first, carry, params["length"], reverse, unroll)


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
    params = eqn.params
    if eqn.primitive.name != "while" or set(params) != _WHILE_PARAMETERS:
        return None
    loop = While(
        params["cond_jaxpr"],
        params["body_jaxpr"],
        params["cond_nconsts"],
        params["body_nconsts"],
    )
    inputs = loop.condition_constants + loop.constants + len(eqn.outvars)
    return loop if len(eqn.invars) == inputs else None


#: `answer(equation, marks)`: marks of its outputs, None where `reach` decides.
Answer = Callable[[Any, Sequence[bool]], list[bool] | None]


def reach(
    jaxpr: Any,
    marks: Sequence[bool],
    answer: Answer | None = None,
) -> list[bool]:
    """Which outputs of a jaxpr are made of the inputs that are marked.

    Comparisons count, which no derivative shows. A loop that is not understood counts
    as reading whatever it is given, as does a branch that is chosen by what is marked.
    """

    def rule(eqn: Any, marks: list[bool]) -> list[bool]:
        if answer is None and not any(marks):
            return [False] * len(eqn.outvars)
        if answer is not None and (outputs := answer(eqn, marks)) is not None:
            return outputs
        if (inside := called(eqn)) is not None:
            return reach(inside, marks, answer)
        if (loop := scan_of(eqn)) is not None:
            return reach_scan(loop, marks, answer)
        if branches_of(eqn) is not None and not marks[0]:
            return reach_branches(eqn, marks[1:], answer)
        return [any(marks)] * len(eqn.outvars)

    consts = [False] * len(getattr(jaxpr, "jaxpr", jaxpr).constvars)
    return evaluate(jaxpr, marks, rule, lambda value, aval: False, consts)


def reach_branches(
    eqn: Any, marks: Sequence[bool], answer: Answer | None
) -> list[bool]:
    """As `reach`, of a `cond`: an output is marked if it is in any branch."""
    outputs = [reach(branch, marks, answer) for branch in branches_of(eqn) or ()]
    return [any(several) for several in zip(*outputs, strict=True)]


def reach_scan(loop: Scan, marks: Sequence[bool], answer: Answer | None) -> list[bool]:
    """As `reach`; a carry is marked from the start if it ever becomes so."""
    constants, carry, rows = loop.parts(marks)
    while True:
        outputs = reach(loop.body, [*constants, *carry, *rows], answer)
        wider = [a or b for a, b in zip(carry, outputs, strict=False)]
        if wider == carry:
            return [*carry, *outputs[loop.carry :]]
        carry = wider


def depends_on_first(function: Callable[..., PyTree], *args: Any) -> bool:
    """Whether an output is made of the first argument, an array, by its operations."""
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    return any(reach(jaxpr, [i == 0 for i in range(len(jaxpr.invars))]))


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
