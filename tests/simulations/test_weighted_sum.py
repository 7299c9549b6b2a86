"""Batched tangents of weighted sums equal single ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import _tuning
from diffsim.simulations._integrate._step import weighted_sum


_WEIGHTS = jnp.asarray([0.3, -1.2, 0.5])


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("dtype", first_plain([np.complex128, np.float64, np.float32]))
@pytest.mark.parametrize("many", [1, 10**9])
def test_derivatives_by_the_rates_are_the_weights(many, dtype, shape, monkeypatch):
    monkeypatch.setattr(_tuning, "TANGENTS_OF_RATES_BY_MATRIX", many)
    rng = np.random.default_rng(0)
    weights = _WEIGHTS.astype(dtype)
    rates = jnp.asarray(rng.normal(size=(3, *shape))).astype(dtype)
    moved = jnp.asarray(rng.normal(size=(7, 3, *shape))).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13

    def sums(rates):
        return weighted_sum(weights, rates)

    expected = np.tensordot(np.asarray(moved), np.asarray(weights), axes=(1, 0))
    push = jax.vmap(lambda d: jax.jvp(sums, (rates,), (d,))[1])
    np.testing.assert_allclose(jax.jit(push)(moved), expected, atol=tolerance)
    found, pull = jax.vjp(sums, rates)
    bars = moved[:, 0]
    back = jax.jit(jax.vmap(lambda bar: pull(bar)[0]))(bars)
    each = (
        np.asarray(weights).reshape(-1, *[1] * len(shape)) * np.asarray(bars)[:, None]
    )
    np.testing.assert_allclose(back, each, atol=tolerance)
    np.testing.assert_allclose(
        found, np.tensordot(np.asarray(weights), np.asarray(rates), 1), atol=tolerance
    )


def test_derivatives_by_the_weights_are_the_rates():
    rates = jnp.arange(12.0).reshape(3, 4)
    found = jax.jacfwd(lambda w: weighted_sum(w, rates))(_WEIGHTS)
    np.testing.assert_allclose(found, rates.T)
