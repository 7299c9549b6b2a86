"""A trailing batch axis: what it means to operations, and which values it reaches."""

import collections
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from ._jaxpr_inspection import Scan, equations, inner, scan_of
from ._primitives import ClosedJaxpr, Jaxpr
from ._program import bind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Elementwise, in any number of equal shapes: a trailing axis changes nothing.
ELEMENTWISE = _words(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp complex
    conj convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2
    expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p logistic lt max min
    mul ne neg nextafter not or pow real reduce_precision rem round rsqrt select_n
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square
    stop_gradient sub tan tanh xor
    """
)
#: Their parameters that a trailing axis does not touch, whatever the value.
_OF_AN_ELEMENT = _words(
    """
    accuracy exponent_bits input_dtype mantissa_bits new_dtype out_dtype
    rounding_method weak_type y
    """
)
#: Of another shape, but in the same order, and the parameters that say which.
_SHAPES = {
    "broadcast_in_dim": _words("shape broadcast_dimensions"),
    "concatenate": _words("dimension"),
    "reshape": _words("new_sizes"),
    "squeeze": _words("dimensions"),
    "transpose": _words("permutation"),
}
#: Batched by JAX's own rules, which keep a trailing batch or move it at little cost.
BY_VMAP = _words(
    """
    argmax argmin cummax cummin cumprod cumsum dot_general dynamic_slice
    dynamic_update_slice gather iota pad reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum rev scatter scatter-add slice sort split stack
    """
)
#: Calls, which are evaluated in place; derivative rules have done their work by now.
CALLS = _words(
    """
    checkpoint closed_call custom_jvp_call custom_vjp_call jit linear one_or_many pjit
    remat2 sealed
    """
)

#: Loops whose length is decided as they run (adaptive steps) gain nothing, nor do
#: branches that each run decides for itself, which all take both. XLA's Fourier
#: transforms on CPUs refuse the layouts that come of moving the batch back.
_OBSTACLES = _words("while fft")


def supports_batch_last(closed: Any) -> bool:
    """Whether a jaxpr has a loop to gain from, and nothing that speaks against it."""
    return not obstacles(closed)


def equations_left_to_vmap(closed: Any) -> dict[str, int]:
    """Why `jax.vmap` batches equations instead, and how many of them.

    It batches all of them where the jaxpr does not `supports_batch_last`.
    """
    return obstacles(closed) or _count(map(why_by_vmap, equations(closed)))


def obstacles(closed: Any) -> dict[str, int]:
    """Reasons against the batch as last axis altogether, and how many."""
    every = list(equations(closed))
    names = [eqn.primitive.name for eqn in every]
    found = _count(name for name in names if name in _OBSTACLES)
    if closed.effects:
        found["effect"] = len(closed.effects)
    conds = [eqn for eqn in every if eqn.primitive.name == "cond"]
    if conds:
        decided: dict[int, bool] = {}
        reach(closed, [True] * len(closed.jaxpr.invars), decided)
        # One that is not met lies inside of something that is not understood.
        found |= _count("cond" for eqn in conds if decided.get(id(eqn), True))
    return found if found or "scan" in names else {"no loop": 1}


def _count(reasons: Iterable[str | None]) -> dict[str, int]:
    return dict(collections.Counter(reason for reason in reasons if reason))


def why_by_vmap(eqn: Any) -> str | None:
    """Why `jax.vmap` has to batch an equation; None if its meaning is known here."""
    name = eqn.primitive.name
    if name in BY_VMAP or name == "custom_vmap_call":
        return None
    if name == "scan":
        return None if scan_of(eqn) else "scan of unknown structure"
    if name == "cond":
        return None if branches_of(eqn) else "cond of unknown structure"
    if name in CALLS:
        return None if called(eqn) else f"{name} of unknown structure"
    if name not in ELEMENTWISE and name not in _SHAPES:
        return f"unknown operation {name}"
    handled = _SHAPES.get(name, _OF_AN_ELEMENT)
    # What is None is as if it were not there: `sharding`, `dimensions` of a reshape.
    given = {key for key, value in eqn.params.items() if value is not None}
    unknown = sorted(given - handled)
    if unknown:
        return f"{name} with {', '.join(unknown)}"
    return (
        None if name in _SHAPES or _is_elementwise(eqn) else f"{name} of other shapes"
    )


def _is_elementwise(eqn: Any) -> bool:
    """Whether every operand is one number, or broadcasts to the result axis by axis."""
    (full, *others) = [x.aval.shape for x in eqn.outvars]
    ranks = {len(x.aval.shape) for x in eqn.invars} - {0}
    return not others and ranks <= {len(full)}


def called(eqn: Any) -> ClosedJaxpr | Jaxpr | None:
    """The jaxpr that a call evaluates, input by input; None if that is not clear."""
    found = inner(eqn)
    return found[0] if len(found) == 1 and _fits(found[0], eqn.invars, eqn) else None


def branches_of(eqn: Any) -> list[ClosedJaxpr] | None:
    """The branches of a `cond`, by its first input; None if that is not clear."""
    found = inner(eqn)
    fit = all(_fits(branch, eqn.invars[1:], eqn) for branch in found)
    return found if len(found) > 1 and fit else None


def _fits(jaxpr: Any, inputs: Sequence[Any], eqn: Any) -> bool:
    inside = getattr(jaxpr, "jaxpr", jaxpr)
    arity = len(inside.invars), len(inside.outvars)
    return arity == (len(inputs), len(eqn.outvars))


def answers_together(eqn: Any, batched: Sequence[bool]) -> bool:
    """Whether the rule of a `custom_vmap` has one answer for all runs."""
    shapes = [
        jax.ShapeDtypeStruct((*x.aval.shape, 2) if wide else x.aval.shape, x.aval.dtype)
        for x, wide in zip(eqn.invars, batched, strict=True)
    ]
    try:
        jax.eval_shape(lambda *x: together(eqn, x, batched), *shapes)
    except ValueError:  # `vmap` has a mapped output
        return False
    return True


def together(eqn: Any, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The one answer of an equation for all runs."""
    axes = tuple(-1 if wide else None for wide in batched)
    return jax.vmap(lambda *x: bind(eqn, x), in_axes=axes, out_axes=None)(*values)


def reach(
    closed: Any, batched: Sequence[bool], decided: dict[int, bool] | None = None
) -> list[bool]:
    """Which outputs of a jaxpr are batched if these inputs are.

    In `decided` is noted by `id` of which `cond` the runs decide one by one.
    """
    jaxpr = getattr(closed, "jaxpr", closed)
    known = dict(zip(jaxpr.invars, batched, strict=True))

    def read(atom):
        return not hasattr(atom, "val") and known.get(atom, False)

    for eqn in jaxpr.eqns:
        outputs = _reached(eqn, [read(atom) for atom in eqn.invars], decided)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _reached(
    eqn: Any, inputs: list[bool], decided: dict[int, bool] | None
) -> list[bool]:
    """Which outputs of an equation are batched if these inputs are."""
    name, known = eqn.primitive.name, not why_by_vmap(eqn)
    if known and name == "scan":
        loop = scan_of(eqn)
        assert loop is not None
        return reach_scan(loop, inputs, decided)
    if known and name == "cond":
        if decided is not None:
            decided[id(eqn)] = decided.get(id(eqn), False) or inputs[0]
        if not inputs[0]:
            return reach_branches(eqn, inputs[1:], decided)
    if known and name in CALLS:
        return reach(called(eqn), inputs, decided)
    if name == "custom_vmap_call" and any(inputs) and answers_together(eqn, inputs):
        return [False] * len(eqn.outvars)
    return [any(inputs)] * len(eqn.outvars)


def reach_branches(
    eqn: Any, batched: Sequence[bool], decided: dict[int, bool] | None = None
) -> list[bool]:
    """As `reach`, of a `cond`: an output is batched if it is in any branch."""
    branches = branches_of(eqn) or ()
    found = [reach(branch, batched, decided) for branch in branches]
    return [any(wide) for wide in zip(*found, strict=True)]


def reach_scan(
    loop: Scan, batched: Sequence[bool], decided: dict[int, bool] | None = None
) -> list[bool]:
    """As `reach`; a carry is batched from the start if it ever becomes so."""
    first, second = loop.constants, loop.constants + loop.carry
    carry = list(batched[first:second])
    while True:
        inputs = [*batched[:first], *carry, *batched[second:]]
        outputs = reach(loop.body, inputs, decided)
        after = outputs[: len(carry)]
        if all(old or not new for old, new in zip(carry, after, strict=True)):
            return [*carry, *outputs[len(carry) :]]
        carry = [old or new for old, new in zip(carry, after, strict=True)]
