"""ESDIRK step: stages as differentiable implicit equations."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..._types import PyTree
from ...implicit import (
    AbstractLinearSolver,
    ImplicitAdjoint,
    ImplicitEquation,
    implicit_solve,
)
from ._simplified_newton import Tolerances
from ._stage_solver import JacobianFactor, StageProblem, StageSolutions, solve_stages
from ._tableau import Tableau, add_scaled, linear_combination


class Step(NamedTuple):
    """Where a step led, its error estimate, all slopes, and what the next one needs.

    A step that failed leads nowhere: `y` is the state that it began with. `error` is
    None where the tableau has no estimate.
    """

    y: PyTree[Array]
    error: PyTree[Array] | None
    slopes: list[PyTree[Array]]
    explicit: list[PyTree[Array]]
    factor: JacobianFactor | None
    converged: Bool[Array, ""]
    length: Array


def esdirk_step(
    tableau: Tableau,
    linear_solver: AbstractLinearSolver,
    tolerances: Tolerances,
    problem: StageProblem,
    kept: JacobianFactor,
) -> Step:
    """The step, differentiable in everything that `problem` holds."""
    held = _stop_gradient((linear_solver, tolerances, problem, kept))
    solutions = solve_stages(tableau, *held)
    problem, solutions = _failed_as_zero_length(problem, solutions)
    slopes, explicit = _differentiable_stages(
        tableau, linear_solver, problem, solutions
    )
    return complete_step(tableau, problem, slopes, explicit, solutions)


def complete_step(
    tableau: Tableau, start: Any, slopes, explicit, solutions: Any
) -> Step:
    """The end of a step from the slopes of all stages.

    `start` has its `y` and `length`, `solutions` a `factor` and whether they converged.
    """
    change = linear_combination(tableau.weights, slopes)
    if explicit:
        assert tableau.explicit_weights is not None
        others = linear_combination(tableau.explicit_weights, explicit)
        change = jax.tree.map(jnp.add, change, others)
    return Step(
        add_scaled(start.y, start.length, change),
        _error(tableau, start.length, slopes, explicit),
        slopes,
        explicit,
        solutions.factor,
        solutions.converged,
        start.length,
    )


def _error(tableau: Tableau, length: Array, slopes, explicit) -> PyTree[Array] | None:
    if tableau.errors is None:
        return None
    error = linear_combination(tableau.errors, slopes)
    if explicit:
        error = jax.tree.map(
            jnp.add, error, linear_combination(tableau.errors, explicit)
        )
    return add_scaled(jax.tree.map(jnp.zeros_like, error), length, error)


def _stop_gradient(tree: PyTree) -> PyTree:
    """Stop gradients: nothing of the search's iterations is differentiated."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def _failed_as_zero_length(
    problem: StageProblem, solutions: StageSolutions
) -> tuple[StageProblem, StageSolutions]:
    """A failed step as one of no length.

    What Newton's method left behind may be anything, and its derivative NaN, which a
    step that is rejected would hand on: zero times NaN is NaN.
    """
    converged = solutions.converged
    span, length = (jnp.where(converged, a, 0) for a in (problem.span, problem.length))
    # The first slope stands in for what failed, and is differentiated as itself.
    slopes = jax.tree.map(
        lambda k, first: jnp.where(converged, k, jax.lax.stop_gradient(first)),
        solutions.slopes,
        problem.slope,
    )
    return problem._replace(span=span, length=length), solutions._replace(slopes=slopes)


def _differentiable_stages(
    tableau: Tableau,
    linear_solver: AbstractLinearSolver,
    problem: StageProblem,
    solutions: StageSolutions,
):
    """The slopes that were found, each as the root of its equation."""
    field, slopes, explicit = problem.field, [problem.slope], []
    if field.explicit is not None:
        explicit.append(problem.explicit)
    length = tableau.gamma * problem.length
    for i in range(1, tableau.stages):
        t = problem.t + float(tableau.nodes[i]) * problem.span
        change = linear_combination(tableau.implicit[i], slopes)
        if explicit:
            assert tableau.explicit is not None
            others = linear_combination(tableau.explicit[i], explicit)
            change = jax.tree.map(jnp.add, change, others)
        base = add_scaled(problem.y, problem.length, change)
        theta = field.consts[0], t, base, length
        equation = ImplicitEquation(_stage(field.implicit), theta, None, _guess_is_root)
        guess = jax.tree.map(lambda k, i=i: k[i], solutions.slopes)
        slope, _ = implicit_solve(equation, guess, ImplicitAdjoint(linear_solver))
        slopes.append(slope)
        if field.explicit is not None:
            z = add_scaled(base, length, slope)
            explicit.append(field.explicit(field.consts[1], t, z))
    return slopes, explicit


def _stage(rate):
    """k − f(t, base + γ h k), which vanishes."""

    def residual(k, theta):
        consts, t, base, length = theta
        now = rate(consts, t, add_scaled(base, length, k))
        return jax.tree.map(jnp.subtract, k, now)

    return residual


def _guess_is_root(how: Any, function, y, theta):
    """The root is the guess."""
    del how, function, theta
    return y, (), None
