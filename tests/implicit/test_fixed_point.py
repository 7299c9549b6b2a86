"""A fixed point has the derivative of y = g(y, θ), whichever solver found it."""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.implicit import Anderson, Newton, Picard, fixed_point, fixed_point_solution


# cos y = y, and with y = cos y + θ: y' = 1/(1 + sin y), y'' = −cos y / (1 + sin y)³.
DOTTIE = 0.7390851332151607


def kepler(y, theta):
    return jnp.cos(y) + theta


@pytest.mark.parametrize(
    "solver", first_plain([None, Newton(), Anderson(memory=2), Picard()], 2)
)
def test_value_and_derivatives_are_those_of_the_closed_form(solver):
    def solve(theta):
        return fixed_point(kepler, 0.5, theta, solver=solver)

    s, c = np.sin(DOTTIE), np.cos(DOTTIE)
    value_and_slope = jax.value_and_grad(solve)
    (value, slope), curvature = jax.jit(
        lambda t: (value_and_slope(t), jax.jacrev(jax.jacfwd(solve))(t))
    )(0.0)
    exact = (DOTTIE, 1 / (1 + s), -c / (1 + s) ** 3)
    np.testing.assert_allclose((value, slope, curvature), exact, rtol=3e-12)


def test_optimistix_solver_finds_the_fixed_point():
    solver = optx.FixedPointIteration(rtol=1e-12, atol=1e-12)
    assert abs(fixed_point(kepler, 0.5, 0.0, solver=solver) - DOTTIE) < 1e-11


def test_anderson_solves_a_linear_map_of_n_unknowns_in_n_steps():
    """It is GMRES there (Walker and Ni 2011, doi:10.1137/10078356X)."""
    matrix = 0.4 * jax.random.normal(jax.random.key(0), (5, 5))

    def affine(y, _):
        return {"y": matrix @ y["y"] + 1}

    found = fixed_point_solution(affine, {"y": jnp.zeros(5)})
    expected = np.linalg.solve(np.eye(5) - matrix, np.ones(5))
    np.testing.assert_allclose(found.value["y"], expected, rtol=1e-10)
    assert found.iterations <= 5 + 3
    assert found.status == RESULTS.successful


def test_damping_makes_picard_converge_for_a_steep_map():
    def steep(y, _):
        return 2 - 2 * y

    with pytest.raises(RuntimeError, match="maximum number of steps"):
        fixed_point(steep, 0.5, solver=Picard())
    found = fixed_point(steep, 0.5, solver=Picard(damping=0.4))
    np.testing.assert_allclose(found, 2 / 3, rtol=1e-11)


def test_map_without_a_fixed_point_fails_with_nan():
    found = fixed_point_solution(lambda y, _: y + 1, 0.0, throw=False)
    assert found.status != RESULTS.successful
    assert np.isnan(found.value)
