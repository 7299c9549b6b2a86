"""Loops over few numbers, each of which is an array over runs by itself.

XLA makes one kernel for a GPU of operations that go element by element, and ends it at
every sum over axes or bodies: of a step of leapfrog of 5 bodies it makes 34 where the
runs are the last axis, and two where each of the 30 numbers of a state is an array of
its own. On an H100 a step of 10^5 systems takes 306 and 15 µs, of 10^6 1.6 and 0.28 ms.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from .. import _tuning
from ._batch_axis import ELEMENTWISE, why_by_vmap
from ._inspection import CALLS, Scan, called, equations, operations
from ._tracing import bind, evaluate


#: The numbers of a value in its shape, dtype object: scalars, or arrays over runs.
Elements = np.ndarray

_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_and": lax.bitwise_and,
    "reduce_max": lax.max,
    "reduce_min": lax.min,
    "reduce_or": lax.bitwise_or,
    "reduce_prod": lax.mul,
    "reduce_sum": lax.add,
}


def supports_elements(loop: Scan) -> bool:
    """Whether a loop gains, is short, and all that it does is understood.

    One that reads or leaves something at every step goes through memory anyway.
    """
    inside, every = getattr(loop.body, "jaxpr", loop.body), list(equations(loop.body))
    carries = loop.constants + loop.carry == len(inside.invars)
    if not carries or loop.carry < len(inside.outvars):
        return False
    results = [x for eqn in every for x in eqn.outvars]
    sizes = [math.prod(x.aval.shape) for x in (*inside.invars, *results)]
    gains = not operations(loop.body).isdisjoint(_REDUCTIONS)
    few = all(sizes) and sum(sizes) <= _tuning.MOST_ELEMENTS
    return gains and few and all(map(_is_understood, every))


def _is_understood(eqn: Any) -> bool:
    name = eqn.primitive.name
    if name in _PARAMETERS:
        # A parameter that is None has no effect.
        params = {key for key, value in eqn.params.items() if value is not None}
        return params <= _PARAMETERS[name]
    return name in CALLS | ELEMENTWISE | _MOVES.keys() and why_by_vmap(eqn) is None


def scan_elements(
    loop: Scan, values: Sequence[Any], batched: Sequence[bool], kept: Sequence[bool]
) -> list[Any]:
    """The carry after a loop that `supports_elements`, the runs as last axis.

    **Arguments:** `batched`, which of `values` have the runs as last axis; `kept`,
    which parts of the carry have in the end.
    """
    size = next(x.shape[-1] for x, wide in zip(values, batched, strict=True) if wide)

    def settled(carry):
        return [
            _each(lambda number: jnp.broadcast_to(number, (size,)), x) if wide else x
            for x, wide in zip(carry, kept, strict=True)
        ]

    split = [_elements(x, wide) for x, wide in zip(values, batched, strict=True)]
    consts, carry, _ = loop.parts(split)
    start = settled(carry)

    def step(_, numbers):
        inputs = [*consts, *_shaped(numbers, start)]
        return _listed(settled(evaluate(loop.body, inputs, _rule, _constant)))

    numbers = lax.fori_loop(0, loop.length, step, _listed(start))
    return [_joined(x) for x in _shaped(numbers, start)]


def _rule(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    """The outputs of an equation, number by number."""
    name = eqn.primitive.name
    if (inside := called(eqn)) is not None:
        return evaluate(inside, inputs, _rule, _constant)
    if name in ELEMENTWISE:
        return [_each(functools.partial(_number, eqn), *inputs)]
    if name in _REDUCTIONS:
        return [_reduced(_REDUCTIONS[name], inputs[0], eqn.params["axes"])]
    return _MOVES[name](eqn, *inputs)


def _constant(value: Any, aval: Any) -> Elements:
    return _elements(np.asarray(value, aval.dtype), False)


def _elements(value: Any, batched: bool) -> Elements:
    value = jnp.asarray(value)
    elements = np.empty(value.shape[:-1] if batched else value.shape, object)
    for i in np.ndindex(elements.shape):
        elements[i] = value[i]
    return elements


def _joined(elements: Elements) -> Array:
    stacked = jnp.stack(list(elements.ravel()))
    return stacked.reshape(*elements.shape, *stacked.shape[1:])


def _listed(every: Sequence[Elements]) -> list[Any]:
    return [x for elements in every for x in elements.ravel()]


def _shaped(numbers: Sequence[Any], like: Sequence[Elements]) -> list[Elements]:
    left = iter(numbers)
    return [_each(lambda _: next(left), x) for x in like]


def _each(function: Callable[..., Any], *elements: Elements) -> Elements:
    """`function` of numbers in the same place, or of the only one."""
    broadcast = np.broadcast_arrays(*elements)
    results = np.empty(broadcast[0].shape, object)
    for i in np.ndindex(results.shape):
        results[i] = function(*(x[i] for x in broadcast))
    return results


def _number(eqn: Any, *numbers: Any) -> Array:
    """One number of what an operation makes of others."""
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    return bind(eqn, [jnp.broadcast_to(x, shape) for x in numbers])[0]


def _reduced(
    combine: Callable[[Any, Any], Any], x: Elements, axes: Sequence[int]
) -> Elements:
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(x.shape[i] for i in kept)
    parts = x.transpose(*axes, *kept).reshape(-1, *shape)

    def both(a, b):
        return combine(*jnp.broadcast_arrays(a, b))

    return functools.reduce(functools.partial(_each, both), _along_first(parts))


def _along_first(x: Elements) -> list[Elements]:
    """Its parts, which stay arrays where they are one number."""
    return [x[i, ...] for i in range(len(x))]


def _broadcast(eqn: Any, x: Elements, *_: Elements) -> list[Elements]:
    shape = eqn.outvars[0].aval.shape
    sizes = dict(zip(eqn.params["broadcast_dimensions"], x.shape, strict=True))
    aligned = x.reshape([sizes.get(i, 1) for i in range(len(shape))])
    return [np.broadcast_to(aligned, shape)]


def _slice(eqn: Any, x: Elements) -> list[Elements]:
    strides = eqn.params["strides"] or (1,) * x.ndim
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    return [x[tuple(map(slice, starts, limits, strides))]]


#: Operations that move numbers, and nothing else.
_MOVES: dict[str, Callable[..., list[Elements]]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda eqn, *x: [np.concatenate(x, eqn.params["dimension"])],
    "iota": lambda eqn: [_elements(bind(eqn, [])[0], False)],
    "reshape": lambda eqn, x: [x.reshape(eqn.outvars[0].aval.shape)],
    "rev": lambda eqn, x: [np.flip(x, eqn.params["dimensions"])],
    "slice": _slice,
    "squeeze": lambda eqn, x: [x.reshape(eqn.outvars[0].aval.shape)],
    "split": lambda eqn, x: np.split(
        x, np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"]
    ),
    "stack": lambda eqn, *x: [np.stack(x, eqn.params["axis"])],
    "transpose": lambda eqn, x: [x.transpose(eqn.params["permutation"])],
    "unstack": lambda eqn, x: _along_first(np.moveaxis(x, eqn.params["axis"], 0)),
}
#: All parameters of what only `jax.vmap` batches elsewhere.
_PARAMETERS = {
    **{name: {"axes"} for name in _REDUCTIONS},
    "iota": {"dtype", "shape", "dimension"},
    "rev": {"dimensions"},
    "slice": {"start_indices", "limit_indices", "strides"},
    "split": {"sizes", "axis"},
    "stack": {"axis"},
    "unstack": {"axis"},
}
