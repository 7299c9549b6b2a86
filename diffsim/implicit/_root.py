"""`root`: what makes a residual vanish."""

from collections.abc import Callable
from typing import Any

import optimistix as optx
from jaxtyping import Array, PyTree

from ._implicit_differentiation import Rule
from ._implicit_layer import ProblemType, solve_layer
from ._layer_arguments import check_fits, floating
from ._linear_solvers import ForwardAdjointSolvers, Krylov, LaggedLU
from ._newton import Newton
from ._newton_krylov import NewtonKrylov


def root(
    residual: Callable[[PyTree[Array], Any], PyTree[Array]],
    guess: PyTree[Any],
    args: PyTree = None,
    *,
    solver: Any = None,
    rule: Rule | None = None,
    max_steps: int = 256,
    throw: bool | None = None,
    full: bool = False,
) -> Any:
    r"""The $y$ with $f(y, \theta) = 0$; its derivative is that of the equation:

    $$\frac{dy}{d\theta} = -\left(\frac{\partial f}{\partial y}\right)^{-1}
      \frac{\partial f}{\partial\theta}$$

    exactly, in every mode and nesting, at the cost of one linear solve and whatever the
    solver does: no iteration is differentiated.

    **Arguments**

    - `residual`: `residual(y, args)`, of the structure of `y`. What it closes over is
        differentiated as well.
    - `guess`: floating arrays, where the solver starts. It has no derivative.
    - `args`: any pytree.
    - `solver`: what `optimistix.root_find` takes; None is `Newton` by the strategy of
        the rule, and `NewtonKrylov` where that is a `Krylov`.
    - `rule`: a `Rule`, how the derivative is taken.
    - `max_steps`: of the solver.
    - `throw`: whether a failure raises; None raises but inside `fit`, `fisher` and
        `sweep`. Under `vmap` all members raise together. What does not raise is NaN,
        value and derivative, and leaves the others of a batch alone; so it is inside
        `shard_map` in any case.
    - `full`: return a `Solution`, which says how it went, at the cost of some five
        linear solves for its condition number.

    **Returns:** the root, like `guess`, or a `Solution`.

    **RESULTS:** those of Optimistix (`nonlinear_max_steps_reached`, ...), `no_root` if
    the solver stopped where f does not vanish, `no_linear_solution` if f does not
    determine y or an iterative linear solve did not converge, `non_finite`.

    **Raises:** `ValueError` for a guess that is not floating and a residual of another
    structure; `RuntimeError` if it fails and `throw`.

    **Limits:** the root nearest to the solver's path, not all of them (mathematics); at
    a double root there is no derivative (mathematics). A residual that falls while y
    runs away, as exp(−y) does, has no root, until it is zero to the last bit: then y is
    one in the numbers that a computer has (mathematics).
    """
    guess = floating("guess", guess)
    check_fits("residual", residual, "guess", guess, args)
    rule = Rule() if rule is None else rule
    if solver is None and isinstance(rule, Rule):
        solver = default_solver(rule)
    return solve_layer(
        _KIND, residual, guess, args, solver, rule, max_steps, throw=throw, full=full
    )


def default_solver(rule: Rule) -> optx.AbstractRootFinder:
    linear = (
        rule.linear.forward
        if isinstance(rule.linear, ForwardAdjointSolvers)
        else rule.linear
    )
    # Newton's own factors are not stale: refining by them would be work for nothing.
    linear = linear.linear if isinstance(linear, LaggedLU) else linear
    if isinstance(linear, Krylov):
        return NewtonKrylov(linear=linear)
    return Newton(linear=linear, backward=rule.mode == "reverse")


_KIND = ProblemType("residual", lambda residual: residual, optx.root_find, "no_root")
