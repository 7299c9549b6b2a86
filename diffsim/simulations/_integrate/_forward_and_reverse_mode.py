"""Forward- and reverse-mode differentiation of a run."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._primitives import LinearMapRules, custom_derivative, linear
from ..._jaxpr._tracing import closure_convert
from ..._types import PyTree
from ..._validation import is_traced


#: `run(adjoint, inputs)`: arrays, those without a derivative among them.
Run = Callable[[diffrax.AbstractAdjoint, PyTree], PyTree[Array]]


class Derivatives(NamedTuple):
    """First derivatives of a run that know it better than its code does.

    `push(inputs, outputs)` is the run made again, as a function of its inputs, given
    what a first one returned; `pull(build, moving, outputs, bars)` are cotangents of
    `moving` inputs, of which `build` makes all. Both return what `run` does, of which
    only the floating arrays count. `again` is `push` in every mode, for second
    derivatives; None where they are those of the run.
    """

    push: Callable[[PyTree, PyTree], PyTree]
    pull: Callable[[Callable, Sequence[Array], PyTree, PyTree], list[Array]]
    again: Callable[[PyTree, PyTree], PyTree] | None = None


def with_forward_and_reverse_mode(
    run: Run,
    inputs: PyTree,
    checkpoints: int | None = None,
    derivatives: Derivatives | None = None,
    value: Callable[[PyTree], PyTree[Array]] | None = None,
) -> PyTree[Array]:
    """`run`, differentiable in every mode and nesting.

    Its `value` may come from other code, which has no derivative.

    First derivatives are `derivatives`. Where there are none, tangents are carried
    along by `ForwardMode`, cotangents back by `RecursiveCheckpointAdjoint`. Second ones
    are by `DirectAdjoint`, which has every mode, but takes up to three times as long in
    reverse and more memory.
    """
    given, fixed = eqx.partition(inputs, eqx.is_array)
    arrays, structure = jax.tree.flatten(given)
    ends: list[Any] = []

    def whole(arrays):
        return eqx.combine(jax.tree.unflatten(structure, arrays), fixed)

    def flat(adjoint, *arrays):
        found, end = jax.tree.flatten(run(adjoint, whole(arrays)))
        ends.append(end)
        return found

    def evaluated(*arrays):
        if value is None:
            return flat(diffrax.ForwardMode(), *arrays)
        found, end = jax.tree.flatten(value(whole(arrays)))
        ends.append(end)
        return found

    opened, consts = closure_convert(evaluated, *arrays)
    if any(is_traced(const) for const in consts):
        # Dynamics that hide an array from their simulation, which no rule is told of.
        found = flat(diffrax.DirectAdjoint(), *arrays)
        return jax.tree.unflatten(ends[0], found)

    def tangent(outputs, known, tangents):
        moved = _Moved.of(outputs, tangents)
        exact = _derivatives_by_adjoints(moved, flat, *2 * [diffrax.DirectAdjoint()])
        if derivatives is None:
            adjoint = diffrax.RecursiveCheckpointAdjoint(checkpoints)
            first = _derivatives_by_adjoints(
                moved, flat, diffrax.ForwardMode(), adjoint
            )
        else:
            first = _derivatives_of_derivatives(moved, derivatives, whole, ends[0])
            known = [*known, *outputs]
            if derivatives.again is not None:
                exact = _derivatives_by_recorded_steps(
                    moved, derivatives.again, whole, ends[0]
                )
        return moved.tangents(LinearMapRules(*first, *exact), outputs, known, tangents)

    found = custom_derivative(lambda *x: opened(consts, *x), tangent, *arrays)
    return jax.tree.unflatten(ends[0], found)


class _Moved(NamedTuple):
    """The numbers of the inputs that move, of so many, and of the outputs that can."""

    size: int
    inputs: list[int]
    outputs: list[int]

    @classmethod
    def of(cls, outputs, tangents) -> "_Moved":
        floats = [jnp.issubdtype(y.dtype, jnp.floating) for y in outputs]
        return cls(
            len(tangents),
            [i for i, t in enumerate(tangents) if t is not None],
            [i for i, is_float in enumerate(floats) if is_float],
        )

    def with_selected_values(self, known, some) -> list:
        """Inputs that are `known`, with others in place of those that move."""
        every = list(known[: self.size])
        for i, x in zip(self.inputs, some, strict=True):
            every[i] = x
        return every

    def selected_values(self, known) -> list:
        """Those of the inputs that move."""
        return [known[i] for i in self.inputs]

    def tangents(self, maps: LinearMapRules, outputs, known, tangents) -> list:
        """Tangents of all outputs; None of those that have none."""
        steps, types = (
            self.selected_values(tangents),
            [jax.typeof(outputs[i]) for i in self.outputs],
        )
        found = linear(maps, known, steps, types)
        by_number = dict(zip(self.outputs, found, strict=True))
        return [by_number.get(i) for i in range(len(outputs))]


def _derivatives_by_adjoints(moved: _Moved, flat, forward, backward):
    """Tangents and cotangents by adjoints of Diffrax."""

    def run_of(adjoint, known):
        def run(*some):
            found = flat(adjoint, *moved.with_selected_values(known, some))
            return [found[i] for i in moved.outputs]

        return run, moved.selected_values(known)

    def push(known, steps):
        run, point = run_of(forward, known)
        return jax.jvp(run, point, list(steps))[1]

    def pull(known, bars):
        run, point = run_of(backward, known)
        return list(jax.vjp(run, *point)[1](list(bars)))

    return push, pull


def _derivatives_by_recorded_steps(moved: _Moved, again: Callable, whole, structure):
    """Tangents and cotangents of a run made `again`; outputs follow the inputs."""

    def run_of(known):
        seen = jax.tree.unflatten(structure, list(known[moved.size :]))

        def run(*some):
            found = jax.tree.leaves(
                again(whole(moved.with_selected_values(known, some)), seen)
            )
            return [found[i] for i in moved.outputs]

        return run, moved.selected_values(known)

    def push(known, steps):
        run, point = run_of(known)
        return jax.jvp(run, point, list(steps))[1]

    def pull(known, bars):
        run, point = run_of(known)
        return list(jax.vjp(run, *point)[1](list(bars)))

    return push, pull


def _derivatives_of_derivatives(
    moved: _Moved, derivatives: Derivatives, whole, structure
):
    """Tangents and cotangents by `derivatives`; outputs follow the inputs."""
    push, _ = _derivatives_by_recorded_steps(moved, derivatives.push, whole, structure)

    def pull(known, bars):
        def build(*some):
            return whole(moved.with_selected_values(known, some))

        of_outputs = dict(zip(moved.outputs, bars, strict=True))
        every = [of_outputs.get(i) for i in range(structure.num_leaves)]
        bars = jax.tree.unflatten(structure, every)
        seen = jax.tree.unflatten(structure, list(known[moved.size :]))
        return derivatives.pull(build, moved.selected_values(known), seen, bars)

    return push, pull
