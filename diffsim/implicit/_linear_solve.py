"""`linear_solve`: A x = b by any linear solver."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array

from .._jaxpr._primitives import tie_tangents
from .._jaxpr._tracing import ClosureConverted
from .._jit._fresh_jit import fresh_jit
from .._linalg import matmul, max_norm
from .._results import RESULTS, failures_as_nan, is_finite, nan_unless
from .._types import PyTree
from ._condition_number import condition_number
from ._layer_arguments import check_fits, floating, in_type_of
from ._linear_solvers import AbstractLinearSolver, Dense, Operator, as_linear_solver
from ._solution import Solution, raise_on_failure


def linear_solve(
    operator: Any,
    b: PyTree[Any],
    *,
    linear_solver: AbstractLinearSolver | None = None,
    throw: bool | None = None,
) -> PyTree[Array]:
    r"""Solve $A x = b$, differentiably in $A$ and $b$ in every mode.

    ```python
    matrix, b = jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 2.0])
    implicit.linear_solve(matrix, b)
    implicit.linear_solve(lambda v: matrix @ v, b, linear_solver=implicit.Krylov())
    ```

    Of an array `b` the last axis is solved along, and all others are a batch: of the
    rows of a matrix B, where `numpy.linalg.solve(A, B)` takes its columns. Write
    `linear_solve(A, B.T).T` for that.

    $$A\,\dot x = \dot b - \dot A\,x, \qquad A^T \bar b = \bar x, \quad
      \bar A = -\bar b\,x^T .$$

    **Arguments**

    - `operator`: A, as a matrix for one array `b` (its last axis), as a linear function
        of pytrees like `b`, or as a `lineax.AbstractLinearOperator`.
    - `b`: floating arrays.
    - `linear_solver`: how; None is `Dense()`. `LineaxSolver(...)` takes any solver of
        Lineax.
    - `throw`: as for `root`.

    **Returns:** x, like `b`; `linear_solve_solution` says as well how it went.

    **RESULTS:** `no_linear_solution`; `operator_not_linear` for a function that makes
    something of zeros.

    **Raises:** `ValueError` for an operator that is not square, for a function that is
    not linear, and for `b` that is not floating; `RuntimeError` if it fails and
    `throw`.
    """
    return _linear_solve(operator, b, linear_solver, throw, condition=False).value


def linear_solve_solution(
    operator: Any,
    b: PyTree[Any],
    *,
    linear_solver: AbstractLinearSolver | None = None,
    throw: bool | None = None,
) -> Solution:
    """Solve a linear system as `linear_solve` does, and say how it went.

    **Arguments:** `operator`, `b`, `linear_solver` and `throw` are those of
    `linear_solve`.

    **Returns:** a `Solution`. Its residual is the largest entry of |A x − b|, its
    iterations are those of the linear solver.
    """
    return _linear_solve(operator, b, linear_solver, throw, condition=True)


def _linear_solve(operator, b, linear_solver, throw, condition) -> Solution:
    b = floating("b", b)
    product = _product(operator, b)
    b, shape = in_type_of("operator", lambda x, _: product(x), b, None)
    check_fits("operator", "b", b, shape)
    linear_solver = as_linear_solver(
        Dense() if linear_solver is None else linear_solver
    )
    if not any(leaf.size for leaf in jax.tree.leaves(b)):
        return Solution.of_nothing(b)
    try:
        solution = _solve(product, b, linear_solver, condition)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        # JAX has no name for it, and transposes what is linear only.
        _check_linear(product, b, error)
        raise
    return raise_on_failure(solution, throw)


def _product(operator: Any, b: PyTree[Array]) -> Callable:
    if isinstance(operator, lx.AbstractLinearOperator):
        return operator.mv
    if callable(operator):
        return operator
    matrix = jnp.asarray(operator)
    if not isinstance(b, jax.Array) or matrix.shape != 2 * b.shape[-1:]:
        raise ValueError(
            f"operator must be a square matrix that fits b, one array: got shape "
            f"{matrix.shape} and b {jax.tree.map(jnp.shape, b)}"
        )
    return eqx.Partial(_times, matrix)


def _times(matrix, x):
    return matmul(x, matrix.T)


def _check_linear(product: Operator, b, error: Exception):
    try:
        jax.eval_shape(jax.linear_transpose(product, b), b)
    except (AssertionError, NotImplementedError, RuntimeError):
        raise ValueError(
            "operator must be linear in the array it is given, got a function that JAX "
            "cannot transpose; solve an equation that is not linear by root"
        ) from error


@fresh_jit
def _solve(
    product: Operator, b, linear_solver: AbstractLinearSolver, condition: bool
) -> Solution:
    # As in `root`, a layer inside the operator is judged here.
    with failures_as_nan():
        product = ClosureConverted.of(product, b)
    x, steps = solve_linear_system(
        product, b, b, linear_solver=linear_solver, with_steps=True
    )
    is_solved = is_finite(x)
    status = RESULTS.where(is_solved, RESULTS.successful, RESULTS.no_linear_solution)
    # A constant in it would make A x of every x, and of none of them b.
    constant = max_norm(product(jax.tree.map(jnp.zeros_like, b)))
    is_linear = (constant == 0) | ~jnp.isfinite(constant)
    status = RESULTS.where(is_linear, status, RESULTS.operator_not_linear)
    x = nan_unless(x, jnp.asarray(status == RESULTS.successful))
    residual = max_norm(jax.tree.map(jnp.subtract, product(x), b))
    solution = Solution(x, status, residual, steps)
    if not condition:
        return solution
    # The estimate has no derivative.
    hold = jax.lax.stop_gradient
    number = condition_number(lambda v: hold(product(v)), hold(b), linear_solver)
    return dataclasses.replace(solution, condition=number)


def solve_linear_system(
    operator,
    y,
    b,
    *,
    linear_solver: AbstractLinearSolver,
    hint: Any = None,
    with_steps: bool = False,
) -> PyTree:
    """x with A x = b, differentiable in A and b, and the iterations if wanted."""
    # `custom_linear_solve` differentiates A and b; what solves for x is held constant.
    hold = jax.lax.stop_gradient
    y = hold(y)

    def held(v):
        return hold(operator(v))

    state = linear_solver.prepare(held, y, hold(hint))
    state = hold(linear_solver.verify_structure(state, held, y))
    # Iterations are a constant that `shard_map` refuses beside what varies.
    shown = (lambda solved: solved) if with_steps else (lambda solved: solved[0])
    # Its rules want tangents of all leaves or of none: of b, of what A is applied to
    # and makes, and of the answer, which are those of Aᵀ the other way round.
    solution = jax.lax.custom_linear_solve(
        lambda v: tie_tangents(operator(tie_tangents(v))),
        tie_tangents(b),
        solve=lambda A, b: shown(linear_solver.solve(state, A, b)),
        transpose_solve=lambda A, b: shown(linear_solver.solve_transpose(state, A, b)),
        has_aux=with_steps,
    )
    if with_steps:
        return tie_tangents(solution[0]), solution[1]
    return tie_tangents(solution)
