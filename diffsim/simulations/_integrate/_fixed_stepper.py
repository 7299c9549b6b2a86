"""`Stepper`: one fixed step of any solver."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import RESULTS
from ..._types import PyTree
from .._elapsed_time import Epoch
from .._method import with_root_tolerances
from .._simulation import AbstractSimulation
from .._terms._operator_splitting import AbstractSplitFlows
from .._terms._semilinear import Semilinear
from .._terms._term_checks import is_ode_term
from ._splitting_solver import AbstractUnsynchronizedSolver
from ._step import (
    PackedTerm,
    Packing,
    explicit_step,
    is_explicit,
    is_rolled,
    is_runge_kutta,
    is_small,
)


class Carry(NamedTuple):
    """State carried from step to step; `Stepper.state` knows what y stands for."""

    y: PyTree[Array]
    solver_state: Any
    result: Any


@runtime_checkable
class SupportsPrecompute(Protocol):
    """A solver with something to work out for all steps of one length."""

    def precompute(self, terms: Any, length: Array) -> diffrax.AbstractSolver:
        """Itself, for dynamics and steps that are known."""
        ...


class Stepper(eqx.Module):
    """Steps `simulation` by `solver` on the grid `begin + n step`; `step` has a sign.

    Times are those elapsed since the epoch. The time of a step is a product, not a sum
    of steps; explicit steps are given their length, which is not the difference of two
    rounded times.
    """

    #: The dynamics of what steps hand on, the state or its transform.
    terms: PyTree[diffrax.AbstractTerm]
    #: Those of the state if steps hand on its transform.
    outer: Semilinear | None
    simulation: AbstractSimulation
    solver: diffrax.AbstractSolver
    #: The same, told the length of its steps where it wants to know.
    prepared: diffrax.AbstractSolver
    begin: Array
    #: Of the state in the carry of explicit steps; None where it is as given.
    packing: Packing | None
    #: Whether the stages of explicit steps are a loop.
    rolled: bool
    #: What steps need that hand on a state of their own; None of all others.
    constants: Any
    step: float = eqx.field(static=True)

    def __init__(self, simulation, solver, epoch: Epoch, step: float, y0=None):
        # Once a run: what terms work out from the parameters stays out of the loop.
        solver = with_root_tolerances(solver, epoch.dtype)
        self.terms, self.outer = epoch.shift(simulation.terms()), None
        self.simulation = simulation
        self.solver = self.prepared = solver
        self.begin = epoch.zero
        self.step = step
        small = y0 is not None and is_small(y0)
        packing = Packing.of(y0) if small and is_runge_kutta(solver) else None
        self.packing = None if packing is None or packing.single else packing
        self.rolled = small and is_rolled(solver)
        self.constants = None
        if isinstance(solver, AbstractUnsynchronizedSolver):
            self.constants = solver.constants(simulation)
        if isinstance(solver, SupportsPrecompute):
            self.prepared = solver.precompute(
                self.terms, jnp.full_like(self.begin, step)
            )
            if isinstance(self.terms, Semilinear) and self.terms.projection is not None:
                self.outer, self.terms = self.terms, self.terms.transformed()

    @property
    def explicit(self) -> bool:
        """Whether `explicit_step` takes the steps."""
        return is_explicit(self.solver) and is_ode_term(self.terms)

    def start(self, y: PyTree[Array], n=0, length=None) -> Carry:
        """Before the first step, at grid point `n`, of another length if given."""
        if isinstance(self.solver, AbstractUnsynchronizedSolver):
            return Carry(self.solver.enter(*self._inner(y, n, length)), None, None)
        if self.explicit:
            y = y if self.packing is None else self.packing.pack(y)
            return Carry(y, None, None)
        y = y if self.outer is None else self.outer.forward(y)
        t0, length = self.time(n), jnp.full_like(self.begin, self.step)
        state = self.solver.init(self.terms, t0, t0 + length, y, self.simulation)
        carry = Carry(y, state, RESULTS.successful)
        may_fail: list[bool] = []

        def after():
            # Asked inside: what comes out is a shape, which is never traced.
            found = self.advance(carry, 0, length)
            may_fail.append(found.result.is_traced())
            return found.y

        eqx.filter_eval_shape(after)
        return carry if may_fail[0] else carry._replace(result=None)

    def state(self, carry: Carry, n, length=None) -> PyTree[Array]:
        """The state of the simulation at grid point `n`, after steps of `length`."""
        if isinstance(self.solver, AbstractUnsynchronizedSolver):
            return self.solver.leave(*self._inner(carry.y, n, length))
        if self.explicit and self.packing is not None:
            return self.packing.unpack(carry.y)
        return carry.y if self.outer is None else self.outer.backward(carry.y)

    def off_grid_state(
        self, t: Array, y: PyTree[Array], length: Array, *, rolled: bool = False
    ) -> PyTree[Array]:
        """The state `length` after `y` at `t`, which need not be on the grid.

        If `rolled`, an explicit step is a loop over its stages.
        """
        there = eqx.tree_at(lambda s: s.begin, self, t)
        if rolled:
            there = eqx.tree_at(lambda s: s.rolled, there, True)
        after = there.advance(there.start(y, length=length), 0, length)
        # Grid point 1 is not there, but a state that needs its time is.
        end = eqx.tree_at(lambda s: s.begin, there, t + length)
        return end.state(after, 0, length)

    def time(self, n) -> Array:
        """Time of grid point `n`."""
        return self.begin + jnp.asarray(n, self.begin.dtype) * self.step

    def advance(self, carry: Carry, n, length=None) -> Carry:
        """A step from grid point `n`, of another length than `step` if given."""
        step = self._advanced
        # What a step searched for is stored: it took longer to find than memory takes.
        if self.simulation.rematerialize_steps and carry.result is None:
            step = eqx.filter_checkpoint(step, prevent_cse=False)
        return step(carry, n, length)

    def retreat(self, carry: Carry, n, before, length) -> Carry:
        """From grid point `n` back to the one `before`: a step of `length` undone.

        Of explicit solvers that are time-symmetric.
        """
        if isinstance(self.solver, AbstractUnsynchronizedSolver):
            given = self._inner(carry.y, before, length)
            return carry._replace(y=self.solver.back(*given))
        return self.advance(carry, n, -length)

    def _inner(self, y: PyTree[Array], n, length):
        """The arguments of solvers that hand on a state of their own."""
        length = self.step if length is None else length
        length = jnp.asarray(length, self.begin.dtype)
        return self.constants, self.terms, self.time(n), length, y, self.simulation

    def _advanced(self, carry: Carry, n, length) -> Carry:
        solver = self.prepared if length is None else self.solver
        length = self.step if length is None else length
        length = jnp.asarray(length, self.begin.dtype)
        terms, t0, args = self.terms, self.time(n), self.simulation
        if isinstance(solver, AbstractUnsynchronizedSolver):
            given = (self.constants, terms, t0, length, carry.y, args)
            return carry._replace(y=solver.forth(*given))
        if self.explicit:
            if self.packing is not None:
                terms = PackedTerm(terms, self.packing)
            given = (self.solver, terms, t0, length, carry.y, args)
            y = explicit_step(*given, rolled=self.rolled)
            return carry._replace(y=y)
        y, _, _, state, result = _differentiable(solver).step(
            terms,
            t0,
            t0 + length,
            carry.y,
            args,
            carry.solver_state,
            jnp.asarray(False),
        )
        # Of what cannot fail nothing is carried, and nothing worked out.
        if carry.result is None or not result.is_traced():
            return Carry(y, state, carry.result)
        result = RESULTS.promote(result)
        failed = carry.result != RESULTS.successful
        return Carry(y, state, RESULTS.where(failed, carry.result, result))


def with_closures(stepper: Stepper, y0: PyTree[Array]) -> Stepper:
    """`stepper` with what its terms close over as leaves of the terms.

    A derivative rule knows only its arguments; `lambda t, x, args: -self.k * x`
    would hide `self.k` from it.
    """
    if not isinstance(stepper.terms, AbstractSplitFlows):
        return stepper
    terms = stepper.terms.with_closures_as_leaves(stepper.begin, y0, stepper.simulation)
    return eqx.tree_at(lambda s: s.terms, stepper, terms)


def _differentiable(solver: diffrax.AbstractSolver) -> diffrax.AbstractSolver:
    """`solver` with stage loops that have forward as well as reverse mode.

    Diffrax's default loop over stages is reverse-only; `DirectAdjoint` makes the same
    exchange.
    """
    if isinstance(solver, diffrax.AbstractRungeKutta) and solver.scan_kind is None:
        return eqx.tree_at(
            lambda s: s.scan_kind, solver, "bounded", is_leaf=lambda x: x is None
        )
    return solver
