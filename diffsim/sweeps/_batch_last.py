"""Batching with the batch as last axis, loops included.

`jax.vmap` moves the batch of every loop to the front. Where a run is a loop over a
small state, (body, 3) say, SIMD lanes then hold three numbers; with the runs last they
hold runs. Leapfrog of 5 bodies on one core, µs per step and run in tiles of 32: 0.077
batch first, 0.046 batch last, and 0.16 for REBOUND run after run. A loop that hands
`jax.vmap` of its step the runs as last axis is no faster than batch first (0.10 for
0.10, where this takes 0.049): the rules of broadcasts and sums move the runs to the
front. So the jaxpr is read.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from .._jit._traced_program import bind
from .._primitives import ClosedJaxpr, Jaxpr
from .._types import PyTree
from ._jaxpr_inspection import Scan, equations, inner, scan_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Elementwise, in any number of equal shapes: a trailing axis changes nothing.
_ELEMENTWISE = _words(
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
_BY_VMAP = _words(
    """
    argmax argmin cummax cummin cumprod cumsum dot_general dynamic_slice
    dynamic_update_slice gather iota pad reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum rev scatter scatter-add slice sort split stack
    """
)
#: Calls, which are evaluated in place; derivative rules have done their work by now.
_CALLS = _words(
    "checkpoint closed_call custom_jvp_call custom_vjp_call jit linear pjit remat2"
)


#: Loops whose length is decided as they run (adaptive steps) gain nothing, and XLA's
#: Fourier transforms on CPUs refuse the layouts that come of moving the batch back.
_OBSTACLES = _words("while cond fft")


class _BatchedValue(NamedTuple):
    """A value, and whether its last axis is the batch."""

    value: Any
    batched: bool


def supports_batch_last(closed: Any) -> bool:
    """Whether a jaxpr has a loop to gain from, and nothing that speaks against it."""
    return not _obstacles(closed)


def equations_left_to_vmap(closed: Any) -> dict[str, int]:
    """Why `jax.vmap` batches equations instead, and how many of them.

    It batches all of them where the jaxpr does not `supports_batch_last`.
    """
    return _obstacles(closed) or _count(map(_reason, equations(closed)))


def _obstacles(closed: Any) -> dict[str, int]:
    """Reasons against the batch as last axis altogether, and how many."""
    names = [eqn.primitive.name for eqn in equations(closed)]
    found = _count(name for name in names if name in _OBSTACLES)
    if closed.effects:
        found["effect"] = len(closed.effects)
    return found if found or "scan" in names else {"no loop": 1}


def _count(reasons: Iterable[str | None]) -> dict[str, int]:
    return dict(collections.Counter(reason for reason in reasons if reason))


def batch_last(function: Callable[[Array], PyTree[Array]]):
    """`function` for arrays with a trailing batch axis, on arguments and results.

    Only for functions whose jaxpr `supports_batch_last`.
    """

    def batched(x: Array) -> PyTree[Array]:
        one = jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(one)
        size = x.shape[-1]
        lanes = _evaluate(closed, [_BatchedValue(x, True)], size)
        values = [_as_batched(lane, size) for lane in lanes]
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    return batched


def _reason(eqn: Any) -> str | None:
    """Why `jax.vmap` has to batch an equation; None if its meaning is known here."""
    name = eqn.primitive.name
    if name in _BY_VMAP:
        return None
    if name == "scan":
        return None if scan_of(eqn) else "scan of unknown structure"
    if name in _CALLS:
        return None if _call(eqn) else f"{name} of unknown structure"
    if name not in _ELEMENTWISE and name not in _SHAPES:
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


def _call(
    eqn: Any,
) -> ClosedJaxpr | Jaxpr | None:
    """The jaxpr that a call evaluates, input by input; None if that is not clear."""
    found = inner(eqn)
    if len(found) != 1:
        return None
    inside = getattr(found[0], "jaxpr", found[0])
    arity = len(inside.invars), len(inside.outvars)
    return found[0] if arity == (len(eqn.invars), len(eqn.outvars)) else None


def _as_batched(lane: _BatchedValue, size: int) -> Array:
    if lane.batched:
        return lane.value
    value = jnp.asarray(lane.value)
    return jnp.broadcast_to(value[..., None], (*value.shape, size))


def _evaluate(
    closed: Any, inputs: Sequence[_BatchedValue], size: int
) -> list[_BatchedValue]:
    """Evaluates a jaxpr, open or closed, equation by equation."""
    jaxpr, consts = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
    known = dict(
        zip(jaxpr.constvars, (_BatchedValue(c, False) for c in consts), strict=True)
    )
    known.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom):
        return _BatchedValue(atom.val, False) if hasattr(atom, "val") else known[atom]

    for eqn in jaxpr.eqns:
        outputs = _apply(eqn, [read(atom) for atom in eqn.invars], size)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(eqn: Any, lanes: list[_BatchedValue], size: int) -> list[_BatchedValue]:
    name = eqn.primitive.name
    if _reason(eqn) or name in _BY_VMAP:
        return _by_vmap(eqn, lanes)
    if name in _CALLS:
        return _evaluate(_call(eqn), lanes, size)
    if name == "scan":
        loop = scan_of(eqn)
        assert loop is not None
        return _scan(loop, lanes, size)
    if not any(lane.batched for lane in lanes):
        return _unbatched(eqn, lanes)
    one = _elementwise if name in _ELEMENTWISE else _reshaped
    return [_BatchedValue(one(eqn, lanes, size), True)]


def _unbatched(eqn: Any, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
    """An equation that is the same for all runs."""
    return [_BatchedValue(x, False) for x in bind(eqn, [lane.value for lane in lanes])]


def _elementwise(eqn: Any, lanes: list[_BatchedValue], size: int) -> Array:
    full = (*eqn.outvars[0].aval.shape, size)
    operands = []
    for lane in lanes:
        x = _as_batched(lane, size)
        # A number beside arrays: its only axis is the batch.
        alone = lax.broadcast_in_dim(x, full, (len(full) - 1,)) if x.ndim == 1 else x
        operands.append(alone)
    return bind(eqn, operands)[0]


def _reshaped(eqn: Any, lanes: list[_BatchedValue], size: int) -> Array:
    parameters, shape = eqn.params, eqn.outvars[0].aval.shape
    operands = [_as_batched(lane, size) for lane in lanes]
    match eqn.primitive.name:
        case "broadcast_in_dim":
            axes = (*parameters["broadcast_dimensions"], len(shape))
            return lax.broadcast_in_dim(operands[0], (*shape, size), axes)
        case "concatenate":
            return lax.concatenate(operands, parameters["dimension"])
        case "transpose":
            axes = (*parameters["permutation"], len(shape))
            return lax.transpose(operands[0], axes)
        case _:
            return lax.reshape(operands[0], (*shape, size))


def _by_vmap(eqn: Any, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
    if not any(lane.batched for lane in lanes):
        return _unbatched(eqn, lanes)
    axes = tuple(-1 if lane.batched else None for lane in lanes)
    batched = jax.vmap(lambda *x: bind(eqn, x), in_axes=axes, out_axes=-1)
    return [_BatchedValue(x, True) for x in batched(*(lane.value for lane in lanes))]


def _scan(loop: Scan, lanes: list[_BatchedValue], size: int) -> list[_BatchedValue]:
    first, second = loop.constants, loop.constants + loop.carry
    consts, carry, rows = lanes[:first], lanes[first:second], lanes[second:]
    flags = _broadcast_scan(loop, [lane.batched for lane in lanes])
    kept, out = flags[: len(carry)], flags[len(carry) :]

    def settled(found):
        pairs = zip(found, kept, strict=True)
        return [_as_batched(x, size) if wide else x.value for x, wide in pairs]

    def step(values, row):
        inputs = [
            *consts,
            *map(_BatchedValue, values, kept),
            *(
                _BatchedValue(x, lane.batched)
                for x, lane in zip(row, rows, strict=True)
            ),
        ]
        found = _evaluate(loop.body, inputs, size)
        return settled(found[: len(carry)]), [x.value for x in found[len(carry) :]]

    last, outputs = lax.scan(
        step,
        settled(carry),
        [lane.value for lane in rows],
        length=loop.length,
        reverse=loop.reverse,
        unroll=loop.unroll,
    )
    return [*map(_BatchedValue, last, kept), *map(_BatchedValue, outputs, out)]


def _broadcast(closed: Any, batched: Sequence[bool]) -> list[bool]:
    """Which outputs of a jaxpr are batched if these inputs are."""
    jaxpr = getattr(closed, "jaxpr", closed)
    known = dict(zip(jaxpr.invars, batched, strict=True))

    def read(atom):
        return not hasattr(atom, "val") and known.get(atom, False)

    for eqn in jaxpr.eqns:
        inputs, name = [read(atom) for atom in eqn.invars], eqn.primitive.name
        if name == "scan" and not _reason(eqn):
            loop = scan_of(eqn)
            assert loop is not None
            outputs = _broadcast_scan(loop, inputs)
        elif name in _CALLS and not _reason(eqn):
            outputs = _broadcast(_call(eqn), inputs)
        else:
            outputs = [any(inputs)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _broadcast_scan(loop: Scan, batched: Sequence[bool]) -> list[bool]:
    """As `_broadcast`; a carry is batched from the start if it ever becomes so."""
    first, second = loop.constants, loop.constants + loop.carry
    carry = list(batched[first:second])
    while True:
        inputs = [*batched[:first], *carry, *batched[second:]]
        outputs = _broadcast(loop.body, inputs)
        after = outputs[: len(carry)]
        if all(old or not new for old, new in zip(carry, after, strict=True)):
            return [*carry, *outputs[len(carry) :]]
        carry = [old or new for old, new in zip(carry, after, strict=True)]
