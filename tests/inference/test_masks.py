"""Masked data may be anything, in values and in derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from rows import first_plain

from diffsim.inference import FitOptions, Gaussian, fisher, fit


TIMES = np.arange(6.0)
DATA = 1 + 2 * TIMES + 0.1 * np.cos(3 * TIMES)
USED = np.array([True, True, False, True, True, False])
START = {"a": 1.0, "b": 1.0}


def line(model):
    return model["a"] + model["b"] * TIMES


@pytest.fixture(scope="module")
def dropped():
    """The fit to the data that are left."""
    return fit(lambda m: line(m)[USED], START, DATA[USED], noise=Gaussian(0.1))


@pytest.mark.parametrize("datum", first_plain([np.nan, -np.inf]))
@pytest.mark.parametrize("sigma", first_plain([np.nan, 0.0, np.inf, -1.0], 2))
def test_masked_data_and_sigma_are_never_used(dropped, datum, sigma):
    noise = Gaussian(np.where(USED, 0.1, sigma), mask=USED)
    found = fit(line, START, np.where(USED, DATA, datum), noise=noise)
    np.testing.assert_allclose(found.values, dropped.values, rtol=1e-12)
    np.testing.assert_allclose(found.stderr, dropped.stderr, rtol=1e-12)
    assert found.status == dropped.status and found.size == 4


@pytest.mark.parametrize(
    "solver", first_plain([None, (optax.adam(0.1),)]), ids=["levenberg", "adam"]
)
def test_derivatives_of_a_fit_are_finite_beside_masked_data(solver):
    noise = Gaussian(np.where(USED, 0.1, np.nan), mask=USED)

    def slope(data):
        data = jnp.where(USED, data, jnp.nan)
        found = fit(
            line, START, data, noise=noise, solver=solver, options=FitOptions(400)
        )
        return found.model["b"]

    derivative = jax.jit(jax.grad(slope))(jnp.asarray(DATA))
    rows = np.stack([np.ones(4), TIMES[USED]], axis=1)
    wanted = np.zeros(6)
    wanted[USED] = np.linalg.pinv(rows)[1]
    np.testing.assert_allclose(derivative, wanted, atol=1e-12)


def test_sigma_may_broadcast_under_its_mask():
    mask = np.array([[True, False]] * 6)
    noise = Gaussian(np.array([0.1, np.nan]), mask=mask)
    both = fit(
        lambda m: jnp.stack([line(m), line(m) ** 2], axis=1),
        START,
        np.stack([DATA, np.full(6, np.nan)], axis=1),
        noise=noise,
    )
    alone = fit(line, START, DATA, noise=Gaussian(0.1))
    np.testing.assert_allclose(both.values, alone.values, rtol=1e-12)


def test_bias_ignores_masked_data():
    noise = Gaussian(np.where(USED, 0.1, np.nan), mask=USED)
    forecast = fisher(line, START, noise=noise)
    delta = jnp.where(USED, 0.3 - 0.2 * TIMES, jnp.nan)
    np.testing.assert_allclose(forecast.bias(delta), [0.3, -0.2], atol=1e-12)
    assert np.all(np.isfinite(jax.jacrev(forecast.bias)(delta)))


def test_rows_of_a_covariance_under_its_mask_may_be_unknown(dropped):
    matrix = 0.01 * np.eye(6)
    matrix[~USED], matrix[:, ~USED] = np.nan, np.nan
    noise = Gaussian(covariance=matrix, mask=USED)
    found = fit(line, START, np.where(USED, DATA, np.nan), noise=noise)
    np.testing.assert_allclose(found.values, dropped.values, rtol=1e-12)
    np.testing.assert_allclose(found.stderr, dropped.stderr, rtol=1e-12)
