"""Batching with the batch as last axis, loops included.

`jax.vmap` moves the batch of every loop to the front. Where a run is a loop over a
small state, (body, 3) say, SIMD lanes then hold three numbers; with the runs last they
hold runs. Leapfrog of 5 bodies on one core, µs per step and run in tiles of 32: 0.077
batch first, 0.046 batch last, and 0.16 for REBOUND run after run. A loop that hands
`jax.vmap` of its step the runs as last axis is no faster than batch first (0.10 for
0.10, where this takes 0.049): the rules of broadcasts and sums move the runs to the
front. So the jaxpr is read.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from .._types import PyTree
from ._batch_axis import ELEMENTWISE, answer_of_all, is_left_to_vmap, together
from ._element_loops import scan_elements, supports_elements
from ._inspection import (
    Scan,
    branches_of,
    called,
    reach_branches,
    reach_scan,
    scan_of,
)
from ._tracing import bind, evaluate


def batch_last(
    function: Callable[[PyTree[Array]], PyTree[Array]], *, by_elements: bool = False
):
    """`function` for arrays with a trailing batch axis, on arguments and results.

    Only for functions whose jaxpr `supports_batch_last`. `by_elements`: loops that
    `supports_elements` knows carry each number by itself.
    """

    def batched(tree: PyTree[Array]) -> PyTree[Array]:
        run = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[:-1], x.dtype), tree)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(run)
        arrays = jax.tree.leaves(tree)
        tile = _Tile(arrays[0].shape[-1], by_elements)
        lanes = tile.evaluate(closed, [_BatchedValue(x, True) for x in arrays])
        values = list(map(tile.with_batch, lanes))
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    return batched


class _BatchedValue(NamedTuple):
    """A value, and whether its last axis is the batch."""

    value: Any
    batched: bool


class _Tile(NamedTuple):
    """How many runs lie side by side, and how those of small loops do."""

    size: int
    by_elements: bool

    def evaluate(
        self, jaxpr: Any, inputs: Sequence[_BatchedValue]
    ) -> list[_BatchedValue]:
        return evaluate(
            jaxpr, inputs, self.rule, lambda value, aval: _BatchedValue(value, False)
        )

    def rule(self, eqn: Any, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
        """The outputs of an equation, by whatever keeps the batch last."""
        name, flags = eqn.primitive.name, [lane.batched for lane in lanes]
        values = [lane.value for lane in lanes]
        if not any(flags):  # the same for all runs
            return [_BatchedValue(x, False) for x in bind(eqn, values)]
        if answer_of_all(eqn, flags) is not None:
            return [_BatchedValue(x, False) for x in together(eqn, values, flags)]
        by_each = name == "cond" and flags[0]
        if by_each or is_left_to_vmap(eqn):
            axes = tuple(-1 if wide else None for wide in flags)
            by_vmap = jax.vmap(lambda *x: bind(eqn, x), in_axes=axes, out_axes=-1)
            return [_BatchedValue(x, True) for x in by_vmap(*values)]
        if (inside := called(eqn)) is not None:
            return self.evaluate(inside, lanes)
        if (loop := scan_of(eqn)) is not None:
            return self.scan(loop, lanes)
        if name == "cond":
            return self.cond(eqn, lanes)
        one = _elementwise if name in ELEMENTWISE else _reshaped
        return [_BatchedValue(one(eqn, map(self.with_batch, lanes), self.size), True)]

    def scan(self, loop: Scan, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
        values, flags = map(list, zip(*lanes, strict=True))
        reached = reach_scan(loop, flags, answer_of_all)
        kept, out = reached[: loop.carry], reached[loop.carry :]
        if self.by_elements and supports_elements(loop):
            outputs = scan_elements(loop, values, flags, kept)
            return [*map(_BatchedValue, outputs, reached)]
        consts, carry, rows = loop.parts(lanes)

        def step(carried, row):
            inputs = [
                *consts,
                *map(_BatchedValue, carried, kept),
                *map(_BatchedValue, row, (lane.batched for lane in rows)),
            ]
            outputs = self.evaluate(loop.body, inputs)
            following = self.settled(outputs[: loop.carry], kept)
            return following, [x.value for x in outputs[loop.carry :]]

        last, outputs = lax.scan(
            step,
            self.settled(carry, kept),
            [lane.value for lane in rows],
            length=loop.length,
            reverse=loop.reverse,
            unroll=loop.unroll,
        )
        return [*map(_BatchedValue, last, kept), *map(_BatchedValue, outputs, out)]

    def cond(self, eqn: Any, lanes: list[_BatchedValue]) -> list[_BatchedValue]:
        """One branch for all runs."""
        index, *operands = lanes
        flags = [lane.batched for lane in operands]
        out = reach_branches(eqn, flags, answer_of_all)

        def run(branch):
            return lambda *values: self.settled(
                self.evaluate(branch, [*map(_BatchedValue, values, flags)]), out
            )

        branches = [run(branch) for branch in branches_of(eqn) or ()]
        outputs = lax.switch(index.value, branches, *(x.value for x in operands))
        return [*map(_BatchedValue, outputs, out)]

    def settled(
        self, lanes: Sequence[_BatchedValue], batched: Sequence[bool]
    ) -> list[Any]:
        """The values, with the batch where it is to be."""
        pairs = zip(lanes, batched, strict=True)
        return [self.with_batch(lane) if wide else lane.value for lane, wide in pairs]

    def with_batch(self, lane: _BatchedValue) -> Array:
        if lane.batched:
            return lane.value
        value = jnp.asarray(lane.value)
        return jnp.broadcast_to(value[..., None], (*value.shape, self.size))


def _elementwise(eqn: Any, operands: Iterable[Array], size: int) -> Array:
    full = (*eqn.outvars[0].aval.shape, size)
    # A number beside arrays: its only axis is the batch.
    aligned = [
        lax.broadcast_in_dim(x, full, (len(full) - 1,)) if x.ndim == 1 else x
        for x in operands
    ]
    return bind(eqn, aligned)[0]


def _reshaped(eqn: Any, operands: Iterable[Array], size: int) -> Array:
    parameters, shape = eqn.params, eqn.outvars[0].aval.shape
    first, *others = operands
    match eqn.primitive.name:
        case "broadcast_in_dim":
            axes = (*parameters["broadcast_dimensions"], len(shape))
            return lax.broadcast_in_dim(first, (*shape, size), axes)
        case "concatenate":
            return lax.concatenate([first, *others], parameters["dimension"])
        case "transpose":
            axes = (*parameters["permutation"], len(shape))
            return lax.transpose(first, axes)
        case _:
            return lax.reshape(first, (*shape, size))
