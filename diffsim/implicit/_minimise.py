"""`minimise` and `least_squares`: where a gradient vanishes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array

from .._linalg import machine_epsilon
from .._types import PyTree
from .._validation import one_of
from ._implicit_differentiation import Adjoint, ImplicitAdjoint
from ._implicit_layer import ProblemType, solve_layer
from ._layer_arguments import floating, in_type_of
from ._scaling import least_squares_scaled, minimise_scaled
from ._solution import Solution


def minimise(
    objective: Callable[[PyTree[Array], Any], Any],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 1024,
    throw: bool | None = None,
) -> PyTree[Array]:
    r"""Find the minimum $y$ of $s(y, \theta)$, with the derivative of its equation:

    $$\frac{\partial s}{\partial y} = 0, \qquad
      \frac{dy}{d\theta} = -\left(\frac{\partial^2 s}{\partial y^2}\right)^{-1}
      \frac{\partial^2 s}{\partial y\,\partial\theta}.$$

    ```python
    def energy(y, load):  # of a spring that hardens
        return y**2 + 0.1 * y**4 - load * y

    implicit.minimise(energy, 0.0, 1.0)
    jax.grad(lambda load: implicit.minimise(energy, 0.0, load))(1.0)
    ```

    **Arguments**

    - `objective`: `objective(y, args)`, a scalar.
    - `solver`: what `optimistix.minimise` takes; None is `optimistix.BFGS` in units of
        the problem, the curvatures at the guess and the decrease that they promise,
        with a tolerance of the root of the precision of how far it went. No scale of
        the objective or of an unknown is presumed.
    - `adjoint`: None is `ImplicitAdjoint(refinements=1)`: minimisers stop at half of
        the digits, and a Newton step with the Hessian gives the other half. A step that
        raises the objective is not taken.
    - `guess`, `args`, `max_steps`, `throw`: as for `root`.

    **Returns:** the minimum, like `guess`; `minimise_solution` says as well how it
    went.

    **RESULTS:** as `root`; `no_minimum` if the solver stopped where the gradient does
    not vanish, the objective is above that at the guess, or the Hessian is negative in
    a direction; `no_linear_solution` if the Hessian is singular.

    **Raises:** as `root`, and `ValueError` for an objective that is not a scalar.

    **Limits:** the minimum that the solver runs into, of those there are (mathematics).
    Of more than 32 unknowns, the Hessian is tested in two directions and units are
    those of arrays, not of entries (convenience).
    """
    return _minimise(
        objective, guess, args, solver, adjoint, max_steps, throw, condition=False
    ).value


def minimise_solution(
    objective: Callable[[PyTree[Array], Any], Any],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 1024,
    throw: bool | None = None,
) -> Solution:
    """Find a minimum as `minimise` does, and say how it went.

    **Arguments:** `objective`, `guess`, `args`, `solver`, `adjoint`, `max_steps` and
    `throw` are those of `minimise`.

    **Returns:** a `Solution`. Its residual is the largest entry of the gradient, its
    condition that of the Hessian.
    """
    return _minimise(
        objective, guess, args, solver, adjoint, max_steps, throw, condition=True
    )


def _minimise(
    objective, guess, args, solver, adjoint, max_steps, throw, condition
) -> Solution:
    guess = floating("guess", guess)
    guess, shape = in_type_of("objective", objective, guess, args)
    if getattr(shape, "shape", None) != ():
        raise ValueError(
            f"objective must return one number, got {shape}; sum what is to be least, "
            "or give residuals to least_squares"
        )
    kind = _MINIMISE if solver is None else _MINIMISE_BY
    # Unknowns begin far below their unit: the tolerance is relative, and hardly else.
    rtol, atol = machine_epsilon(guess) ** 0.5, machine_epsilon(guess)
    solver = optx.BFGS(rtol, atol) if solver is None else solver
    adjoint = ImplicitAdjoint(refinements=1) if adjoint is None else adjoint
    return solve_layer(
        kind, objective, guess, args, solver, adjoint, max_steps, throw, condition
    )


def least_squares(
    residuals: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    hessian: str = "full",
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 1024,
    throw: bool | None = None,
) -> PyTree[Array]:
    r"""Find the $y$ of least $\tfrac12 |r(y, \theta)|^2$, by the equation of that:

    $$J^T r = 0, \qquad J = \partial r / \partial y .$$

    ```python
    t = jnp.linspace(0.0, 3.0, 20)

    def residuals(y, data):  # amplitude and rate of a decay
        return y[0] * jnp.exp(-y[1] * t) - data

    data = 2 * jnp.exp(-0.7 * t)
    jax.jacrev(lambda x: implicit.least_squares(residuals, jnp.ones(2), x))(data)
    ```

    **Arguments**

    - `residuals`: `residuals(y, args)`, any floating pytree.
    - `hessian`: of the linear systems of the derivative. `"full"` is exact;
        `"gauss_newton"` is $J^T J$, positive definite and without second derivatives of
        r by y, and exact where r vanishes: its error is of the order of the residuals
        times the curvature of the model. Use it for first derivatives only.
    - `solver`: what `optimistix.least_squares` takes; None is
        `optimistix.LevenbergMarquardt` in units of the problem, the residuals and the
        columns of $J$ at the guess, with a tolerance of the root of the precision.
    - `guess`, `args`, `adjoint`, `max_steps`, `throw`: as for `minimise`.

    **Returns, raises, RESULTS, limits:** as `minimise`, and `ValueError` for another
    `hessian`; `least_squares_solution` says as well how it went.
    """
    options = hessian, solver, adjoint, max_steps, throw
    return _least_squares(residuals, guess, args, *options, condition=False).value


def least_squares_solution(
    residuals: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    hessian: str = "full",
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 1024,
    throw: bool | None = None,
) -> Solution:
    """Find the least squares as `least_squares` does, and say how it went.

    **Arguments:** `residuals`, `guess`, `args`, `hessian`, `solver`, `adjoint`,
    `max_steps` and `throw` are those of `least_squares`.

    **Returns:** a `Solution` as of `minimise_solution`.
    """
    options = hessian, solver, adjoint, max_steps, throw
    return _least_squares(residuals, guess, args, *options, condition=True)


def _least_squares(
    residuals, guess, args, hessian, solver, adjoint, max_steps, throw, condition
) -> Solution:
    guess = floating("guess", guess)
    guess, _ = in_type_of("residuals", residuals, guess, args)
    one_of("hessian", hessian, ("full", "gauss_newton"))
    kind = _LEAST_SQUARES if hessian == "full" else _GAUSS_NEWTON
    if solver is None:
        kind = kind._replace(find=least_squares_scaled)
        tolerance = machine_epsilon(guess) ** 0.5
        solver = optx.LevenbergMarquardt(tolerance, tolerance)
    adjoint = ImplicitAdjoint(refinements=1) if adjoint is None else adjoint
    return solve_layer(
        kind, residuals, guess, args, solver, adjoint, max_steps, throw, condition
    )


def _half_square(residuals):
    def objective(y, theta):
        squares = [jnp.sum(r**2) for r in jax.tree.leaves(residuals(y, theta))]
        return sum(squares, start=jnp.zeros(())) / 2

    return objective


def _normal(residuals):
    def equation(y, theta):
        value, pull = jax.vjp(lambda z: residuals(z, theta), y)
        return pull(value)[0]

    return equation


def _gauss_newton_normal(residuals):
    """Jᵀ r, of which the derivative by y is JᵀJ, and by θ all of it."""

    def equation(y, theta):
        # J is held at y: that is what Gauss and Newton leave out.
        _, pull = jax.vjp(lambda z: residuals(z, theta), jax.lax.stop_gradient(y))
        return pull(residuals(y, theta))[0]

    return equation


_MINIMISE_BY = ProblemType(
    "objective", jax.grad, optx.minimise, "no_minimum", lambda objective: objective
)
_MINIMISE = _MINIMISE_BY._replace(find=minimise_scaled)
_LEAST_SQUARES = ProblemType(
    "residuals", _normal, optx.least_squares, "no_minimum", _half_square
)
_GAUSS_NEWTON = _LEAST_SQUARES._replace(equation=_gauss_newton_normal, held=True)
