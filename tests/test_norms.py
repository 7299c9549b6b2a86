"""The max norm and machine epsilon of a pytree, and the difference of two."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._linalg import largest_difference, machine_epsilon, max_norm


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_max_norm_is_infinite_where_an_entry_is_nan(count):
    tree = {"a": jnp.arange(3.0), "b": -2 - jnp.arange(float(count))}
    assert max_norm(tree) == count + 1
    tree["b"] = tree["b"].at[count // 2].set(jnp.nan)
    assert np.isposinf(max_norm(tree))


def test_machine_epsilon_of_a_pytree_is_that_of_its_coarsest_leaf():
    tree = [jnp.ones(2), jnp.ones(1, jnp.float32)]
    assert machine_epsilon(tree) == np.finfo(np.float32).eps


def test_largest_difference_is_over_all_numeric_leaves():
    a = {"x": jnp.array([1.0, jnp.nan]), "n": jnp.array([3]), "key": jax.random.key(0)}
    b = {"x": jnp.array([1.5, jnp.nan]), "n": jnp.array([5]), "key": jax.random.key(1)}
    assert largest_difference(a, b) == 2
    b["x"] = b["x"].at[1].set(0)
    assert np.isposinf(largest_difference(a, b))
