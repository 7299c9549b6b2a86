"""A trailing batch axis: what it means to operations, and which values it reaches."""

import collections
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from ._inspection import CALLS, branches_of, called, equations, reach, scan_of
from ._tracing import bind


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
#: Operations that keep the order in another shape, and the parameters that say which.
_SHAPES = {
    "broadcast_in_dim": _words("shape broadcast_dimensions"),
    "concatenate": _words("dimension"),
    "reshape": _words("new_sizes"),
    "squeeze": _words("dimensions"),
    "transpose": _words("permutation"),
}
#: Batched by JAX's own rules, which keep a trailing batch or move it at little cost.
_BY_VMAP = _words(
    """
    argmax argmin cummax cummin cumprod cumsum dot_general dynamic_slice
    dynamic_update_slice gather iota pad reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum rev scatter scatter-add slice sort split stack
    custom_vmap_call
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
    reasons = _count(name for name in names if name in _OBSTACLES)
    if closed.effects:
        reasons["effect"] = len(closed.effects)
    conds = [eqn for eqn in every if eqn.primitive.name == "cond"]
    if conds:
        chosen_by_each: dict[int, bool] = {}

        def answer(eqn: Any, batched: Sequence[bool]) -> list[bool] | None:
            if eqn.primitive.name == "cond":
                earlier = chosen_by_each.get(id(eqn), False)
                chosen_by_each[id(eqn)] = earlier or batched[0]
            return answer_of_all(eqn, batched)

        reach(closed, [True] * len(closed.jaxpr.invars), answer)
        # One that is not met lies inside of something that is not understood.
        reasons |= _count("cond" for eqn in conds if chosen_by_each.get(id(eqn), True))
    return reasons if reasons or "scan" in names else {"no loop": 1}


def _count(reasons: Iterable[str | None]) -> dict[str, int]:
    return dict(collections.Counter(reason for reason in reasons if reason))


def why_by_vmap(eqn: Any) -> str | None:
    """Why `jax.vmap` has to batch an equation; None if its meaning is known here."""
    name = eqn.primitive.name
    if name in _BY_VMAP:
        return None
    if name in CALLS or name in ("scan", "cond"):
        is_known = called(eqn) or scan_of(eqn) or branches_of(eqn)
        return None if is_known else f"{name} of unknown structure"
    if name not in ELEMENTWISE and name not in _SHAPES:
        return f"unknown operation {name}"
    handled = _SHAPES.get(name, _OF_AN_ELEMENT)
    # A parameter that is None has no effect: `sharding`, `dimensions` of a reshape.
    params = {key for key, value in eqn.params.items() if value is not None}
    if params - handled:
        return f"{name} with {', '.join(sorted(params - handled))}"
    # Every operand is one number, or broadcasts to the result axis by axis.
    full, *others = [x.aval.shape for x in eqn.outvars]
    ranks = {len(x.aval.shape) for x in eqn.invars} - {0}
    is_elementwise = not others and ranks <= {len(full)}
    return None if name in _SHAPES or is_elementwise else f"{name} of other shapes"


def is_left_to_vmap(eqn: Any) -> bool:
    """Whether `jax.vmap` batches it, for JAX's own rule or for lack of one here."""
    return eqn.primitive.name in _BY_VMAP or why_by_vmap(eqn) is not None


def answer_of_all(eqn: Any, batched: Sequence[bool]) -> list[bool] | None:
    """For `reach`: the rule of a `custom_vmap` may have one answer for all runs."""
    is_rule = eqn.primitive.name == "custom_vmap_call" and any(batched)
    return [False] * len(eqn.outvars) if is_rule and _is_one(eqn, batched) else None


def _is_one(eqn: Any, batched: Sequence[bool]) -> bool:
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
