"""Fixed points are accurate in any units of the unknowns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.implicit import Anderson, Picard, fixed_point, fixed_point_solution


#: cos y = y
DOTTIE = 0.7390851332151607
SOLVERS = {"Anderson": Anderson(), "Picard": Picard(), "damped": Picard(damping=0.6)}
#: |g(y) − y| is within 2e-12 |y|, and the error is it over 1 − g' = 1.7.
LEFT = 1.3e-12


def cosine(y, unit):
    return unit * jnp.cos(y / unit)


def heron(y, a):
    """It halves y until it is near the root of a."""
    return (y + a / y) / 2


ZEROS = {
    "linear": lambda y, _: y / 2,
    "sine": lambda y, _: jnp.sin(y) / 3,
    "square": lambda y, _: y**2 / 2,
    "constants that cancel": lambda y, _: (jnp.cos(y) - 1) / 2,
    # Its fixed point is 4e-17, below the rounding of the sum.
    "rounding": lambda y, _: jnp.cos(y + jnp.pi / 2) / 2,
}
SCALAR = [cosine, heron, lambda y, a: y + a, *ZEROS.values()]
#: Damped is Picard's with another number.
each_solver = pytest.mark.parametrize(
    "solver", first_plain(["Anderson", "Picard", "damped"], 2)
)


def one_of_all(y, args):
    """One of the functions, all of which a solver is compiled for at once."""
    which, number = args
    return jax.lax.switch(which, SCALAR, y, number)


def solved(function, guess, number, solver):
    args = jnp.asarray(SCALAR.index(function)), jnp.asarray(number)
    given = {"solver": SOLVERS[solver], "throw": False}
    found = fixed_point_solution(one_of_all, jnp.asarray(guess), args, **given)
    return found.value, found.status


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e-10, 1e-5, 1.0, 1e10, 1e100])
@each_solver
def test_fixed_point_is_accurate_in_any_unit(unit, solver):
    for guess in (0.0, unit, 3 * unit):
        value, status = solved(cosine, guess, unit, solver)
        assert status == RESULTS.successful
        np.testing.assert_allclose(value, unit * DOTTIE, rtol=LEFT)


@functools.cache
def slopes(solver):
    def solve(unit):
        return fixed_point(cosine, jnp.asarray(0.0), unit, solver=SOLVERS[solver])

    return jax.jit(
        lambda unit: [mode(solve)(unit) for mode in (jax.jacfwd, jax.jacrev)]
    )


@pytest.mark.parametrize("unit", [1e-100, 1e-10, 1e10, 1e100])
@pytest.mark.parametrize("solver", first_plain(["Picard", "Anderson", "damped"]))
def test_derivative_is_accurate_in_any_unit(unit, solver):
    """It is proportional to the unit."""
    np.testing.assert_allclose(slopes(solver)(unit), DOTTIE, rtol=4 * LEFT)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_single_precision_fixed_point_is_accurate_in_any_unit(unit):
    unit = jnp.float32(unit)
    for solver in SOLVERS.values():
        found = fixed_point(cosine, 0 * unit, unit, solver=solver)
        assert found.dtype == jnp.float32
        # ε^(3/4) is 6e-6
        np.testing.assert_allclose(found, unit * DOTTIE, rtol=5e-6)


@each_solver
def test_unknowns_may_differ_in_units_within_and_between_arrays(solver):
    def both(y, units):
        return jax.tree.map(cosine, y, units)

    units = {"a": jnp.array(1e-20), "b": jnp.array([1.0, 1e-10, 1e8, 1e20])}
    found = fixed_point(
        both, jax.tree.map(jnp.zeros_like, units), units, solver=SOLVERS[solver]
    )
    for name, unit in units.items():
        np.testing.assert_allclose(found[name], unit * DOTTIE, rtol=LEFT)


def test_batched_fixed_points_of_different_units_are_accurate():
    units = 10.0 ** jnp.array([-30, -10, 0, 10])
    found = jax.vmap(lambda unit: fixed_point(cosine, unit, unit))(units)
    np.testing.assert_allclose(found, units * DOTTIE, rtol=LEFT)


@each_solver
@pytest.mark.parametrize("square", [1e-60, 1e-30, 1e-12, 1e30])
def test_fixed_point_far_from_the_guess_is_accurate(solver, square):
    value, status = solved(heron, 1.0, square, solver)
    assert status == RESULTS.successful
    np.testing.assert_allclose(value, np.sqrt(square), rtol=LEFT)


@pytest.mark.parametrize("zero", ZEROS)
@each_solver
def test_zero_fixed_point_is_found_from_any_guess(zero, solver):
    for guess in (0.0, 1e-17, 0.3):
        value, status = solved(ZEROS[zero], guess, 0.0, solver)
        assert status == RESULTS.successful
        assert abs(value) < 1e-16


@each_solver
def test_zero_entries_beside_nonzero_ones_are_found(solver):
    """The differences of what converges to one value are rounding."""
    mixing = jnp.array([[0.5, 0.2, 0.1], [0.1, 0.5, 0.2], [0.2, 0.1, 0.5]])

    def mixed(y, _):
        x, d = y[:3], y[3:]
        new = mixing @ x + 0.2
        return jnp.concatenate([new, 0.1 * d + jnp.roll(new, 1) - new])

    value = fixed_point(mixed, jnp.arange(6.0), solver=SOLVERS[solver])
    np.testing.assert_allclose(value[:3], 1.0, rtol=1e-11)
    np.testing.assert_allclose(value[3:], 0.0, atol=1e-11)


@each_solver
def test_small_relative_step_is_not_taken_for_convergence(solver):
    value, status = solved(SCALAR[2], 1.0, 1e-13, solver)
    assert status != RESULTS.successful
    assert np.isnan(value)


@pytest.mark.parametrize("solver", first_plain(["Picard", "Anderson"]))
def test_unrolled_iterations_have_the_same_derivative(solver):
    """Also past the test for a fixed point at zero, which one of the two has."""

    def both(y, theta):
        return jnp.stack([theta * jnp.cos(y[0] / theta), theta * y[1] / 2])

    def solve(theta):
        adjoint = optx.RecursiveCheckpointAdjoint()
        guess = jnp.array([1.0, 1.0])
        return fixed_point(both, guess, theta, solver=SOLVERS[solver], adjoint=adjoint)

    found = jax.jit(jax.jacrev(solve))(1.0)
    # of the last step of iterations that contract by 0.67
    np.testing.assert_allclose(found[0], DOTTIE, rtol=1e-9)
    np.testing.assert_allclose(found[1], 0.0, atol=1e-9)
