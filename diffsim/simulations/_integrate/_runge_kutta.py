"""Stages of explicit Runge–Kutta steps, and their weighted sums."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Inexact

from ... import _tuning
from ..._jaxpr._materialize import divide_by_true, opaque_true
from ..._jaxpr._primitives import AtOnce, HashablePartial, LinearMapRules, linear
from ..._linalg import matmul
from ..._types import PyTree


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
