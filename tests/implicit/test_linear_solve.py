"""`linear_solve` has the derivatives of A x = b, for every form of A."""

import functools

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.implicit import (
    CG,
    FGMRES,
    GMRES,
    MINRES,
    BiCGStab,
    Dense,
    Krylov,
    LaggedLU,
    LineaxSolver,
    Tridiagonal,
    adjoint_report,
    linear_solve,
    linear_solve_solution,
    root,
)


RNG = np.random.default_rng(1)
A, B = jnp.asarray(RNG.normal(size=(4, 4))), jnp.asarray(RNG.normal(size=4))


def as_function(matrix):
    return lambda x: {"x": matrix @ x["x"]}


def loss(x):
    return jnp.sum(jnp.sin(x) ** 2)


@functools.cache
def every(linear_solver):
    """Gradient, slopes and Hessians, forward over reverse and reverse over reverse."""

    def f(matrix, b):
        if linear_solver == "exact":
            return loss(jnp.linalg.solve(matrix, b))
        return loss(linear_solve(matrix, b, linear_solver=linear_solver))

    both = (0, 1)
    modes = jax.grad, jax.jacfwd, jax.hessian
    twice = jax.jacrev(jax.jacrev(f, both), both)
    return jax.jit(lambda *at: ([m(f, both)(*at) for m in modes], twice(*at)))(A, B)


SOLVERS = [None, Krylov(BiCGStab()), LaggedLU(), Krylov(), LineaxSolver(lx.LU())]


@pytest.mark.parametrize("linear_solver", first_plain(SOLVERS, 2), ids=str)
def test_first_and_second_derivatives_are_those_of_dense_solve(linear_solver):
    found, exact = every(linear_solver), every("exact")
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


def test_matrix_function_and_operator_give_the_same_solution():
    expected = np.linalg.solve(A, B)
    operator = lx.MatrixLinearOperator(A)
    for given in (A, np.asarray(A), lambda x: A @ x, operator):
        np.testing.assert_allclose(linear_solve(given, B), expected, rtol=1e-12)
    found = linear_solve(as_function(A), {"x": B})
    np.testing.assert_allclose(found["x"], expected, rtol=1e-12)


def test_derivative_by_closed_over_values_is_right():
    def solve(scale):
        return loss(linear_solve(lambda x: scale * (A @ x), B))

    expected = jax.grad(lambda s: loss(jnp.linalg.solve(s * A, B)))(1.3)
    np.testing.assert_allclose(jax.grad(solve)(1.3), expected, rtol=1e-11)


def test_solution_reports_status_residual_and_condition():
    found = linear_solve_solution(A, B)
    exact = np.linalg.cond(np.asarray(A), 1)
    assert found.status == RESULTS.successful
    assert found.residual < 1e-14
    assert exact / 3 < found.condition <= exact * (1 + 1e-12)
    assert linear_solve_solution(A, B, linear_solver=Krylov()).iterations == 4


@pytest.mark.parametrize("size", [1, 2, 30])
def test_condition_numbers_are_estimated_from_below(size):
    for matrix in RNG.normal(size=(5, size, size)):
        exact = np.linalg.cond(matrix, 1)
        found = linear_solve_solution(matrix, np.ones(size)).condition
        assert exact / 3 < found <= exact * (1 + 1e-9)


def test_singular_system_fails_with_nan():
    flat = jnp.ones((2, 2))
    with pytest.raises(RuntimeError, match="could not be solved"):
        linear_solve(flat, jnp.ones(2))
    found = linear_solve_solution(flat, jnp.ones(2), throw=False)
    assert found.status == RESULTS.no_linear_solution
    assert np.all(np.isnan(found.value))
    assert found.condition == np.inf


METHODS = CG(), MINRES(), GMRES(), FGMRES(), BiCGStab()
EVERY = [None, *map(Krylov, METHODS), LaggedLU(), Tridiagonal()]


@pytest.mark.parametrize("linear_solver", EVERY, ids=str)
def test_gradient_of_what_could_not_be_solved_is_nan(linear_solver):
    def total(matrix, b):
        found = linear_solve(matrix, b, linear_solver=linear_solver, throw=False)
        return jnp.sum(found)

    singular = jnp.diag(jnp.array([1.0, 2.0, 3.0, 0.0]))
    value, bars = jax.jit(jax.value_and_grad(total, (0, 1)))(singular, B)
    assert jnp.isnan(value)
    assert all(jnp.all(jnp.isnan(bar)) for bar in bars)


# At a root that is not quite one, λ·f(y) is what the objective is off by.
@pytest.mark.parametrize("linear_solver", [Dense(), Krylov()])
def test_adjoint_report_estimates_the_error_of_an_inexact_root(linear_solver):
    def residual(y, a):
        return A @ y + 0.1 * y**3 - a

    exact = root(residual, jnp.zeros(4), B)
    near = exact + 1e-5 * jnp.array([1.0, -2.0, 0.5, 1.5])
    bar = jax.grad(loss)(near)
    report = adjoint_report(residual, near, B, bar, linear_solver=linear_solver)
    assert report.residual < 1e-11
    np.testing.assert_allclose(report.error, abs(loss(near) - loss(exact)), rtol=1e-3)
    slope = jax.grad(lambda a: loss(root(residual, jnp.zeros(4), a)))(B)
    np.testing.assert_allclose(report.multiplier, slope, rtol=1e-3)


def test_affine_operator_fails_with_nan():
    with pytest.raises(RuntimeError, match="of zeros it does not make zeros"):
        linear_solve(lambda v: 2 * v + 1, jnp.ones(2))
    found = linear_solve(lambda v: 2 * v + 1, jnp.ones(2), throw=False)
    assert np.all(np.isnan(found))
