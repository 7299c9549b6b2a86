"""One step of a solver: explicit Runge–Kutta steps, and how any solver steps."""

import math
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Inexact

from ..._linalg import matmul
from ..._primitives import AtOnce, HashablePartial, LinearMapRules, linear
from ..._types import PyTree
from ._splitting_solver import AbstractSplittingSolver


#: Numbers of a state up to which it is packed. Beyond it the copies cost more than
#: what a step spends between its operations.
_SMALL = 4096


def is_small(y: PyTree[Array]) -> bool:
    """Whether a step of this state costs by its operations, and not by its numbers."""
    return sum(leaf.size for leaf in jax.tree.leaves(y)) <= _SMALL


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


#: Stages that are written out. Of Dopri8's a loop takes 2.2 us a step of five bodies
#: for 1.8, as long in the gradient and 0.8 of it in a Jacobian, and is compiled in a
#: fifth to a tenth of the time: 0.16 s for 0.57, 0.33 for 2.0, 0.21 for 1.4.
_FEW_STAGES = 4


def is_explicit(solver: diffrax.AbstractSolver) -> bool:
    """Whether `explicit_step` serves `solver`."""
    return isinstance(solver, AbstractSplittingSolver) or is_runge_kutta(solver)


def is_runge_kutta(solver: diffrax.AbstractSolver) -> bool:
    """Whether `solver` is explicit, and one tableau says all of it."""
    if not isinstance(solver, diffrax.AbstractERK):
        return False
    # `HalfSolver` passes for what is in it, and has no tableau.
    return isinstance(getattr(solver, "tableau", None), diffrax.ButcherTableau)


def is_rolled(solver: Any) -> bool:
    """Whether stages of small states are a loop: of few ones it would be longer."""
    return is_runge_kutta(solver) and solver.tableau.num_stages > _FEW_STAGES


def explicit_step(
    solver, terms, t0: Array, length: Array, y: PyTree[Array], args, *, rolled=False
) -> PyTree[Array]:
    r"""One explicit step, $y_1 = y_0 + h\sum_i b_i k_i$.

    The same map as `solver.step`, without the error estimate and the dense output,
    none of which a fixed step needs. If `rolled` the stages are a loop, compiled in the
    time of one evaluation, which keeps all of their rates; else they are written out.
    """
    if isinstance(solver, AbstractSplittingSolver):
        return solver.advance(terms, t0, length, y, args)
    b = solver.tableau.b_sol
    # Stages behind the last one that the solution uses only estimate its error.
    used = int(np.flatnonzero(b)[-1]) + 1
    given = (solver, terms, t0, length, y, args)
    if rolled:
        return add_weighted_stages(y, b[:used], stage_rates(*given, used=used))
    return _linear_combination(y, b[:used], _unrolled_stages(*given, used))


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
    true, rates = _is_number(y), []
    for row, node in zip(*_tableau_rows(solver, used), strict=True):
        stage = _materialize(_linear_combination(y, row, rates), true)
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


def _is_number(y: PyTree[Array]) -> Array:
    """True as far as anybody but the compiler knows; false beside NaN."""
    some = [leaf for leaf in jax.tree.leaves(y) if leaf.size]
    if not some:
        return jnp.asarray(True)
    first = some[0].reshape(-1)[0]
    return first == first


def _materialize(y: PyTree[Array], true: Array) -> PyTree[Array]:
    """`y`, divided by 1.

    XLA works out a sum again wherever it is read, for every pair of bodies say, but a
    division once. It is exact, and Dopri8 of 5 bodies takes 1.9 instead of 6.6 us a
    step, its gradient 12 instead of 24.
    """
    return jax.tree.map(lambda a: a / true.astype(jnp.finfo(a.dtype).dtype), y)


def _linear_combination(y, weights: np.ndarray, rates: list) -> PyTree[Array]:
    for weight, rate in zip(weights.tolist(), rates, strict=True):
        if weight != 0:
            y = jax.tree.map(lambda a, b, w=weight: a + w * b, y, rate)
    return y


#: Numbers in all tangents of all rates from which on a product of matrices is faster.
#: Measured on one core, in µs, 13 rates of 60 numbers: 6 tangents 2.1 and 0.5, 70 of
#: them 37 and 6; of 30 numbers: 6 tangents 0.8 and 0.4. XLA's sums over an axis in the
#: middle take a number at a time.
_MANY = 1500


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
    least = max(2, -(-_MANY // max(size, 1)))
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
