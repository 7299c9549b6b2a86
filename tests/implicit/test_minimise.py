"""A minimum has the derivative of its vanishing gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._results import RESULTS
from diffsim.implicit import (
    ImplicitAdjoint,
    LaggedLU,
    least_squares,
    minimise,
    minimise_solution,
)


RNG = np.random.default_rng(0)
X, DATA = RNG.normal(size=(12, 3)), RNG.normal(size=12)


def ridge(penalty):
    """The exact minimum of |X w − d|² + λ |w|²."""
    return jnp.linalg.solve(X.T @ X + penalty * jnp.eye(3), X.T @ DATA)


def by_minimum(penalty):
    def objective(w, penalty):
        return jnp.sum((X @ w - DATA) ** 2) + penalty * jnp.sum(w**2)

    return minimise(objective, jnp.zeros(3), penalty)


def by_least_squares(penalty):
    def residuals(w, penalty):
        return {"data": X @ w - DATA, "prior": jnp.sqrt(penalty) * w}

    return least_squares(residuals, jnp.zeros(3), penalty)


@functools.cache
def every(f):
    def pushed(p):
        return [jax.jvp(g, (p,), (1.0,)) for g in (f, jax.jacrev(f))]

    return np.reshape(jax.jit(pushed)(0.7), (4, 3))


@pytest.mark.parametrize("solve", [by_minimum, by_least_squares])
def test_ridge_regression_has_the_derivatives_of_the_closed_form(solve):
    """The value, by both modes the slope, and the slope of that."""
    for found, exact in zip(every(solve), every(ridge), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-13)


def curved(y, theta):
    """Of the line y and the parabola of its data; where they `meet`, they vanish."""
    t, meet = theta
    apart = jnp.stack([y - t, y**2 - 2 * t, jnp.sin(y) + t])
    return jnp.where(meet, jnp.stack([y - t, y**2 - t**2, 0 * y]), apart)


def stationary(theta, y):
    return (y - theta) + 2 * y * (y**2 - 2 * theta) + jnp.cos(y) * (jnp.sin(y) + theta)


def test_gauss_newton_derivative_is_exact_only_for_zero_residuals():
    @functools.partial(jax.jit, static_argnames="hessian")
    def both(meet, hessian):
        def fitted(t):
            return least_squares(curved, 0.5, (t, meet), hessian=hessian)

        return jax.value_and_grad(fitted)(0.6)

    (y, slope), (_, rough) = (both(False, hessian=h) for h in ("full", "gauss_newton"))
    down, across = jax.grad(stationary, (0, 1))(0.6, y)
    np.testing.assert_allclose(slope, -down / across, rtol=1e-10)
    assert abs(rough / slope - 1) > 0.02
    for hessian in ("full", "gauss_newton"):
        np.testing.assert_allclose(both(True, hessian=hessian)[1], 1, rtol=1e-10)


@pytest.mark.slow
def test_derivative_by_a_datum_matches_finite_differences():
    """Influence of one datum, by the derivative and by central differences."""
    t = jnp.linspace(0, 2, 8)
    data = 1.3 * jnp.exp(-0.9 * t) + 0.05 * jnp.cos(7 * t)

    def fitted(data):
        return least_squares(
            lambda p, d: p[0] * jnp.exp(-p[1] * t) - d, jnp.array([1.0, 0.5]), data
        )

    step = 1e-4 * jnp.eye(8)[3]
    measured = (fitted(data + step) - fitted(data - step)) / 2e-4
    np.testing.assert_allclose(
        jax.jit(jax.jacrev(fitted))(data)[:, 3], measured, rtol=1e-6
    )


def test_singular_hessian_fails_with_nan():
    found = minimise_solution(
        lambda y, _: (y[0] + y[1] - 1) ** 2, jnp.zeros(2), throw=False
    )
    assert found.status == RESULTS.no_linear_solution
    assert np.all(np.isnan(found.value))


def test_unbounded_objective_fails_with_nan():
    found = minimise_solution(
        lambda y, _: y, 0.0, throw=False, adjoint=ImplicitAdjoint()
    )
    assert found.status != RESULTS.successful
    assert np.isnan(found.value)


@pytest.mark.slow
def test_newton_refinement_reaches_machine_precision():
    """f is flat to rounding over the root of the precision around its minimum."""
    rough, fine = (
        minimise(lambda y, _: jnp.cosh(y - 1 / 3), 1.0, adjoint=adjoint)
        for adjoint in (ImplicitAdjoint(), ImplicitAdjoint(LaggedLU(), refinements=1))
    )
    assert abs(rough - 1 / 3) < 1e-6
    assert abs(fine - 1 / 3) < 1e-15
