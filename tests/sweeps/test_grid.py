"""Grids are products of their axes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from diffsim import sweeps


def test_grid_is_the_product_with_the_last_axis_fastest():
    found = sweeps.grid({"a.b[0]": [1.0, 2.0]}, c=[3.0, 4.0, 5.0])
    pairs = list(zip(found["a.b[0]"], found["c"], strict=True))
    assert pairs == list(itertools.product([1.0, 2.0], [3.0, 4.0, 5.0]))


def test_values_of_an_axis_may_be_arrays():
    vectors = np.arange(6.0).reshape(2, 3)
    found = sweeps.grid(x=vectors, y=[0.0, 1.0])
    np.testing.assert_array_equal(found["x"], vectors[[0, 0, 1, 1]])


def test_keys_of_random_numbers_may_be_an_axis():
    keys = jax.random.split(jax.random.key(0), 2)
    found = sweeps.grid(key=keys, x=[0.0, 1.0])
    assert bool(jnp.all(found["key"] == keys[jnp.array([0, 0, 1, 1])]))

    def noise(model):
        return jax.random.normal(model["key"]) + model["x"]

    drawn = sweeps.sweep(noise, {"key": keys[0], "x": jnp.array(0.0)}, found)
    theta, x, _ = drawn.to_sbi()  # keys are no parameters to be inferred
    np.testing.assert_array_equal(theta[:, 0], [0, 1, 0, 1])
    np.testing.assert_allclose(x[1::2], x[::2] + 1, rtol=1e-6)
