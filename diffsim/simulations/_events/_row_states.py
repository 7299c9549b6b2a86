"""Rows of a log: those that were taken are asked, of a few the derivative is known."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

# For loops that write into large arrays, which `lax.while_loop` copies under `vmap`.
from equinox import internal as loops
from jaxtyping import Array, Int

from ... import _tuning
from ..._jaxpr._primitives import custom_derivative
from ..._jaxpr._tracing import closure_convert
from ..._types import PyTree
from ..._validation import is_traced
from .._integrate._plan import RunSpec


def of_rows_taken(
    function: Callable[..., PyTree[Array]], rows: PyTree[Array], count: Int[Array, ""]
) -> PyTree[Array]:
    """`function(*row)` of the first `count` rows and zeros behind, without derivative.

    A log has room for all steps that there may be, of which most are not taken: of
    65536 rows the conditions of three planets take twice as long as 2757 steps do.
    """
    first = jax.tree.map(lambda a: a[0], rows)
    opened, consts = closure_convert(function, *first)
    # On which side of zero a condition is has no derivative, and the loop has none in
    # reverse. What the function closes over is held too, hidden from its simulation or
    # not.
    consts, rows = jax.lax.stop_gradient((consts, rows))
    size = jax.tree.leaves(rows)[0].shape[0]
    width = min(_tuning.ROWS_TOGETHER, size)
    blocks = -(-size // width)

    def one_more(carry):
        k, found = carry
        places = jnp.minimum(k * width + jnp.arange(width), size - 1)
        some = jax.tree.map(lambda a: a[places], rows)
        here = jax.tree.leaves(jax.vmap(lambda *row: opened(consts, *row))(*some))
        pairs = zip(found, here, strict=True)
        return k + 1, [a.at[k].set(b) for a, b in pairs]

    shapes, structure = jax.tree.flatten(jax.eval_shape(function, *first))
    empty = [jnp.zeros((blocks, width, *x.shape), x.dtype) for x in shapes]
    _, found = loops.while_loop(
        lambda carry: carry[0] * width < count,
        one_more,
        (jnp.zeros_like(count), empty),
        max_steps=blocks,
        buffers=lambda carry: carry[1],
        kind="lax",
    )
    whole = [a.reshape(-1, *a.shape[2:])[:size] for a in found]
    return jax.tree.unflatten(structure, whole)


def with_derivative_of(
    values: PyTree[Array], function: Callable[[PyTree], PyTree[Array]], inputs: PyTree
) -> PyTree[Array]:
    """`values`, which `function(inputs)` would return, with its derivative.

    The function is run where there is one. The derivative of all steps of a run, a few
    of which matter, would take their memory for every parameter.
    """
    given, fixed = eqx.partition(inputs, eqx.is_array)
    arrays, structure = jax.tree.flatten(given)
    known, kinds = jax.tree.flatten(values)
    count = len(known)

    def outputs(*arrays):
        # What JAX knows of them may come back as NumPy's.
        arrays = [jnp.asarray(x) for x in arrays]
        inputs = eqx.combine(jax.tree.unflatten(structure, arrays), fixed)
        return jax.tree.leaves(function(inputs))

    def tangent(found: Any, every: Any, tangents: Any):
        del found
        arrays, moves = every[count:], tangents[count:]
        which = [i for i, move in enumerate(moves) if move is not None]
        if not which:
            return [None] * count

        def of_some(*some):
            inputs = list(arrays)
            for i, x in zip(which, some, strict=True):
                inputs[i] = x
            return outputs(*inputs)

        point, steps = ([x[i] for i in which] for x in (arrays, moves))
        return jax.jvp(of_some, point, steps)[1]

    found = custom_derivative(lambda *x: list(x[:count]), tangent, *known, *arrays)
    return jax.tree.unflatten(kinds, found)


def hides_arrays(request: RunSpec) -> bool:
    """Whether the dynamics close over what is traced, which no rule is told of."""
    given, fixed = eqx.partition(request, eqx.is_array)

    def rate(given):
        simulation, _, epoch, _, begin, y0, _ = eqx.combine(given, fixed)
        return epoch.shift(simulation.terms()).vf(begin, y0, simulation)

    _, consts = closure_convert(rate, given)
    return any(map(is_traced, consts))
