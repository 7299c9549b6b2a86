"""Forward and reverse mode of a run, each by the adjoint that is best at it."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._checks import is_traced
from .._primitives import Maps, hoisted, linear, sealed


#: `run(adjoint, inputs)`: arrays, those without a derivative among them.
Run = Callable[[diffrax.AbstractAdjoint, PyTree], PyTree[Array]]


def in_both_modes(
    run: Run, inputs: PyTree, checkpoints: int | None = None
) -> PyTree[Array]:
    """`run`, differentiable in every mode and nesting.

    Tangents are carried along by `ForwardMode`, cotangents back by
    `RecursiveCheckpointAdjoint`; second derivatives are by `DirectAdjoint`, which has
    every mode, but takes up to three times as long in reverse and more memory.
    """
    given, fixed = eqx.partition(inputs, eqx.is_array)
    arrays, structure = jax.tree.flatten(given)
    ends: list[Any] = []

    def flat(adjoint, *arrays):
        given = jax.tree.unflatten(structure, arrays)
        found, end = jax.tree.flatten(run(adjoint, eqx.combine(given, fixed)))
        ends.append(end)
        return found

    value, consts = hoisted(lambda *x: flat(diffrax.ForwardMode(), *x), *arrays)
    if any(is_traced(const) for const in consts):
        # Dynamics that hide an array from their simulation, which no rule is told of.
        found = flat(diffrax.DirectAdjoint(), *arrays)
    else:

        def tangent(outputs, known, tangents):
            return _tangent(flat, checkpoints, outputs, known, tangents)

        found = sealed(lambda *x: value(consts, *x), tangent, *arrays)
    return jax.tree.unflatten(ends[0], found)


def _tangent(flat, checkpoints, outputs, known, tangents):
    moving = [i for i, t in enumerate(tangents) if t is not None]
    floats = [i for i, y in enumerate(outputs) if jnp.issubdtype(y.dtype, jnp.floating)]

    def along(adjoint, known):
        """The run as a function of what moves, and only what can move of it."""

        def moved(*some):
            every = list(known)
            for i, x in zip(moving, some, strict=True):
                every[i] = x
            found = flat(adjoint, *every)
            return [found[i] for i in floats]

        return moved, [known[i] for i in moving]

    def push(adjoint):
        def pushed(known, steps):
            moved, point = along(adjoint, known)
            return jax.jvp(moved, point, list(steps))[1]

        return pushed

    def pull(adjoint):
        def pulled(known, bars):
            moved, point = along(adjoint, known)
            return list(jax.vjp(moved, *point)[1](list(bars)))

        return pulled

    exact = diffrax.DirectAdjoint()
    maps = Maps(
        push(diffrax.ForwardMode()),
        pull(diffrax.RecursiveCheckpointAdjoint(checkpoints)),
        push(exact),
        pull(exact),
    )
    steps, types = (
        [tangents[i] for i in moving],
        [jax.typeof(outputs[i]) for i in floats],
    )
    found = dict(zip(floats, linear(maps, known, steps, types), strict=True))
    return [found.get(i) for i in range(len(outputs))]
