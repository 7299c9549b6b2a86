"""One step of any solver, chosen once: `make_step`.

The loops over fixed and over adaptive steps, the replay of a run and the search for
events all step by an `AbstractStep`.
"""

import abc
import dataclasses
import math
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, cast, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Inexact

from ... import _tuning
from ..._jaxpr._materialize import divide_by_true, opaque_true
from ..._jaxpr._primitives import AtOnce, HashablePartial, LinearMapRules, linear
from ..._linalg import matmul
from ..._results import RESULTS
from ..._types import PyTree
from .._elapsed_time import OnClock
from .._terms._imex import AbstractIMEXTerm
from .._terms._operator_splitting import AbstractSplitFlows
from .._terms._semilinear import Semilinear
from ._splitting_solver import AbstractSplittingSolver, AbstractUnsynchronizedSolver


class Span(NamedTuple):
    """Where a step begins and, of its length and its end, the one that is exact.

    Fixed steps know their length, which is not the difference of two rounded times;
    adaptive ones know the time at which they end.
    """

    start: Array
    exact_length: Array | None
    exact_end: Array | None = None

    @property
    def length(self) -> Array:
        known = self.exact_length
        return self.end - self.start if known is None else known

    @property
    def end(self) -> Array:
        known = self.exact_end
        return self.start + self.length if known is None else known


class StepState(NamedTuple):
    """A state as steps hand it on, what the solver remembers, and whether one failed.

    The `result` is None where steps cannot fail or nobody reads it.
    """

    y: PyTree[Array]
    memory: Any = None
    result: Any = None


class Attempt(NamedTuple):
    """An adaptive step: where it leads, its error, and what an interpolant takes."""

    state: StepState
    error: PyTree[Array]
    dense: dict[str, Any]
    result: Any


class AbstractStep(eqx.Module):
    """One step of `solver` along `terms`, on states that may be packed."""

    solver: eqx.AbstractVar[Any]
    terms: eqx.AbstractVar[Any]
    args: eqx.AbstractVar[Any]
    packing: eqx.AbstractVar["Packing | None"]

    #: Whether a step of length zero is the identity, with nothing to remember.
    identity_at_zero: ClassVar[bool] = True

    def pack(self, y: PyTree[Array]) -> PyTree[Array]:
        return y if self.packing is None else self.packing.pack(y)

    def unpack(self, y: PyTree[Array]) -> PyTree[Array]:
        return y if self.packing is None else self.packing.unpack(y)

    def start(self, span: Span, y: PyTree[Array]) -> StepState:
        """Where a chain of steps begins, of which the first goes over `span`."""
        return self.start_packed(span, self.pack(y))

    def start_packed(self, span: Span, y: PyTree[Array]) -> StepState:
        """`start` from a state that is packed."""
        del span
        return StepState(y)

    @abc.abstractmethod
    def advance(self, state: StepState, span: Span) -> StepState:
        """The state behind a step."""

    def attempt(self, state: StepState, span: Span) -> Attempt:
        """A step with its error, of solvers that estimate one."""
        raise NotImplementedError

    def advance_on_grid(self, state: StepState, span: Span) -> StepState:
        """`advance`, by the one length that all steps of a run have."""
        return self.advance(state, span)

    def inside(self, state: StepState, span: Span) -> StepState:
        """The state at the end of `span`, to which a step of its own leads."""
        return self.advance(state, span)

    def retreat(self, state: StepState, before: Span) -> StepState:
        """The state before a step over `before`, of solvers that are time-symmetric."""
        return self.advance(state, Span(before.end, -before.length))

    def rolled_up(self) -> "AbstractStep":
        """The same step by the least code."""
        return self

    def state(self, state: StepState, span: Span) -> PyTree[Array]:
        """The state of the simulation where a step over `span` would begin."""
        del span
        return self.unpack(state.y)

    def single(self, t: Array, y: PyTree[Array], length: Array) -> PyTree[Array]:
        """The state `length` after y at t, by one step."""
        span = Span(t, length)
        after = self.advance(self.start(span, y), span)
        return self.state(after, Span(t + length, length))


Loop = Literal["fixed", "adaptive", "replay", "events"]


def make_step(
    solver: Any,
    terms: Any,
    args: Any,
    y0: PyTree[Array],
    loop: Loop,
    *,
    direction: Array | None = None,
    length: Array | None = None,
) -> AbstractStep:
    """How `loop` steps states like `y0`; no other place asks what kind a solver is.

    The adaptive loop gives terms on a clock that runs forwards and its `direction`, the
    fixed one the `length` of all its steps.
    """
    if isinstance(solver, AbstractUnsynchronizedSolver):
        return UnsynchronizedStep(solver, terms, args, solver.constants(args))
    if isinstance(solver, AbstractSplittingSolver) and is_ode_term(terms):
        return SplittingStep(solver, terms, args)
    small, solver = is_small(y0), cast(Any, solver)
    if is_runge_kutta(solver) and is_ode_term(terms) and (loop != "adaptive" or small):
        # A replay keeps many states, in one array each.
        packs = loop == "replay" or (small and loop != "events")
        many = solver.tableau.num_stages > _tuning.STAGES_WRITTEN_OUT
        return ExplicitStep(
            solver,
            terms.term if isinstance(terms, OnClock) else terms,
            args,
            Packing.of(y0) if packs else None,
            direction,
            rolled=small and many and loop != "events",
            remembers=loop == "adaptive" and solver.tableau.fsal,
        )
    # Diffrax's own loop over stages has no forward mode; a loop of JAX's own serves
    # where no derivative is taken of it.
    kinds = {"fixed": "bounded", "events": "bounded"}
    if is_runge_kutta(solver):
        kinds["adaptive"] = "lax"
    is_staged = isinstance(solver, diffrax.AbstractRungeKutta)
    if loop in kinds and is_staged and solver.scan_kind is None:
        solver = eqx.tree_at(
            lambda s: s.scan_kind, solver, kinds[loop], is_leaf=lambda x: x is None
        )
    if loop in ("adaptive", "replay"):
        packing = Packing.of(y0) if loop == "replay" else None
        return SolverStep(solver, terms, args, packing)
    prepared, untransformed = solver, None
    if isinstance(solver, SupportsPrecompute) and length is not None:
        prepared = solver.precompute(terms, length)
        if isinstance(terms, Semilinear) and terms.projection is not None:
            terms, untransformed = terms.transformed(), terms
    return SolverStep(solver, terms, args, None, untransformed, prepared)


def is_ode_term(terms: Any) -> bool:
    """Whether a step multiplies the vector field by its length, and no other control.

    A `ControlTerm` multiplies by something else, a `MultiTerm` by several.
    """
    term = terms.term if isinstance(terms, OnClock) else terms
    return isinstance(term, diffrax.ODETerm | AbstractSplitFlows | AbstractIMEXTerm)


def is_runge_kutta(solver: diffrax.AbstractSolver) -> bool:
    """Whether `solver` is explicit, and one tableau says all of it."""
    if not isinstance(solver, diffrax.AbstractERK):
        return False
    # `HalfSolver` passes for what is in it, and has no tableau.
    return isinstance(getattr(solver, "tableau", None), diffrax.ButcherTableau)


def memory_is_a_guess(solver: Any) -> bool:
    """Whether what a step leaves to the next one changes none of its digits."""
    return getattr(type(solver), "memory_is_a_guess", False)


def steps_to_outputs(solver: Any) -> bool:
    """Whether outputs inside of a step are by another one, of their own length.

    Which has the order of the solver, as no interpolant of those that there are.
    """
    return is_runge_kutta(solver) or memory_is_a_guess(solver)


class ExplicitStep(AbstractStep):
    """A step of an explicit Runge–Kutta solver.

    If `rolled` its stages are a loop. It `remembers` the last rate where that is the
    next first one.
    """

    solver: Any
    terms: Any
    args: Any
    packing: "Packing | None"
    direction: Array | None
    rolled: bool = eqx.field(static=True)
    remembers: bool = eqx.field(static=True)

    def start_packed(self, span: Span, y: PyTree[Array]) -> StepState:
        if not self.remembers:
            return StepState(y)
        one = jnp.ones_like(span.start)
        return StepState(y, self.vf_prod(span.start, y, self.args, one))

    def advance(self, state: StepState, span: Span) -> StepState:
        step = (self.solver, self, span.start, span.length, state.y, self.args)
        return StepState(runge_kutta_step(*step, rolled=self.rolled))

    def inside(self, state: StepState, span: Span) -> StepState:
        return self.rolled_up().advance(state, span)

    def rolled_up(self) -> "ExplicitStep":
        return dataclasses.replace(self, rolled=True)

    def attempt(self, state: StepState, span: Span) -> Attempt:
        tableau, y = self.solver.tableau, state.y
        rates = stage_rates(
            self.solver,
            self,
            span.start,
            span.length,
            y,
            self.args,
            used=tableau.num_stages,
            first=None if state.memory is None else span.length * state.memory,
        )
        error = add_weighted_stages(jnp.zeros_like(y), tableau.b_error, rates)
        y1 = add_weighted_stages(y, tableau.b_sol, rates)
        memory = None if state.memory is None else rates[-1] / span.length
        dense = {"y0": y, "y1": y1, "k": rates}
        return Attempt(StepState(y1, memory), error, dense, diffrax.RESULTS.successful)

    def vf_prod(self, t, y, args, length):
        """The rate of a packed state times the length of a step, as terms have it."""
        if self.direction is not None:
            # The loop's clock runs forwards.
            t = self.direction * t
            length = self.direction * length
        return self.pack(self.terms.vf_prod(t, self.unpack(y), args, length))


class SplittingStep(AbstractStep):
    """A step of a splitting method, which maps the state alone."""

    solver: AbstractSplittingSolver
    terms: Any
    args: Any
    packing: ClassVar[Any] = None

    def advance(self, state: StepState, span: Span) -> StepState:
        step = (self.terms, span.start, span.length, state.y, self.args)
        return StepState(self.solver.advance(*step))


class UnsynchronizedStep(AbstractStep):
    """A step of a solver that hands on a state of its own."""

    solver: AbstractUnsynchronizedSolver
    terms: Any
    args: Any
    #: What all steps need of the simulation.
    constants: Any
    packing: ClassVar[Any] = None

    def start_packed(self, span: Span, y: PyTree[Array]) -> StepState:
        return StepState(self.solver.enter(*self._arguments(y, span)))

    def advance(self, state: StepState, span: Span) -> StepState:
        return StepState(self.solver.forth(*self._arguments(state.y, span)))

    def retreat(self, state: StepState, before: Span) -> StepState:
        return StepState(self.solver.back(*self._arguments(state.y, before)))

    def state(self, state: StepState, span: Span) -> PyTree[Array]:
        return self.solver.leave(*self._arguments(state.y, span))

    def _arguments(self, z: PyTree[Array], span: Span):
        return self.constants, self.terms, span.start, span.length, z, self.args


@runtime_checkable
class SupportsPrecompute(Protocol):
    """A solver with something to work out for all steps of one length."""

    def precompute(self, terms: Any, length: Array) -> diffrax.AbstractSolver:
        """Itself, for dynamics and steps that are known."""
        ...


class SolverStep(AbstractStep):
    """A step as the solver itself takes it, `solver.step`."""

    solver: Any
    #: The dynamics of what steps hand on, the state or its transform.
    terms: Any
    args: Any
    packing: "Packing | None"
    #: The dynamics of the state where steps hand on its transform.
    untransformed: Semilinear | None = None
    #: The solver, told the one length of the steps on a grid.
    prepared: Any = None

    identity_at_zero: ClassVar[bool] = False

    def start_packed(self, span: Span, y: PyTree[Array]) -> StepState:
        inner = self.unpack(y)
        if self.untransformed is not None:
            y = inner = self.untransformed.forward(inner)
        step = (self.terms, span.start, span.end, inner, self.args)
        return StepState(y, self.solver.init(*step))

    def state(self, state: StepState, span: Span) -> PyTree[Array]:
        y = self.unpack(state.y)
        return y if self.untransformed is None else self.untransformed.backward(y)

    def advance(self, state: StepState, span: Span) -> StepState:
        return self._advance(self.solver, state, span)

    def advance_on_grid(self, state: StepState, span: Span) -> StepState:
        return self._advance(self.prepared, state, span)

    def _advance(self, solver: Any, state: StepState, span: Span) -> StepState:
        after, _, _, result = self._attempt(solver, state, span)
        # Of what cannot fail nothing is carried, and nothing worked out.
        if state.result is None or not result.is_traced():
            return after._replace(result=state.result)
        result = RESULTS.promote(result)
        failed = state.result != RESULTS.successful
        return after._replace(result=RESULTS.where(failed, state.result, result))

    def attempt(self, state: StepState, span: Span) -> Attempt:
        return self._attempt(self.solver, state, span)

    def inside(self, state: StepState, span: Span) -> StepState:
        if not is_runge_kutta(self.solver):
            return self._attempt(self.solver, state, span).state
        return ExplicitStep(
            self.solver,
            self.terms.term,
            self.args,
            None,
            self.terms.direction,
            rolled=False,
            remembers=False,
        ).advance(state, span)

    def _attempt(self, solver: Any, state: StepState, span: Span) -> Attempt:
        y, error, dense, memory, result = solver.step(
            self.terms,
            span.start,
            span.end,
            self.unpack(state.y),
            self.args,
            state.memory,
            jnp.asarray(False) if self.prepared is not None else False,
        )
        return Attempt(StepState(self.pack(y), memory), error, dense, result)


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


def runge_kutta_step(
    solver, terms, t0: Array, length: Array, y: PyTree[Array], args, *, rolled: bool
) -> PyTree[Array]:
    r"""One explicit step, $y_1 = y_0 + h\sum_i b_i k_i$.

    The same map as `solver.step`, without the error estimate and the dense output,
    none of which a fixed step needs. If `rolled` the stages are a loop, compiled in the
    time of one evaluation, which keeps all of their rates; else they are written out.
    """
    b = solver.tableau.b_sol
    # Stages behind the last one that the solution uses only estimate its error.
    used = int(np.flatnonzero(b)[-1]) + 1
    step = (solver, terms, t0, length, y, args)
    if rolled:
        return add_weighted_stages(y, b[:used], stage_rates(*step, used=used))
    return _linear_combination(y, b[:used], _unrolled_stages(*step, used))


def stage_rates(
    solver,
    terms,
    t0: Array,
    length: Array,
    y: PyTree[Array],
    args,
    *,
    used: int,
    first: PyTree[Array] | None = None,
) -> PyTree[Array]:
    """Rates times `length` of the first `used` stages, by a loop, on a leading axis.

    That of the `first` is worked out where it is not known.
    """
    rows, nodes = _tableau_rows(solver, used)
    matrix = np.stack([np.pad(row, (0, used - row.size)) for row in rows])
    kind = jnp.finfo(jnp.result_type(*jax.tree.leaves(y))).dtype

    def stage(rates, row):
        index, node, weights = row
        there = add_weighted_stages(y, weights, rates)
        new = terms.vf_prod(t0 + node * length, there, args, length)

        def put(a, b):
            return jax.lax.dynamic_update_index_in_dim(a, b, index, 0)

        return jax.tree.map(put, rates, new), None

    rates = jax.tree.map(lambda a: jnp.zeros((used, *a.shape), a.dtype), y)
    known = 0 if first is None else 1
    if first is not None:
        rates = jax.tree.map(lambda a, b: a.at[0].set(b), rates, first)
    table = (np.arange(used), np.asarray(nodes, kind), matrix.astype(kind))
    return jax.lax.scan(stage, rates, tuple(column[known:] for column in table))[0]


def _unrolled_stages(solver, terms, t0, length, y, args, used: int) -> list:
    true, rates = opaque_true(y), []
    for row, node in zip(*_tableau_rows(solver, used), strict=True):
        stage = divide_by_true(_linear_combination(y, row, rates), true)
        t = t0 + float(node) * length
        rates.append(terms.vf_prod(t, stage, args, length))
    return rates


def _tableau_rows(solver, used: int) -> tuple[list[np.ndarray], list[float]]:
    """Rows of the tableau, and the nodes, of the first stages."""
    tableau = solver.tableau
    rows, nodes = [np.zeros(0), *tableau.a_lower], [0.0, *tableau.c]
    return rows[:used], nodes[:used]


def add_weighted_stages(
    y: PyTree[Array], weights: Any, rates: PyTree[Array]
) -> PyTree[Array]:
    """`y` and the weighted sum of rates on a leading axis."""
    return jax.tree.map(
        lambda a, b: a + weighted_sum(jnp.asarray(weights, a.dtype), b), y, rates
    )


def _linear_combination(y, weights: np.ndarray, rates: list) -> PyTree[Array]:
    for weight, rate in zip(weights.tolist(), rates, strict=True):
        if weight != 0:
            y = jax.tree.map(lambda a, b, w=weight: a + w * b, y, rate)
    return y


@jax.custom_jvp
def weighted_sum(
    weights: Inexact[Array, " stage"], rates: Inexact[Array, "stage *state"]
) -> Inexact[Array, "*state"]:
    """The sum over stages of the rates, each times its weight."""
    # Not a dot, which is a call of its own in the loop.
    return jnp.sum(_batched_last(weights, rates) * rates, axis=0)


def _jvp(primals, tangents):
    weights, rates = primals
    found, (dweights, drates) = weighted_sum(*primals), tangents
    parts = []
    if not isinstance(drates, SymbolicZero):
        types = [jax.typeof(found)]
        parts += linear(_maps(rates.size), [weights], [drates], types)
    if not isinstance(dweights, SymbolicZero):
        parts.append(weighted_sum(dweights, rates))
    return found, sum(parts[1:], start=parts[0]) if parts else jnp.zeros_like(found)


weighted_sum.defjvp(_jvp, symbolic_zeros=True)


def _maps(size: int) -> LinearMapRules:
    least = max(2, -(-_tuning.TANGENTS_OF_RATES_BY_MATRIX // max(size, 1)))
    many = AtOnce(least, HashablePartial(_many_sums), HashablePartial(_many_outer))
    return LinearMapRules.plain(
        HashablePartial(_sum), HashablePartial(_outer), at_once=many, short=True
    )


def _sum(known, given) -> list[Array]:
    return [weighted_sum(known[0], given[0])]


def _outer(known, bars) -> list[Array]:
    (weights,), (bar,) = known, bars
    return [_batched_last(weights, bar[None]) * bar]


def _many_sums(known, given) -> list[Array]:
    (weights,), (rates,) = known, given
    count, _, *shape = rates.shape
    rows = jnp.broadcast_to(weights, (count, 1, weights.size))
    found = matmul(rows, rates.reshape(count, weights.size, -1))
    return [found.reshape(count, *shape)]


def _many_outer(known, bars) -> list[Array]:
    (weights,), (bar,) = known, bars
    return [_batched_last(weights, bar) * bar[:, None]]


def _batched_last(weights: Array, rates: Array) -> Inexact[Array, "stage ..."]:
    """The weights along the first of the axes of `rates`."""
    return weights.reshape(-1, *[1] * (rates.ndim - 1))
