"""`root`: where a residual vanishes."""

from collections.abc import Callable
from typing import Any

import optimistix as optx
from jaxtyping import Array

from .._types import PyTree
from ._implicit_differentiation import Adjoint, ImplicitAdjoint, implicit_options
from ._implicit_layer import ProblemType, solve_layer
from ._layer_arguments import check_fits, floating, in_type_of
from ._linear_solvers import ForwardAdjointSolvers, Krylov, LaggedLU
from ._newton import Newton
from ._newton_krylov import NewtonKrylov
from ._solution import Solution


def root(
    residual: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
) -> PyTree[Array]:
    r"""Find the root $y$ of $f(y, \theta) = 0$, with the derivative of that equation:

    $$\frac{dy}{d\theta} = -\left(\frac{\partial f}{\partial y}\right)^{-1}
      \frac{\partial f}{\partial\theta}$$

    exactly, in every mode and nesting, at the cost of one linear solve and whatever the
    solver does: no iteration is differentiated.

    ```python
    def balance(y, heating):  # a body that is heated and radiates
        return heating + 0.1 * y - y**4

    temperature = implicit.root(balance, 1.0, 1.2)
    jax.grad(lambda heating: implicit.root(balance, 1.0, heating))(1.2)
    ```

    **Arguments**

    - `residual`: `residual(y, args)`, of the structure of `y`. What it closes over is
        differentiated as well.
    - `guess`: floating arrays, where the solver starts. It has no derivative.
    - `args`: any pytree.
    - `solver`: what `optimistix.root_find` takes; None is `Newton` by the linear solver
        of the adjoint, and `NewtonKrylov` where that is a `Krylov`.
    - `adjoint`: how the derivative is taken; None is `ImplicitAdjoint()`.
        `optimistix.RecursiveCheckpointAdjoint()` goes through the iterations, in
        reverse mode only.
    - `max_steps`: of the solver.
    - `throw`: whether a failure raises; None raises but inside `fit`, `fisher` and
        `sweep`. Under `vmap` all members raise together. What does not raise is NaN,
        value and derivative, and leaves the others of a batch alone; so it is inside
        `shard_map` in any case.

    **Returns:** the root, like `guess`; `root_solution` says as well how it went.

    **RESULTS:** those of Optimistix (`nonlinear_max_steps_reached`, ...), `no_root` if
    the solver stopped where f does not vanish, `no_linear_solution` if f does not
    determine y, as far as the linear solver can tell (see the limits of `Krylov`), or
    an iterative linear solve did not converge, `non_finite`.

    **Raises:** `ValueError` for a guess that is not floating and a residual of another
    structure; `RuntimeError` if it fails and `throw`.

    **Limits:** the root nearest to the solver's path, not all of them (mathematics); at
    a double root there is no derivative (mathematics). A residual that falls while y
    runs away, as exp(−y) does, has no root, until it is zero to the last bit: then y is
    one in the numbers that a computer has (mathematics).
    """
    return _root(
        residual, guess, args, solver, adjoint, max_steps, throw, condition=False
    ).value


def root_solution(
    residual: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    adjoint: Adjoint | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
) -> Solution:
    """Find a root as `root` does, and say how it went.

    ```python
    solution = implicit.root_solution(lambda y, a: y**2 - a, 1.0, 2.0)
    solution.value, solution.residual, solution.condition
    ```

    **Arguments:** `residual`, `guess`, `args`, `solver`, `adjoint`, `max_steps` and
    `throw` are those of `root`.

    **Returns:** a `Solution`. Its condition number costs some five linear solves.
    """
    return _root(
        residual, guess, args, solver, adjoint, max_steps, throw, condition=True
    )


def _root(
    residual, guess, args, solver, adjoint, max_steps, throw, condition
) -> Solution:
    guess = floating("guess", guess)
    guess, value = in_type_of("residual", residual, guess, args)
    check_fits("residual", "guess", guess, value)
    adjoint = ImplicitAdjoint() if adjoint is None else adjoint
    if solver is None:
        solver = _default_solver(implicit_options(adjoint))
    return solve_layer(
        _KIND, residual, guess, args, solver, adjoint, max_steps, throw, condition
    )


def _default_solver(adjoint: ImplicitAdjoint) -> optx.AbstractRootFinder:
    linear_solver = adjoint.linear_solver
    if isinstance(linear_solver, ForwardAdjointSolvers):
        linear_solver = linear_solver.forward
    # Newton's own factors are not stale: refining by them would be work for nothing.
    if isinstance(linear_solver, LaggedLU):
        linear_solver = linear_solver.linear_solver
    if isinstance(linear_solver, Krylov):
        return NewtonKrylov(linear_solver=linear_solver)
    return Newton(linear_solver=linear_solver, backward=adjoint.mode == "reverse")


_KIND = ProblemType("residual", lambda residual: residual, optx.root_find, "no_root")
