"""Inexact Newton converges as Newton does, from further away and matrix-free."""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

from diffsim._results import RESULTS
from diffsim.implicit import (
    CG,
    BracketedNewton,
    Dense,
    Diagonal,
    ImplicitAdjoint,
    Krylov,
    NewtonKrylov,
    Tridiagonal,
    root,
    root_solution,
)


N = 200


def bratu(u, strength):
    """u'' + λ eᵘ = 0 on (0, 1), u = 0 at both ends."""
    around = jnp.pad(u, 1)
    spacing = 1 / (N + 1)
    curvature = (around[2:] - 2 * u + around[:-2]) / spacing**2
    return curvature + strength * jnp.exp(u)


def middle(strength, **options):
    return root(bratu, jnp.zeros(N), strength, **options)[N // 2]


KRYLOV = ImplicitAdjoint(Krylov(CG(), rtol=1e-11))


def test_boundary_value_problem_is_solved_and_differentiated_matrix_free():
    def both(f):
        return jax.jit(jax.value_and_grad(f))

    found = both(lambda s: middle(s, adjoint=KRYLOV))(1.0)
    exact = both(lambda s: middle(s, adjoint=ImplicitAdjoint(Tridiagonal())))(1.0)
    np.testing.assert_allclose(found, exact, rtol=1e-8)
    # The lower branch at the middle, to the error of the differences, 1/12 h² u''''.
    np.testing.assert_allclose(found[0], 0.1405392144, rtol=3e-5)
    program = str(jax.make_jaxpr(jax.grad(lambda s: middle(s, adjoint=KRYLOV)))(1.0))
    assert f"{N},{N}" not in program


@pytest.mark.slow
def test_condition_number_of_an_unrolled_root_is_estimated_matrix_free():
    def condition(strength):
        unrolled = optx.RecursiveCheckpointAdjoint()
        options = {"solver": NewtonKrylov(), "adjoint": unrolled}
        given = jnp.full(N, strength)
        solution = root_solution(lambda y, a: y + y**2 - a, given, given, **options)
        return solution.condition

    assert f"{N},{N}" not in str(jax.make_jaxpr(condition)(0.2))
    # The Jacobian is 1 + 2 y times the identity.
    np.testing.assert_allclose(condition(0.2), 1.0, rtol=1e-6)


def test_inexact_newton_needs_fewer_krylov_iterations():
    """Fewer products than steps that are solved to the end take."""
    counted = []

    def count(_):
        counted.append(1)

    def operator_calls(solver):
        counted.clear()

        def watched(v):
            jax.debug.callback(count, v[0])
            return v

        solver = solver(Krylov(CG(), rtol=1e-11, preconditioner=watched))
        root(bratu, jnp.zeros(N), 3.0, solver=solver, adjoint=ImplicitAdjoint(Dense()))
        jax.effects_barrier()
        return len(counted)

    inexact = operator_calls(lambda krylov: NewtonKrylov(linear_solver=krylov))
    full = operator_calls(
        lambda krylov: NewtonKrylov(linear_solver=krylov, forcing=1e-10)
    )
    assert inexact < 0.9 * full


def test_bracketed_newton_solves_many_equations_at_once():
    """z³ + z = b by Cardano; one loop for a thousand equations."""
    b = np.linspace(-9, 9, 1001)
    # The other cube root is 1/(3t), as a difference it would cancel.
    t = np.cbrt(np.abs(b) / 2 + np.sqrt(b**2 / 4 + 1 / 27))
    b, exact = jnp.asarray(b), np.sign(b) * (t - 1 / (3 * t))

    def solve(b, steps):
        solver, adjoint = BracketedNewton(-3.0, 3.0, steps), ImplicitAdjoint(Diagonal())
        return root(
            lambda z, b: z**3 + z - b,
            0 * b,
            b,
            solver=solver,
            adjoint=adjoint,
            throw=False,
        )

    for steps in (10, 60):
        found = solve(b, steps)
        np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-15)
    slope = jax.grad(lambda b: jnp.sum(solve(b, 10)))(b)
    np.testing.assert_allclose(slope, 1 / (3 * exact**2 + 1), rtol=1e-13)


def test_bracket_without_a_root_is_nan_and_leaves_the_others_unchanged():
    def solve(b):
        return root_solution(
            lambda z, b: jnp.exp(z) - b,
            0.0,
            b,
            solver=BracketedNewton(-1.0, 1.0),
            throw=False,
        )

    b = jnp.array([0.5, 4.0, 2.0, np.e])
    found = jax.jit(jax.vmap(solve))(b)
    fine = np.array([True, False, True, True])
    np.testing.assert_array_equal(found.status == RESULTS.successful, fine)
    np.testing.assert_allclose(found.value[fine], np.log(b[fine]), atol=1e-15)
    assert np.isnan(found.value[1])


def test_non_lipschitz_function_is_bisected():
    def rough(z, _):
        return jnp.sign(z - 0.3) * jnp.abs(z - 0.3) ** 0.1

    found = root(rough, 0.9, solver=BracketedNewton(-1.0, 1.0, 60), throw=False)
    np.testing.assert_allclose(found, 0.3, rtol=1e-14)
