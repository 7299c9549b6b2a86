"""One step with its derivative: stages as implicit equations, found beforehand."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from ...implicit import AbstractLinearSolver, ImplicitEquation, Rule, solved
from ._simplified_newton import Tolerances
from ._stage_solver import JacobianFactor, StageProblem, StageSolutions, slopes_found
from ._tableau import Tableau, combined, shifted


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
    good: Bool[Array, ""]
    length: Array


def stepped(
    tableau: Tableau,
    linear: AbstractLinearSolver,
    tolerances: Tolerances,
    problem: StageProblem,
    kept: JacobianFactor,
) -> Step:
    """The step, differentiable in everything that `problem` holds."""
    found = slopes_found(tableau, *_held((linear, tolerances, problem, kept)))
    problem, found = _harmless(problem, found)
    slopes, explicit = _attached(tableau, linear, problem, found)
    return completed(tableau, problem, slopes, explicit, found)


def completed(tableau: Tableau, start: Any, slopes, explicit, found: Any) -> Step:
    """The end of a step from the slopes of all stages.

    `start` has its `y` and `length`, `found` its `factor` and whether it is `good`.
    """
    change = combined(tableau.weights, slopes)
    if explicit:
        assert tableau.explicit_weights is not None
        others = combined(tableau.explicit_weights, explicit)
        change = jax.tree.map(jnp.add, change, others)
    return Step(
        shifted(start.y, start.length, change),
        _error(tableau, start.length, slopes, explicit),
        slopes,
        explicit,
        found.factor,
        found.good,
        start.length,
    )


def _error(tableau: Tableau, length: Array, slopes, explicit) -> PyTree[Array] | None:
    if tableau.errors is None:
        return None
    error = combined(tableau.errors, slopes)
    if explicit:
        error = jax.tree.map(jnp.add, error, combined(tableau.errors, explicit))
    return shifted(jax.tree.map(jnp.zeros_like, error), length, error)


def _held(given: Any) -> Any:
    """What the search is told: nothing of its iterations is differentiated."""
    arrays, rest = eqx.partition(given, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def _harmless(
    problem: StageProblem, found: StageSolutions
) -> tuple[StageProblem, StageSolutions]:
    """A failed step as one of no length.

    What Newton's method left behind may be anything, and its derivative NaN, which a
    step that is rejected would hand on: zero times NaN is NaN.
    """
    good = found.good
    span, length = (jnp.where(good, a, 0) for a in (problem.span, problem.length))
    # The first slope stands in for what failed, and is differentiated as itself.
    slopes = jax.tree.map(
        lambda k, first: jnp.where(good, k, jax.lax.stop_gradient(first)),
        found.slopes,
        problem.slope,
    )
    return problem._replace(span=span, length=length), found._replace(slopes=slopes)


def _attached(
    tableau: Tableau,
    linear: AbstractLinearSolver,
    problem: StageProblem,
    found: StageSolutions,
):
    """The slopes that were found, each as the root of its equation."""
    field, slopes, explicit = problem.field, [problem.slope], []
    if field.explicit is not None:
        explicit.append(problem.explicit)
    length = tableau.gamma * problem.length
    for i in range(1, tableau.stages):
        t = problem.t + float(tableau.nodes[i]) * problem.span
        change = combined(tableau.implicit[i], slopes)
        if explicit:
            assert tableau.explicit is not None
            others = combined(tableau.explicit[i], explicit)
            change = jax.tree.map(jnp.add, change, others)
        base = shifted(problem.y, problem.length, change)
        theta = field.consts[0], t, base, length
        equation = ImplicitEquation(_stage(field.implicit), theta, None, _known)
        guess = jax.tree.map(lambda k, i=i: k[i], found.slopes)
        slope, _ = solved(equation, guess, Rule(linear=linear))
        slopes.append(slope)
        if field.explicit is not None:
            z = shifted(base, length, slope)
            explicit.append(field.explicit(field.consts[1], t, z))
    return slopes, explicit


def _stage(rate):
    """k − f(t, base + γ h k), which vanishes."""

    def residual(k, theta):
        consts, t, base, length = theta
        now = rate(consts, t, shifted(base, length, k))
        return jax.tree.map(jnp.subtract, k, now)

    return residual


def _known(how: Any, function, y, theta):
    """The root is the guess."""
    del how, function, theta
    return y, (), None
