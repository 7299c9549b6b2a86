"""Integers and PRNG keys are swept as floats are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.sweeps import sweep


_KEYS = jax.random.split(jax.random.key(7), 5)


def _model(key):
    return {"a": jnp.array(1.0), "n": jnp.array([1, 2, 3]), "key": key, "m": 4}


@pytest.mark.parametrize("batch", ["auto", None, 1, 2])
def test_runs_by_keys_draw_what_each_key_draws(batch):
    def draw(model):
        return model["a"] * jax.random.normal(model["key"], (3,))

    over = {"key": _KEYS, "a": np.arange(1.0, 6.0)}
    found = sweep(draw, _model(jax.random.key(0)), over, batch=batch)
    alone = [
        a * jax.random.normal(k, (3,)) for k, a in zip(_KEYS, over["a"], strict=True)
    ]
    np.testing.assert_allclose(found.outputs, np.stack(alone), rtol=1e-13)
    assert found.parameters["key"].shape == (5, 2)


def test_keys_of_the_older_kind_are_swept_as_well():
    old = jax.random.key_data(_KEYS)
    found = sweep(lambda m: jax.random.uniform(m["key"]), _model(old[0]), {"key": old})
    np.testing.assert_array_equal(
        found.outputs, [jax.random.uniform(key) for key in _KEYS]
    )


def test_keys_of_another_algorithm_keep_it():
    """One by one: side by side JAX lets this algorithm draw other numbers."""
    keys = jax.random.split(jax.random.key(3, impl="rbg"), 3)

    def draw(model):
        return jax.random.uniform(model["key"])

    found = sweep(draw, _model(keys[0]), {"key": keys}, batch=1)
    alone = [jax.random.uniform(key) for key in keys]
    np.testing.assert_array_equal(found.outputs, alone)


def test_integers_stay_exact_integers():
    large = np.array([2**53 + 1, 7, -(2**60)])

    def same(model):
        return model["m"], model["n"][1] * 2

    over = {"m": large, "n[1]": np.array([5, 6, 7], np.int8)}
    found = sweep(same, _model(jax.random.key(0)), over)
    np.testing.assert_array_equal(found.outputs[0], large)
    np.testing.assert_array_equal(found.outputs[1], [10, 12, 14])
    assert found.outputs[0].dtype == np.int64


def test_integers_decide_how_often_a_loop_goes_round():
    def power(model):
        return jax.lax.fori_loop(0, model["m"], lambda _, x: 2 * x, model["a"])

    found = sweep(power, _model(jax.random.key(0)), {"m": np.arange(6)})
    np.testing.assert_array_equal(found.outputs, 2.0 ** np.arange(6))
