"""One step of an adaptive run: its end, its error and what is between."""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ._explicit import is_runge_kutta, stage_rates, weighted
from ._packing import Packing, is_small


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

    def memory(self, t: Array, end: Array, y: Array) -> Any:
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
        error = weighted(jnp.zeros_like(y), tableau.b_error, rates)
        there = weighted(y, tableau.b_sol, rates)
        dense = {"y0": y, "y1": there, "k": rates}
        kept = None if memory is None else rates[-1] / length
        return Stepped(there, error, dense, kept, diffrax.RESULTS.successful)

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

    def memory(self, t: Array, end: Array, y: PyTree[Array]) -> Any:
        return self.solver.init(self.terms, t, end, y, self.args)

    def step(self, t: Array, end: Array, y: PyTree[Array], memory: Any) -> Stepped:
        given = (self.terms, t, end, y, self.args, memory)
        return Stepped(*self.solver.step(*given, made_jump=False))


def steps_of(solver: Any, terms: OnClock, args: Any, y0: PyTree[Array]) -> Any:
    """How `solver` steps such a state."""
    if is_runge_kutta(solver) and is_small(y0):
        return PackedSteps(solver, terms, args, Packing.of(y0))
    if is_runge_kutta(solver) and solver.scan_kind is None:
        # Its stages in a loop of JAX's own: no derivative is taken of it.
        solver = eqx.tree_at(
            lambda s: s.scan_kind, solver, "lax", is_leaf=lambda x: x is None
        )
    return DiffraxSteps(solver, terms, args)
