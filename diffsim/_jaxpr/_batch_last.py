"""Batching with the batch as last axis, loops included.

`jax.vmap` moves the batch of every loop to the front. Where a run is a loop over a
small state, (body, 3) say, SIMD lanes then hold three numbers; with the runs last they
hold runs. Leapfrog of 5 bodies on one core, µs per step and run in tiles of 32: 0.077
batch first, 0.046 batch last, and 0.16 for REBOUND run after run. A loop that hands
`jax.vmap` of its step the runs as last axis is no faster than batch first (0.10 for
0.10, where this takes 0.049): the rules of broadcasts and sums move the runs to the
front. So the jaxpr is read.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from .._types import PyTree
from ._batch_axis import (
    BY_VMAP,
    CALLS,
    ELEMENTWISE,
    answers_together,
    branches_of,
    called,
    reach_branches,
    reach_scan,
    together,
    why_by_vmap,
)
from ._element_loops import scan_elements, supports_elements
from ._jaxpr_inspection import Scan, scan_of
from ._program import bind


class _Tile(NamedTuple):
    """How many runs lie side by side, and how those of small loops do."""

    size: int
    by_elements: bool


class _BatchedValue(NamedTuple):
    """A value, and whether its last axis is the batch."""

    value: Any
    batched: bool


def batch_last(
    function: Callable[[PyTree[Array]], PyTree[Array]], *, by_elements: bool = False
):
    """`function` for arrays with a trailing batch axis, on arguments and results.

    Only for functions whose jaxpr `supports_batch_last`. `by_elements`: loops that
    `supports_elements` knows carry each number by itself.
    """

    def batched(tree: PyTree[Array]) -> PyTree[Array]:
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[:-1], x.dtype), tree)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(one)
        arrays = jax.tree.leaves(tree)
        tile = _Tile(arrays[0].shape[-1], by_elements)
        lanes = _evaluate(closed, [_BatchedValue(x, True) for x in arrays], tile)
        values = [_as_batched(lane, tile) for lane in lanes]
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    return batched


def _as_batched(lane: _BatchedValue, tile: _Tile) -> Array:
    if lane.batched:
        return lane.value
    value = jnp.asarray(lane.value)
    return jnp.broadcast_to(value[..., None], (*value.shape, tile.size))


def _evaluate(
    closed: Any, inputs: Sequence[_BatchedValue], tile: _Tile
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
        outputs = _apply(eqn, [read(atom) for atom in eqn.invars], tile)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(eqn: Any, lanes: list[_BatchedValue], tile: _Tile) -> list[_BatchedValue]:
    name, flags = eqn.primitive.name, [lane.batched for lane in lanes]
    if not any(flags):
        return _unbatched(eqn, lanes)
    if name == "custom_vmap_call" and answers_together(eqn, flags):
        found = together(eqn, [lane.value for lane in lanes], flags)
        return [_BatchedValue(x, False) for x in found]
    by_each = name == "cond" and lanes[0].batched
    if name in BY_VMAP or name == "custom_vmap_call" or by_each or why_by_vmap(eqn):
        return _by_vmap(eqn, lanes)
    if name in CALLS:
        return _evaluate(called(eqn), lanes, tile)
    if name == "cond":
        return _cond(eqn, lanes, tile)
    if name == "scan":
        loop = scan_of(eqn)
        assert loop is not None
        return _scan(loop, lanes, tile)
    one = _elementwise if name in ELEMENTWISE else _reshaped
    return [_BatchedValue(one(eqn, lanes, tile), True)]


def _unbatched(eqn: Any, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
    """An equation that is the same for all runs."""
    return [_BatchedValue(x, False) for x in bind(eqn, [lane.value for lane in lanes])]


def _elementwise(eqn: Any, lanes: list[_BatchedValue], tile: _Tile) -> Array:
    full = (*eqn.outvars[0].aval.shape, tile.size)
    operands = []
    for lane in lanes:
        x = _as_batched(lane, tile)
        # A number beside arrays: its only axis is the batch.
        alone = lax.broadcast_in_dim(x, full, (len(full) - 1,)) if x.ndim == 1 else x
        operands.append(alone)
    return bind(eqn, operands)[0]


def _reshaped(eqn: Any, lanes: list[_BatchedValue], tile: _Tile) -> Array:
    parameters, shape = eqn.params, eqn.outvars[0].aval.shape
    operands = [_as_batched(lane, tile) for lane in lanes]
    match eqn.primitive.name:
        case "broadcast_in_dim":
            axes = (*parameters["broadcast_dimensions"], len(shape))
            return lax.broadcast_in_dim(operands[0], (*shape, tile.size), axes)
        case "concatenate":
            return lax.concatenate(operands, parameters["dimension"])
        case "transpose":
            axes = (*parameters["permutation"], len(shape))
            return lax.transpose(operands[0], axes)
        case _:
            return lax.reshape(operands[0], (*shape, tile.size))


def _by_vmap(eqn: Any, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
    axes = tuple(-1 if lane.batched else None for lane in lanes)
    batched = jax.vmap(lambda *x: bind(eqn, x), in_axes=axes, out_axes=-1)
    return [_BatchedValue(x, True) for x in batched(*(lane.value for lane in lanes))]


def _scan(loop: Scan, lanes: list[_BatchedValue], tile: _Tile) -> list[_BatchedValue]:
    first, second = loop.constants, loop.constants + loop.carry
    consts, carry, rows = lanes[:first], lanes[first:second], lanes[second:]
    flags = reach_scan(loop, [lane.batched for lane in lanes])
    kept, out = flags[: len(carry)], flags[len(carry) :]
    if tile.by_elements and supports_elements(loop):
        values, batched = zip(*lanes, strict=True)
        found = scan_elements(loop, values, batched, kept)
        return [*map(_BatchedValue, found, flags)]

    def step(values, row):
        inputs = [
            *consts,
            *map(_BatchedValue, values, kept),
            *(
                _BatchedValue(x, lane.batched)
                for x, lane in zip(row, rows, strict=True)
            ),
        ]
        found = _evaluate(loop.body, inputs, tile)
        carried = _settled(found[: len(carry)], kept, tile)
        return carried, [x.value for x in found[len(carry) :]]

    last, outputs = lax.scan(
        step,
        _settled(carry, kept, tile),
        [lane.value for lane in rows],
        length=loop.length,
        reverse=loop.reverse,
        unroll=loop.unroll,
    )
    return [*map(_BatchedValue, last, kept), *map(_BatchedValue, outputs, out)]


def _cond(eqn: Any, lanes: list[_BatchedValue], tile: _Tile) -> list[_BatchedValue]:
    """One branch for all runs."""
    index, *given = lanes
    flags = [lane.batched for lane in given]
    out = reach_branches(eqn, flags)

    def run(branch):
        def of(*values):
            inputs = [*map(_BatchedValue, values, flags)]
            return _settled(_evaluate(branch, inputs, tile), out, tile)

        return of

    branches = [run(branch) for branch in branches_of(eqn) or ()]
    found = lax.switch(index.value, branches, *(lane.value for lane in given))
    return [*map(_BatchedValue, found, out)]


def _settled(
    found: Sequence[_BatchedValue], batched: Sequence[bool], tile: _Tile
) -> list[Any]:
    """The values, with the batch where it is to be."""
    pairs = zip(found, batched, strict=True)
    return [_as_batched(x, tile) if wide else x.value for x, wide in pairs]
