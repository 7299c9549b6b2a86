"""States at the beginnings of a few steps, with the derivative of the run to there."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._primitives import closure_convert, custom_derivative
from ..._types import PyTree
from ..._validation import is_traced
from .._integrate._run_plan import RunSpec


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
