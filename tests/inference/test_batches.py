"""Descent over batches of the data, and how each datum pulls."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import diffsim as ds
from diffsim.inference import (
    FitOptions,
    Gaussian,
    LogNormal,
    Poisson,
    per_datum_gradients,
)


T = jnp.linspace(0.0, 3.0, 200)
DATA = 2 * np.exp(-0.7 * np.asarray(T)) + 0.05 * np.random.default_rng(1).normal(
    size=200
)
START = {"h": 1.0, "r": 1.0}


def decay(m):
    return m["h"] * jnp.exp(-m["r"] * T)


def some(m, rows):
    return m["h"] * jnp.exp(-m["r"] * T[rows])


def batches(count, size=20):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.choice(200, size, replace=False)


def test_descent_over_batches_ends_near_the_optimum_of_all_data():
    schedule = optax.exponential_decay(0.05, 60, 0.7)
    found = ds.fit(
        some,
        START,
        DATA,
        noise=Gaussian(0.05),
        solver=optax.adam(schedule),
        options=FitOptions(batches=batches(900)),
    )
    exact = ds.fit(decay, START, DATA, noise=Gaussian(0.05))
    assert np.all(np.abs(found.values - exact.values) < 0.5 * exact.stderr)
    np.testing.assert_allclose(found.stderr, exact.stderr, rtol=1e-2)
    assert len(found.history["gradient_norm"]) == 900


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"solver": None}, "batches are for an Optax optimizer"),
        ({"solver": optax.lbfgs()}, "without a line search"),
        ({"predict": decay}, r"predict must take \(model, rows\)"),
        ({"noise": Gaussian(covariance=np.eye(200))}, "independent noise"),
        ({"batches": [np.array([0, 200])]}, "row numbers from 0 to 199"),
        ({"batches": [np.array([0.5])]}, "row numbers from 0 to 199"),
    ],
)
def test_invalid_batches_raise_value_error(change, words):
    given = {"predict": some, "noise": Gaussian(0.05), "solver": optax.adam(1e-2)}
    given |= {"batches": batches(2)} | change
    options = FitOptions(batches=given.pop("batches"))
    with pytest.raises(ValueError, match=words):
        ds.fit(given.pop("predict"), START, DATA, options=options, **given)


def test_gradients_of_each_datum_are_those_of_its_density():
    """Closed forms for Gaussian, Poisson and log-normal data; 0 where masked."""
    model = {"h": 2.0, "r": 0.7}
    mean = np.asarray(decay(model))
    slope = np.stack([mean / 2.0, -np.asarray(T) * mean], axis=1)
    mask = np.arange(200) != 3
    cases = [
        (Gaussian(0.05, mask=mask), DATA, (mean - DATA) / 0.05**2 * mask),
        (Poisson(), np.round(3 * mean), 1 - np.round(3 * mean) / mean),
        (LogNormal(0.1), np.abs(DATA), np.log(mean / np.abs(DATA)) / 0.01 / mean),
    ]
    for noise, data, pull in cases:
        found = per_datum_gradients(decay, model, data, noise=noise)
        np.testing.assert_allclose(found, pull[:, None] * slope, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="data that are correlated"):
        per_datum_gradients(decay, model, DATA, noise=Gaussian(covariance=np.eye(200)))
