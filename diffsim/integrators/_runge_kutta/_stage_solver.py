"""Solution of all stages of an implicit Runge–Kutta step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..._jaxpr._tracing import closure_convert
from ..._types import PyTree
from ...implicit import AbstractLinearSolver
from ._simplified_newton import (
    Tolerances,
    linear_solver_of,
    newton_of_every_stage,
    simplified_newton,
)
from ._tableau import (
    Tableau,
    add_scaled,
    empty_stages,
    rows,
    stacked_linear_combination,
    with_stage,
)


#: A factor is made anew where Newton's method gained less than a digit an iteration by
#: it, or the length of the step differs by more than this fraction from its own.
_SLOW, _OTHER_LENGTH = 0.1, 0.2


#: (consts, t, y) ↦ dy/dt.
Rate = Callable[[Any, Array, PyTree[Array]], PyTree[Array]]


class SplitVectorField(NamedTuple):
    """dy/dt = `implicit` + `explicit`, and what both depend on besides t and y.

    `explicit` is None where the whole field is implicit. `consts` are every array that
    the rates close over, parameters among them, so that a rule of derivatives is told
    of all of them.
    """

    implicit: Rate
    explicit: Rate | None
    consts: tuple[Any, Any]


def split_vector_field(
    terms, t: Array, y: PyTree[Array], args: Any, *, split: bool
) -> SplitVectorField:
    """The field of one term, or with `split` of an explicit and an implicit one."""
    if not split:
        rate, consts = _closed_rate(terms, t, y, args)
        return SplitVectorField(rate, None, (consts, ()))
    assert isinstance(terms, diffrax.MultiTerm)
    explicit, implicit = terms.terms
    rate, consts = _closed_rate(implicit, t, y, args)
    other, others = _closed_rate(explicit, t, y, args)
    return SplitVectorField(rate, other, (consts, others))


def step_length(terms, t0: Array, t1: Array) -> Array:
    """The length of the step, negative where it goes back in time."""
    return jnp.asarray(jax.tree.leaves(terms.contr(t0, t1))[0])


def _closed_rate(term, t: Array, y: PyTree[Array], args: Any) -> tuple[Rate, Any]:
    # By a control of one, under which several terms add up to their sum.
    unit = jax.tree.map(jnp.ones_like, term.contr(t, t))
    return closure_convert(lambda t, y: term.vf_prod(t, y, args, unit), t, y)


class JacobianFactor(eqx.Module):
    """Factor of 1 − γ h ∂f/∂y, the γ h it was made for, and its convergence rate.

    `rate` is the slowest of the last step; infinite where nothing was prepared yet.
    """

    prepared: Any
    length: Float[Array, ""]
    rate: Float[Array, ""]


class StageProblem(NamedTuple):
    """One step: from y at t over `span` of the clock, by `length` of the field.

    The two differ in sign where Diffrax turns a run round. `slope` and `explicit` are
    the slopes of the first stage.
    """

    field: SplitVectorField
    t: Array
    span: Array
    length: Array
    y: PyTree[Array]
    slope: PyTree[Array]
    explicit: PyTree[Array] | None


class StageSolutions(NamedTuple):
    """Implicit slopes of all stages, stacked, and whether every one converged."""

    slopes: PyTree[Array]
    factor: JacobianFactor
    converged: Bool[Array, ""]


def no_factor(
    linear_solver: AbstractLinearSolver, problem: StageProblem
) -> JacobianFactor:
    """A factor that no step uses, of the structure of all others."""
    shapes = jax.eval_shape(
        lambda: _prepare_factor(linear_solver, problem, problem.length)
    )
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    infinite = jnp.full_like(problem.length, jnp.inf)
    return JacobianFactor(zeros, jnp.zeros_like(problem.length), infinite)


def solve_stages(
    tableau: Tableau,
    linear_solver: AbstractLinearSolver,
    tolerances: Tolerances,
    problem: StageProblem,
    kept: JacobianFactor,
) -> StageSolutions:
    """All slopes, by the factor that was kept; by a new one where that does not do.

    At most one factor is made a step. If Newton's method fails with an old one, the
    step is tried again; if it fails with its own, the step is too long.
    """
    linear_solver = newton_of_every_stage(linear_solver)
    length = tableau.gamma * problem.length

    def attempt(carry):
        _, factor, _, renewed, _ = carry
        factor = jax.lax.cond(
            renewed,
            lambda: JacobianFactor(
                _prepare_factor(linear_solver, problem, length), length, factor.rate
            ),
            lambda: factor,
        )
        slopes, rate, converged = _solve_all_stages(
            tableau, linear_solver, tolerances, problem, factor
        )
        factor = JacobianFactor(factor.prepared, factor.length, rate)
        again = ~converged & ~renewed
        return slopes, factor, converged, again, again

    like = empty_stages(problem.slope, tableau.stages)
    change = jnp.abs(length - kept.length)
    used = (kept.rate <= _SLOW) & (change <= _OTHER_LENGTH * jnp.abs(kept.length))
    # A linear solver that prepares nothing is never out of date.
    renewed = ~used | (not jax.tree.leaves(kept.prepared))
    start = (like, kept, renewed & ~renewed, renewed, renewed | True)
    slopes, factor, converged, _, _ = jax.lax.while_loop(lambda c: c[4], attempt, start)
    return StageSolutions(slopes, factor, converged)


def _prepare_factor(
    linear_solver: AbstractLinearSolver, problem: StageProblem, length: Array
) -> PyTree:
    field, y = problem.field, problem.y

    def residual(k):
        z = add_scaled(y, length, k)
        rate = field.implicit(field.consts[0], problem.t, z)
        return jax.tree.map(jnp.subtract, k, rate)

    _, operator = jax.linearize(residual, jax.tree.map(jnp.zeros_like, y))
    return newton_of_every_stage(linear_solver).prepare(operator, y)


def _solve_all_stages(
    tableau: Tableau,
    linear_solver,
    tolerances,
    problem: StageProblem,
    factor: JacobianFactor,
):
    """One stage after another: slopes, the slowest rate, and whether all converged."""
    field, y, length = problem.field, problem.y, tableau.gamma * problem.length
    scale = 2 * factor.length / (factor.length + length)
    # Zero over zero at a step of no length, where no change needs correction.
    scale = jnp.where(length == factor.length, 1, scale)
    solve = linear_solver_of(linear_solver, factor.prepared, scale)

    def stage(carry, row):
        slopes, explicit, rate, converged = carry
        t = problem.t + row.nodes.astype(problem.t.dtype) * problem.span
        base = add_scaled(
            y, problem.length, stacked_linear_combination(row.implicit, slopes)
        )
        if explicit is not None:
            base = add_scaled(
                base, problem.length, stacked_linear_combination(row.explicit, explicit)
            )

        def point(k):
            return add_scaled(base, length, k)

        def residual(k):
            now = field.implicit(field.consts[0], t, point(k))
            return jax.tree.map(jnp.subtract, k, now)

        guess = stacked_linear_combination(row.predictor, slopes)
        solution = simplified_newton(residual, guess, point, solve, tolerances)
        slopes = with_stage(slopes, row.index, solution.slope)
        if explicit is not None:
            assert field.explicit is not None
            now = field.explicit(field.consts[1], t, point(solution.slope))
            explicit = with_stage(explicit, row.index, now)
        rate = jnp.maximum(rate, solution.rate.astype(rate.dtype))
        return (slopes, explicit, rate, converged & solution.converged), None

    every = rows(tableau)
    slopes = with_stage(empty_stages(problem.slope, tableau.stages), 0, problem.slope)
    explicit = problem.explicit
    if explicit is not None:
        explicit = with_stage(empty_stages(explicit, tableau.stages), 0, explicit)
    none = jnp.zeros_like(factor.rate)
    start = (slopes, explicit, none, none == 0)
    (slopes, _, rate, converged), _ = jax.lax.scan(stage, start, every)
    return slopes, rate, converged
