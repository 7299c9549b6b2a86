r"""The rule: the derivative of what an equation defines, written once.

With $f(y(\theta), \theta) = 0$, $A = \partial f/\partial y$ and
$B = \partial f/\partial\theta$,

$$A\,\dot y = -B\,\dot\theta, \qquad A^T\lambda = \bar y,
  \quad \bar\theta = -B^T\lambda .$$
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._primitives import custom_derivative
from ._linear_solve import solve_linear_system
from ._linear_solvers import AbstractLinearSolver, Dense, check_linear_solver


_MODES = ("primitive", "reverse", "attached", "unroll")


class Rule(eqx.Module):
    r"""How an implicit layer is differentiated, whatever it computes its value with.

    **Arguments**

    - `linear`: solves the linear systems of tangents and adjoints, and those of the
        default solver: `Dense()`, `LaggedLU()`, `Tridiagonal()`, `Banded(...)`,
        `BlockTridiagonal()`, `Krylov(...)`, `LineaxSolver(...)`, `MinimumNorm()`, or
        two by `ForwardAdjointSolvers(forward, adjoint)`.
    - `mode`: `"primitive"`, every transformation in every nesting; `"reverse"`, one
        adjoint solve by `custom_vjp`, for residuals that have no forward mode;
        `"attached"`, two Newton steps on a root that is held constant, by public JAX
        only, the oracle of the tests; `"unroll"`, through the solver's own iterations,
        in reverse mode.
    - `refinements`: Newton steps with `linear` from the solver's answer. The error of a
        derivative is that of the solution, and a step squares both.

    **Good values:** the defaults up to a thousand unknowns, `LaggedLU()` from a
    hundred.
    """

    linear: AbstractLinearSolver = Dense()
    mode: str = eqx.field(static=True, default="primitive")
    refinements: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        check_linear_solver(self.linear)
        if self.mode not in _MODES:
            raise ValueError(f"mode must be one of {_MODES}, got {self.mode!r}")
        if not isinstance(self.refinements, int) or self.refinements < 0:
            raise ValueError(
                f"refinements must be 0 or more, an int, got {self.refinements}"
            )


class ImplicitEquation(NamedTuple):
    """$f(y, θ) = 0$, with all that f closes over in θ, and how its root is found.

    `solve((solver, rule), function, y, theta)` returns the root, a pytree of arrays
    about it, and what its last linear solve prepared, for a strategy that reuses it;
    only the root has a derivative. It may close over no array.
    """

    function: Callable[[PyTree[Array], PyTree], PyTree[Array]]
    theta: PyTree
    solver: Any
    solve: Callable[..., tuple[PyTree[Array], PyTree[Array], Any]]


def implicit_solve(
    equation: ImplicitEquation, guess: PyTree[Array], rule: Rule
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Solve an `ImplicitEquation`, its root differentiable by a `Rule`, as in `root`.

    For solvers that know better than `root` how to find it, a time step for instance.
    Returns the root and what `equation.solve` says of it, starting at `guess`; the
    derivative is that of the equation by `rule`.
    """
    # A root does not depend on where the search for it began.
    guess = jax.lax.stop_gradient(guess)
    by = {
        "primitive": _solve_with_tangent_rule,
        "reverse": _solve_with_adjoint_rule,
        "attached": _solve_with_newton_step,
    }
    return by.get(rule.mode, _solve_unrolled)(equation, guess, rule)


def _solve(equation: ImplicitEquation, guess, theta, rule: Rule):
    how = (equation.solver, rule)
    return equation.solve(how, equation.function, guess, theta)


def _solve_with_tangent_rule(equation: ImplicitEquation, guess, rule: Rule):
    given = (guess, equation.theta, rule, equation.solver)
    leaves, structure = jax.tree.flatten(given)
    arrays = [eqx.is_array(x) for x in leaves]
    count, ends = len(jax.tree.leaves(guess)), []

    def rebuilt(inputs, others=leaves):
        given = iter(inputs)
        full = [next(given) if a else x for a, x in zip(arrays, others, strict=True)]
        return jax.tree.unflatten(structure, full)

    def function(*inputs):
        guess, theta, rule, solver = rebuilt(inputs)
        known = equation._replace(solver=solver)
        found, end = jax.tree.flatten(_solve(known, guess, theta, rule))
        ends.append(end)
        return found

    def tangent(outputs, inputs, tangents):
        _, theta, rule, _ = rebuilt(inputs)
        # What is no array has no tangent, and is there all the same.
        _, dtheta, _, _ = rebuilt(tangents, len(leaves) * [None])
        y, _, hint = jax.tree.unflatten(ends[0], outputs)
        solve = functools.partial(solve_linear_system, linear=rule.linear, hint=hint)
        dy = _tangent(equation.function, y, (theta, dtheta), solve)
        return [*jax.tree.leaves(dy), *[None] * (len(outputs) - count)]

    inputs = [jnp.asarray(x) for a, x in zip(arrays, leaves, strict=True) if a]
    found = custom_derivative(function, tangent, *inputs)
    y, about, _ = jax.tree.unflatten(ends[0], found)
    return y, about


def _tangent(function, y, theta_and_tangent, solve):
    """ẏ of A ẏ = −B θ̇, in a form that JAX transposes and differentiates again."""
    theta, dtheta = theta_and_tangent
    leaves, structure = jax.tree.flatten(theta)
    tangents = structure.flatten_up_to(dtheta)
    moving = [x for x, t in zip(leaves, tangents, strict=True) if t is not None]

    def at(y, moving):
        given = iter(moving)
        pairs = zip(leaves, tangents, strict=True)
        full = [x if t is None else next(given) for x, t in pairs]
        return function(y, jax.tree.unflatten(structure, full))

    known = [t for t in tangents if t is not None]
    _, forcing = jax.jvp(lambda m: at(y, m), (moving,), (known,))
    _, operator = jax.linearize(lambda z: at(z, moving), y)
    return solve(operator, y, jax.tree.map(jnp.negative, forcing))


def _solve_without_derivative(equation: ImplicitEquation, guess, rule: Rule):
    """The root, and nothing of the way to it: its derivative is attached afterwards."""
    theta = jax.lax.stop_gradient(equation.theta)
    return jax.lax.stop_gradient(_solve(equation, guess, theta, rule))


def _solve_with_adjoint_rule(equation: ImplicitEquation, guess, rule: Rule):
    y, about, hint = _solve_without_derivative(equation, guess, rule)

    @eqx.filter_custom_vjp
    def attached(theta, y, hint):
        del theta, hint
        return y

    def forward(perturbed, theta, y, hint):
        del perturbed
        return attached(theta, y, hint), None

    def backward(residuals, y_bar, perturbed, theta, y, hint):
        del residuals, perturbed
        floats, rest = eqx.partition(theta, eqx.is_inexact_array)

        def at(y, floats):
            return equation.function(y, eqx.combine(floats, rest))

        def transposed(v):
            return pull(v)[0]

        _, pull = jax.vjp(at, y, floats)
        y_bar = jax.tree.map(_fill_zeros, y, y_bar, is_leaf=lambda x: x is None)
        state = rule.linear.prepare(transposed, y, hint, transposed=True)
        state = rule.linear.verify_structure(state, transposed, y, transposed=True)
        multiplier, _ = rule.linear.solve_transpose(state, transposed, y_bar)
        return jax.tree.map(jnp.negative, pull(multiplier)[1])

    attached.def_fwd(forward)
    attached.def_bwd(backward)
    return attached(equation.theta, y, hint), about


def _fill_zeros(y, bar):
    return jnp.zeros_like(y) if bar is None else bar


def _solve_with_newton_step(equation: ImplicitEquation, guess, rule: Rule):
    y, about, hint = _solve_without_derivative(equation, guess, rule)

    def at(z):
        return equation.function(z, equation.theta)

    # One step is right to first order, two are to second.
    for _ in range(2):
        value, operator = jax.linearize(at, y)
        step = solve_linear_system(operator, y, value, linear=rule.linear, hint=hint)
        y = jax.tree.map(jnp.subtract, y, step)
    return y, about


def _solve_unrolled(equation: ImplicitEquation, guess, rule: Rule):
    y, about, _ = _solve(equation, guess, equation.theta, rule)
    return y, about
