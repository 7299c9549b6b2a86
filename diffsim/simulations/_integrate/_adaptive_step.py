"""One adaptive step: new state, error estimate and interpolant."""

import math
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ... import _tuning
from ..._types import PyTree
from ._explicit_step import (
    add_weighted_stages,
    explicit_step,
    is_runge_kutta,
    stage_rates,
)


def is_small(y: PyTree[Array]) -> bool:
    """Whether a step of this state costs by its operations, and not by its numbers."""
    return sum(leaf.size for leaf in jax.tree.leaves(y)) <= _tuning.PACKED_NUMBERS


class Packing(eqx.Module):
    """How the leaves of a state lie in one array.

    A step does the same with every leaf, and on a CPU what counts in small states is
    how many operations there are: a step of Dopri8 of five bodies takes 2.2 us of one
    array (6, body), 10 of positions and velocities. Leaves that differ in their first
    axis alone are put on top of each other, others end to end.
    """

    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, y: PyTree[Array]) -> "Packing":
        """The packing of a state."""
        leaves, structure = jax.tree.flatten(y)
        return cls(structure, tuple(leaf.shape for leaf in leaves))

    @property
    def single(self) -> bool:
        """Whether the state is one array as it is."""
        return len(self.shapes) == 1

    def pack(self, y: PyTree[Array]) -> Array:
        """`y` in one array."""
        leaves = self.structure.flatten_up_to(y)
        if self.single:
            return leaves[0]
        if not self._stacked:
            leaves = [leaf.reshape(-1) for leaf in leaves]
        return jnp.concatenate(leaves)

    def unpack(self, packed: Array) -> PyTree[Array]:
        """The state that is packed."""
        if self.single:
            return jax.tree.unflatten(self.structure, [packed])
        leaves, start = [], 0
        for shape in self.shapes:
            length = shape[0] if self._stacked else math.prod(shape)
            leaves.append(packed[start : start + length].reshape(shape))
            start += length
        return jax.tree.unflatten(self.structure, leaves)

    @property
    def _stacked(self) -> bool:
        return all(self.shapes) and len({shape[1:] for shape in self.shapes}) == 1


class PackedTerm(eqx.Module):
    """The rate of a packed state, as explicit steps ask for it."""

    terms: Any
    packing: Packing

    def vf_prod(self, t, y, args, control):
        """The rate times the length of a step."""
        y = self.packing.unpack(y)
        return self.packing.pack(self.terms.vf_prod(t, y, args, control))


class OnClock(diffrax.AbstractTerm):
    """A term on a clock that runs forwards, as `diffeqsolve` makes one."""

    term: Any
    direction: Array

    def vf(self, t, y, args):
        return self.term.vf(self.direction * t, y, args)

    def contr(self, t0, t1, **options):
        onward = self.direction == 1
        start, end = jnp.where(onward, t0, -t1), jnp.where(onward, t1, -t0)
        found = self.term.contr(start, end, **options)
        return jax.tree.map(lambda c: self.direction * c, found)

    def prod(self, vf, control):
        return self.term.prod(vf, control)

    def vf_prod(self, t, y, args, control):
        return self.term.vf_prod(self.direction * t, y, args, control)


class Stepped(NamedTuple):
    """A step: the state at its end, its error, what an interpolant takes, and more.

    `memory` is what it leaves to the next one.
    """

    y: PyTree[Array]
    error: PyTree[Array]
    dense: dict[str, Any]
    memory: Any
    result: Any


class PackedSteps(NamedTuple):
    """Steps of an explicit solver, of a small state in one array, stages in a loop."""

    solver: Any
    terms: OnClock
    args: Any
    packing: Packing

    def packed(self, y: PyTree[Array]) -> Array:
        return self.packing.pack(y)

    def unpacked(self, y: Array) -> PyTree[Array]:
        return self.packing.unpack(y)

    def memory(self, t: Array, end: Array, y: Array) -> Array | None:
        """The rate at the start, for solvers whose last stage is the next first one."""
        fresh = self.solver.tableau.fsal
        return self.vf_prod(t, y, self.args, jnp.ones_like(t)) if fresh else None

    def step(self, t: Array, end: Array, y: Array, memory: Any) -> Stepped:
        tableau, length = self.solver.tableau, end - t
        rates = stage_rates(
            self.solver,
            self,
            t,
            length,
            y,
            self.args,
            used=tableau.num_stages,
            first=None if memory is None else length * memory,
        )
        error = add_weighted_stages(jnp.zeros_like(y), tableau.b_error, rates)
        there = add_weighted_stages(y, tableau.b_sol, rates)
        dense = {"y0": y, "y1": there, "k": rates}
        kept = None if memory is None else rates[-1] / length
        return Stepped(there, error, dense, kept, diffrax.RESULTS.successful)

    def inside(self, t: Array, there: Array, y: Array, memory: Any) -> Array:
        """The state at a time `there`, by a step of its own from `t`."""
        del memory
        return explicit_step(self.solver, self, t, there - t, y, self.args, rolled=True)

    def vf_prod(self, t, y, args, control):
        """As a term of packed states."""
        y, control = self.packing.unpack(y), self.terms.direction * control
        return self.packing.pack(self.terms.vf_prod(t, y, args, control))


class DiffraxSteps(NamedTuple):
    """Steps as a solver takes them."""

    solver: Any
    terms: OnClock
    args: Any

    def packed(self, y: PyTree[Array]) -> PyTree[Array]:
        return y

    def unpacked(self, y: PyTree[Array]) -> PyTree[Array]:
        return y

    def memory(self, t: Array, end: Array, y: PyTree[Array]) -> PyTree:
        return self.solver.init(self.terms, t, end, y, self.args)

    def step(self, t: Array, end: Array, y: PyTree[Array], memory: Any) -> Stepped:
        given = (self.terms, t, end, y, self.args, memory)
        return Stepped(*self.solver.step(*given, made_jump=False))

    def inside(
        self, t: Array, there: Array, y: PyTree[Array], memory: Any
    ) -> PyTree[Array]:
        """The state at a time `there`, by a step of its own from `t`."""
        if is_runge_kutta(self.solver):
            given = (self.terms, t, there - t, y, self.args)
            return explicit_step(self.solver, *given)
        return self.step(t, there, y, memory).y


def steps_to_outputs(solver: Any) -> bool:
    """Whether outputs inside of a step are by another one, of their own length.

    Which has the order of the solver, as no interpolant of those that there are.
    """
    return is_runge_kutta(solver) or memory_is_a_guess(solver)


def memory_is_a_guess(solver: Any) -> bool:
    """Whether what a step leaves to the next one changes none of its digits."""
    return getattr(type(solver), "memory_is_a_guess", False)


def make_stepper(
    solver: Any, terms: OnClock, args: Any, y0: PyTree[Array]
) -> PackedSteps | DiffraxSteps:
    """How `solver` steps such a state."""
    if is_runge_kutta(solver) and is_small(y0):
        return PackedSteps(solver, terms, args, Packing.of(y0))
    if is_runge_kutta(solver) and solver.scan_kind is None:
        # Its stages in a loop of JAX's own: no derivative is taken of it.
        solver = eqx.tree_at(
            lambda s: s.scan_kind, solver, "lax", is_leaf=lambda x: x is None
        )
    return DiffraxSteps(solver, terms, args)
