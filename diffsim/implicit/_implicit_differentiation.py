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
from .._validation import count, instance, one_of
from ._linear_solve import solve_linear_system
from ._linear_solvers import AbstractLinearSolver, Dense, as_linear_solver


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
        adjoint solve by `custom_vjp`, for residuals that have no forward mode.
    - `refinements`: Newton steps with `linear_solver` from the solver's answer. The
        error of a derivative is that of the solution, and a step squares both.

    **Good values:** the defaults up to a thousand unknowns, `LaggedLU()` from a
    hundred.

    **Raises:** `ValueError` for `refinements` inside Optimistix's functions, whose
    value is what Optimistix makes of it.

    **Limits:** where an Optimistix function failed and `throw=False`, its derivative
    means nothing (convenience; `root` gives NaN).
    """

    linear_solver: AbstractLinearSolver = eqx.field(
        default=Dense(), converter=as_linear_solver
    )
    mode: str = eqx.field(
        static=True,
        default="primitive",
        converter=functools.partial(
            one_of,
            "mode",
            choices=("primitive", "reverse"),
            hint="optimistix.RecursiveCheckpointAdjoint() unrolls the iterations",
        ),
    )
    refinements: int = eqx.field(
        static=True,
        default=0,
        converter=functools.partial(count, "refinements", least=0),
    )

    def apply(
        self,
        primal_fn: Callable[..., Any],
        rewrite_fn: Callable[..., Any],
        inputs: Any,
        tags: Any,
    ) -> PyTree:
        """Run a loop of Optimistix, as its functions ask of their `adjoint`."""
        if self.refinements:
            raise ValueError(
                "adjoint must be an ImplicitAdjoint with refinements=0 in a function "
                f"of Optimistix, got refinements={self.refinements}; leave it out, or "
                "take implicit.root, fixed_point, minimise or least_squares"
            )
        guess, others = inputs[2], eqx.tree_at(lambda i: i[2], inputs, None)
        theta, static = eqx.partition(others, eqx.is_array)
        statistics = []

        def inputs_with(y, theta) -> PyTree:
            others = eqx.combine(theta, static)
            return eqx.tree_at(lambda i: i[2], others, y, is_leaf=lambda x: x is None)

        def function(y, theta):
            return rewrite_fn(y, None, inputs_with(y, theta))

        def solve(how, function, y, theta):
            value, aux = primal_fn((*inputs_with(y, theta), _while_loop))
            aux, constants = eqx.partition(aux, eqx.is_array)
            statistics.append(constants)
            return value, aux, None

        guess = jax.tree.map(jnp.asarray, guess)
        equation = ImplicitEquation(function, theta, None, solve)
        value, aux = implicit_solve(equation, guess, self)
        return value, eqx.combine(aux, statistics[0])


def _while_loop(cond, body, init, *, max_steps):
    """The loop that Optimistix asks an adjoint for."""

    def goes_on(carry):
        n, inner = carry
        return cond(inner) if max_steps is None else cond(inner) & (n < max_steps)

    def step(carry):
        n, inner = carry
        return n + 1, body(inner)

    return jax.lax.while_loop(goes_on, step, (jnp.asarray(0), init))[1]


#: How a layer is differentiated: by its equation, or through its iterations.
Adjoint = ImplicitAdjoint | optx.RecursiveCheckpointAdjoint


def check_adjoint(adjoint: Any) -> None:
    """Refuse what is no `Adjoint`, Optimistix's class of the same name included."""
    instance(
        "adjoint",
        adjoint,
        Adjoint,
        "diffsim.implicit.ImplicitAdjoint(linear_solver), which is not Optimistix's, "
        "or optimistix.RecursiveCheckpointAdjoint(), which unrolls",
    )


def implicit_options(adjoint: Adjoint) -> ImplicitAdjoint:
    """`adjoint`, or the default where iterations are differentiated instead."""
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
        how = equation.solver, adjoint
        return equation.solve(how, equation.function, guess, equation.theta)[:2]
    if adjoint.mode == "reverse":
        return _solve_with_custom_vjp(equation, guess, adjoint)
    return _solve_with_custom_jvp(equation, guess, adjoint)


def _solve_with_custom_jvp(equation: ImplicitEquation, guess, adjoint: ImplicitAdjoint):
    operands = (guess, equation.theta, adjoint, equation.solver)
    leaves, structure = jax.tree.flatten(operands)
    is_array = [eqx.is_array(x) for x in leaves]
    count, output_structures = len(jax.tree.leaves(guess)), []

    def rebuilt(arrays, others=leaves):
        rest = iter(arrays)
        full = [next(rest) if a else x for a, x in zip(is_array, others, strict=True)]
        return jax.tree.unflatten(structure, full)

    def function(*arrays):
        guess, theta, adjoint, solver = rebuilt(arrays)
        solution = equation.solve((solver, adjoint), equation.function, guess, theta)
        outputs, output_structure = jax.tree.flatten(solution)
        output_structures.append(output_structure)
        return outputs

    def tangent(outputs, arrays, tangents):
        _, theta, adjoint, _ = rebuilt(arrays)
        # Leaves that are no arrays have no tangent, and a place among them.
        _, dtheta, _, _ = rebuilt(tangents, len(leaves) * [None])
        y, _, hint = jax.tree.unflatten(output_structures[0], outputs)
        operator, forcing = _linearize(equation.function, y, theta, dtheta)
        downhill = jax.tree.map(jnp.negative, forcing)
        dy = solve_linear_system(
            operator, y, downhill, linear_solver=adjoint.linear_solver, hint=hint
        )
        return [*jax.tree.leaves(dy), *[None] * (len(outputs) - count)]

    arrays = [jnp.asarray(x) for a, x in zip(is_array, leaves, strict=True) if a]
    outputs = custom_derivative(function, tangent, *arrays)
    y, aux, _ = jax.tree.unflatten(output_structures[0], outputs)
    return y, aux


def _linearize(function, y, theta, dtheta):
    """v ↦ A v and B θ̇, in a form that JAX transposes and differentiates again."""
    leaves, structure = jax.tree.flatten(theta)
    tangents = structure.flatten_up_to(dtheta)
    pairs = list(zip(leaves, tangents, strict=True))
    moving = [x for x, t in pairs if t is not None]

    def f(y, moving):
        rest = iter(moving)
        full = [x if t is None else next(rest) for x, t in pairs]
        return function(y, jax.tree.unflatten(structure, full))

    velocities = [t for t in tangents if t is not None]
    _, forcing = jax.jvp(lambda m: f(y, m), (moving,), (velocities,))
    _, operator = jax.linearize(lambda z: f(z, moving), y)
    return operator, forcing


def _solve_with_custom_vjp(equation: ImplicitEquation, guess, adjoint: ImplicitAdjoint):
    # The way to the root has no derivative; that of the equation is attached to it.
    theta = jax.lax.stop_gradient(equation.theta)
    how = equation.solver, adjoint
    y, aux, hint = jax.lax.stop_gradient(
        equation.solve(how, equation.function, guess, theta)
    )

    @eqx.filter_custom_vjp
    def attached(theta, y, hint):
        return y

    def forward(perturbed, theta, y, hint):
        return attached(theta, y, hint), None

    def backward(residuals, y_bar, perturbed, theta, y, hint):
        floats, rest = eqx.partition(theta, eqx.is_inexact_array)

        def function(y, floats):
            return equation.function(y, eqx.combine(floats, rest))

        def transposed(v):
            return pull(v)[0]

        _, pull = jax.vjp(function, y, floats)
        y_bar = jax.tree.map(
            lambda y, bar: jnp.zeros_like(y) if bar is None else bar,
            *(y, y_bar),
            is_leaf=lambda x: x is None,
        )
        linear_solver = adjoint.linear_solver
        state = linear_solver.prepare(transposed, y, hint, transposed=True)
        state = linear_solver.verify_structure(state, transposed, y, transposed=True)
        multiplier, _ = linear_solver.solve_transpose(state, transposed, y_bar)
        return jax.tree.map(jnp.negative, pull(multiplier)[1])

    attached.def_fwd(forward)
    attached.def_bwd(backward)
    return attached(equation.theta, y, hint), aux
