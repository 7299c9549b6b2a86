r"""Implicit differentiation: the derivative of what an equation defines, written once.

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
import optimistix as optx
from jaxtyping import Array

from .._jaxpr._primitives import custom_derivative
from .._types import PyTree
from ._linear_solve import solve_linear_system
from ._linear_solvers import AbstractLinearSolver, Dense, check_linear_solver


_MODES = ("primitive", "reverse", "attached")


class ImplicitAdjoint(optx.AbstractAdjoint):
    r"""Derivative by the implicit function theorem, however the value was computed.

    ```python
    def balance(y, heating):  # a body that is heated and radiates
        return heating + 0.1 * y - y**4

    adjoint = implicit.ImplicitAdjoint(implicit.LaggedLU(), refinements=1)
    implicit.root(balance, 1.0, 1.2, adjoint=adjoint)

    solver, y = optimistix.Newton(rtol=1e-10, atol=1e-10), jnp.array(1.0)
    adjoint = implicit.ImplicitAdjoint()  # in place of Optimistix's own
    optimistix.root_find(balance, solver, y, 1.2, adjoint=adjoint).value
    ```

    The `adjoint` of `root`, `fixed_point`, `minimise` and `least_squares`, and of the
    functions of Optimistix, `optimistix.root_find(..., adjoint=ImplicitAdjoint())`: in
    every mode and nesting, Hessians inside `scan` included, where
    `optimistix.ImplicitAdjoint` goes through the iterations. To go through them, in
    reverse mode, is `optimistix.RecursiveCheckpointAdjoint()`, here as there.

    **Arguments**

    - `linear_solver`: solves the linear systems of tangents and adjoints, and those of
        the default solver: `Dense()`, `LaggedLU()`, `Tridiagonal()`, `Banded(...)`,
        `BlockTridiagonal()`, `Krylov(...)`, `LineaxSolver(...)`, `MinimumNorm()`, or
        two by `ForwardAdjointSolvers(forward, adjoint)`.
    - `mode`: `"primitive"`, every transformation in every nesting; `"reverse"`, one
        adjoint solve by `custom_vjp`, for residuals that have no forward mode;
        `"attached"`, two Newton steps on a root that is held constant, by public JAX
        only, the oracle of the tests.
    - `refinements`: Newton steps with `linear_solver` from the solver's answer. The
        error of a derivative is that of the solution, and a step squares both.

    **Good values:** the defaults up to a thousand unknowns, `LaggedLU()` from a
    hundred.

    **Raises:** `ValueError` for `refinements` inside Optimistix's functions, whose
    value is what Optimistix makes of it.

    **Limits:** where an Optimistix function failed and `throw=False`, its derivative
    means nothing (convenience; `root` gives NaN).
    """

    linear_solver: AbstractLinearSolver = Dense()
    mode: str = eqx.field(static=True, default="primitive")
    refinements: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        check_linear_solver(self.linear_solver)
        if self.mode not in _MODES:
            raise ValueError(
                f"mode must be one of {_MODES}, got {self.mode!r}; "
                "adjoint=optimistix.RecursiveCheckpointAdjoint() unrolls the iterations"
            )
        if not isinstance(self.refinements, int) or self.refinements < 0:
            raise ValueError(
                f"refinements must be 0 or more, an int, got {self.refinements}"
            )

    def apply(
        self,
        primal_fn: Callable[..., Any],
        rewrite_fn: Callable[..., Any],
        inputs: Any,
        tags: Any,
    ) -> PyTree:
        """Run a loop of Optimistix, as its functions ask of their `adjoint`."""
        del tags
        if self.refinements:
            raise ValueError(
                "adjoint must be an ImplicitAdjoint with refinements=0 in a function "
                f"of Optimistix, got refinements={self.refinements}; leave it out, or "
                "take implicit.root, fixed_point, minimise or least_squares"
            )
        guess, given = inputs[2], eqx.tree_at(lambda i: i[2], inputs, None)
        theta, static = eqx.partition(given, eqx.is_array)
        kept = []

        def whole(y, theta) -> PyTree:
            given = eqx.combine(theta, static)
            return eqx.tree_at(lambda i: i[2], given, y, is_leaf=lambda x: x is None)

        def function(y, theta):
            return rewrite_fn(y, None, whole(y, theta))

        def solve(how, function, y, theta):
            del how, function
            value, about = primal_fn((*whole(y, theta), _while_loop))
            about, fixed = eqx.partition(about, eqx.is_array)
            kept.append(fixed)
            return value, about, None

        guess = jax.tree.map(jnp.asarray, guess)
        equation = ImplicitEquation(function, theta, None, solve)
        value, about = implicit_solve(equation, guess, self)
        return value, eqx.combine(about, kept[0])


#: How a layer is differentiated: by its equation, or through its iterations.
Adjoint = ImplicitAdjoint | optx.RecursiveCheckpointAdjoint


def check_adjoint(adjoint: Any) -> None:
    if not isinstance(adjoint, Adjoint):
        # Optimistix has a class of the same name.
        package = type(adjoint).__module__.partition(".")[0]
        raise ValueError(
            "adjoint must be a diffsim.implicit.ImplicitAdjoint, or an optimistix."
            f"RecursiveCheckpointAdjoint that unrolls, got {adjoint!r:.60} of "
            f"{package}; write ImplicitAdjoint(linear_solver) for a linear solver"
        )


def implicit_options(adjoint: Adjoint) -> ImplicitAdjoint:
    """`adjoint`, and the default one where iterations are differentiated instead."""
    return adjoint if isinstance(adjoint, ImplicitAdjoint) else ImplicitAdjoint()


class ImplicitEquation(NamedTuple):
    """$f(y, θ) = 0$, with all that f closes over in θ, and how its root is found.

    `solve((solver, adjoint), function, y, theta)` returns the root, a pytree of arrays
    about it, and what its last linear solve prepared, for a linear solver that reuses
    it; only the root has a derivative. It may close over no array.
    """

    function: Callable[[PyTree[Array], PyTree], PyTree[Array]]
    theta: PyTree
    solver: Any
    solve: Callable[..., tuple[PyTree[Array], PyTree[Array], Any]]


def implicit_solve(
    equation: ImplicitEquation, guess: PyTree[Array], adjoint: Adjoint
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Solve an `ImplicitEquation`, its root differentiable by an `adjoint`.

    ```python
    def heron(how, function, y, a):
        for _ in range(6):
            y = (y + a / y) / 2
        return y, (), None

    def square_root(a):
        equation = implicit.ImplicitEquation(lambda y, a: y**2 - a, a, None, heron)
        guess, adjoint = jnp.array(1.0), implicit.ImplicitAdjoint()
        return implicit.implicit_solve(equation, guess, adjoint)[0]

    jax.grad(square_root)(2.0)
    ```

    For solvers that know better than `root` how to find it, a time step for instance.

    **Arguments**

    - `equation`: what the root solves, and how it is found.
    - `guess`: where `equation.solve` starts. It has no derivative.
    - `adjoint`: an `ImplicitAdjoint`, or `optimistix.RecursiveCheckpointAdjoint()`,
        which differentiates what `equation.solve` does.

    **Returns:** the root, and what `equation.solve` says of it.
    """
    # A root does not depend on where the search for it began.
    guess = jax.lax.stop_gradient(guess)
    if not isinstance(adjoint, ImplicitAdjoint):
        check_adjoint(adjoint)
        y, about, _ = _solve(equation, guess, equation.theta, adjoint)
        return y, about
    by = {
        "primitive": _solve_with_custom_jvp,
        "reverse": _solve_with_custom_vjp,
        "attached": _solve_with_newton_steps,
    }
    return by[adjoint.mode](equation, guess, adjoint)


def _solve(equation: ImplicitEquation, guess, theta, adjoint: Adjoint):
    how = (equation.solver, adjoint)
    return equation.solve(how, equation.function, guess, theta)


def _solve_with_custom_jvp(equation: ImplicitEquation, guess, adjoint: ImplicitAdjoint):
    given = (guess, equation.theta, adjoint, equation.solver)
    leaves, structure = jax.tree.flatten(given)
    arrays = [eqx.is_array(x) for x in leaves]
    count, ends = len(jax.tree.leaves(guess)), []

    def rebuilt(inputs, others=leaves):
        given = iter(inputs)
        full = [next(given) if a else x for a, x in zip(arrays, others, strict=True)]
        return jax.tree.unflatten(structure, full)

    def function(*inputs):
        guess, theta, adjoint, solver = rebuilt(inputs)
        known = equation._replace(solver=solver)
        found, end = jax.tree.flatten(_solve(known, guess, theta, adjoint))
        ends.append(end)
        return found

    def tangent(outputs, inputs, tangents):
        _, theta, adjoint, _ = rebuilt(inputs)
        # What is no array has no tangent, and is there all the same.
        _, dtheta, _, _ = rebuilt(tangents, len(leaves) * [None])
        y, _, hint = jax.tree.unflatten(ends[0], outputs)
        solve = functools.partial(
            solve_linear_system, linear_solver=adjoint.linear_solver, hint=hint
        )
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


def _solve_without_derivative(
    equation: ImplicitEquation, guess, adjoint: ImplicitAdjoint
):
    """The root, and nothing of the way to it: its derivative is attached afterwards."""
    theta = jax.lax.stop_gradient(equation.theta)
    return jax.lax.stop_gradient(_solve(equation, guess, theta, adjoint))


def _solve_with_custom_vjp(equation: ImplicitEquation, guess, adjoint: ImplicitAdjoint):
    y, about, hint = _solve_without_derivative(equation, guess, adjoint)

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
        linear_solver = adjoint.linear_solver
        state = linear_solver.prepare(transposed, y, hint, transposed=True)
        state = linear_solver.verify_structure(state, transposed, y, transposed=True)
        multiplier, _ = linear_solver.solve_transpose(state, transposed, y_bar)
        return jax.tree.map(jnp.negative, pull(multiplier)[1])

    attached.def_fwd(forward)
    attached.def_bwd(backward)
    return attached(equation.theta, y, hint), about


def _fill_zeros(y, bar):
    return jnp.zeros_like(y) if bar is None else bar


def _solve_with_newton_steps(
    equation: ImplicitEquation, guess, adjoint: ImplicitAdjoint
):
    y, about, hint = _solve_without_derivative(equation, guess, adjoint)

    def at(z):
        return equation.function(z, equation.theta)

    # One step is right to first order, two are to second.
    for _ in range(2):
        value, operator = jax.linearize(at, y)
        step = solve_linear_system(
            operator, y, value, linear_solver=adjoint.linear_solver, hint=hint
        )
        y = jax.tree.map(jnp.subtract, y, step)
    return y, about


def _while_loop(cond, body, init, *, max_steps):
    """The loop that Optimistix asks an adjoint for."""

    def wanted(carry):
        n, inner = carry
        return cond(inner) if max_steps is None else cond(inner) & (n < max_steps)

    def step(carry):
        n, inner = carry
        return n + 1, body(inner)

    return jax.lax.while_loop(wanted, step, (jnp.asarray(0), init))[1]
