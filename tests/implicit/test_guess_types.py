"""An implicit layer computes in the widest type of its equation, whatever the guess."""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from rows import first_plain

from diffsim.implicit import (
    BracketedNewton,
    NewtonKrylov,
    Picard,
    adjoint_report,
    fixed_point,
    fixed_point_solution,
    least_squares,
    least_squares_solution,
    linear_solve,
    linear_solve_solution,
    minimise,
    minimise_solution,
    root,
    root_solution,
)


def relaxed(f):
    return lambda y, a: y - 0.3 * f(y, a)


def squared(f):
    return lambda y, a: jnp.sum(f(y, a) ** 2)


#: Each finds where f vanishes.
SOLVERS = {
    "Newton": root,
    "NewtonKrylov": lambda *given: root(*given, solver=NewtonKrylov()),
    "BracketedNewton": lambda *given: root(*given, solver=BracketedNewton(0.0, 4.0)),
    "Dogleg": lambda *given: root(*given, solver=optx.Dogleg(1e-6, 1e-6)),
    "Anderson": lambda f, *given: fixed_point(relaxed(f), *given),
    "Picard": lambda f, *given: fixed_point(relaxed(f), *given, solver=Picard()),
    "minimise": lambda f, *given: minimise(squared(f), *given),
    "least_squares": least_squares,
}
SINGLE, DOUBLE = np.float32(2.0), np.float64(2.0)
#: f, what it is given, and the type of its numbers.
EQUATIONS = {
    "double argument": (lambda y, a: y**2 - a, jnp.asarray(DOUBLE), "float64"),
    "double closed over": (lambda y, a: y**2 - DOUBLE, None, "float64"),
    "single argument": (lambda y, a: y**2 - a, jnp.asarray(SINGLE), "float32"),
    "NumPy's closed over": (lambda y, a: y**2 - SINGLE, None, "float32"),
}
GUESSES = {
    "single": (jnp.asarray(1.5, "float32"), "float32"),
    "Python's": (1.5, None),
}


@pytest.mark.parametrize("equation", first_plain(EQUATIONS))
@pytest.mark.parametrize("solver", SOLVERS)
def test_root_has_the_widest_type_of_guess_and_equation(solver, equation):
    f, args, made = EQUATIONS[equation]
    for guess, own in GUESSES.values():
        found = SOLVERS[solver](f, guess, args)
        expected = np.promote_types(own or made, made)
        assert found.dtype == expected
        np.testing.assert_allclose(found, np.sqrt(2), rtol=3e-6)
        if made == "float64":
            np.testing.assert_allclose(found, np.sqrt(2), rtol=1e-11)


def test_each_leaf_of_a_guess_has_the_type_that_it_comes_to():
    start = {"x": jnp.ones(2, "float32"), "z": jnp.ones((), "float32")}

    def f(y, a):
        return {"x": y["x"] ** 2 - 2, "z": y["z"] ** 2 - a}

    found = root(f, start, jnp.asarray(np.float64(3.0)))
    assert found["x"].dtype == "float32" and found["z"].dtype == "float64"
    np.testing.assert_allclose(found["z"], np.sqrt(3), rtol=1e-8)


def test_gradient_of_a_promoted_root_is_in_full_precision():
    found = jax.grad(lambda a: root(lambda y, a: y**2 - a, jnp.float32(1.0), a))(
        jnp.asarray(DOUBLE)
    )
    np.testing.assert_allclose(found, 0.5 / np.sqrt(2), rtol=1e-14)


def test_linear_system_has_the_widest_type_of_both_sides():
    matrix, b = jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 2.0], "float32")
    for operator in (matrix, lambda v: matrix @ v):
        found = linear_solve(operator, b)
        np.testing.assert_allclose(found, np.linalg.solve(matrix, b), rtol=1e-14)


def test_error_of_a_root_in_single_precision_is_told_by_an_equation_in_double():
    y = jnp.asarray(np.sqrt(2), "float32")
    report = adjoint_report(
        lambda y, a: y**2 - a, y, jnp.asarray(2.0), jnp.ones_like(y)
    )
    np.testing.assert_allclose(report.error, abs(float(y) - np.sqrt(2)), rtol=1e-6)


NOTHING = {
    "root": (root, root_solution, lambda y, a: y),
    "fixed_point": (fixed_point, fixed_point_solution, lambda y, a: y),
    "minimise": (minimise, minimise_solution, lambda y, a: jnp.zeros(())),
    "least_squares": (least_squares, least_squares_solution, lambda y, a: y),
    "linear_solve": (linear_solve, linear_solve_solution, lambda v: v),
}


@pytest.mark.parametrize("layer", NOTHING)
@pytest.mark.parametrize("guess", [jnp.zeros(0), {}, (), {"a": jnp.zeros((3, 0))}])
def test_no_unknowns_are_their_own_solution(layer, guess):
    solve, solve_fully, function = NOTHING[layer]
    found = solve(function, guess)
    assert jax.tree.structure(found) == jax.tree.structure(guess)
    solution = solve_fully(function, guess)
    assert solution.residual == solution.iterations == 0
