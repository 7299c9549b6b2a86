"""What is asked of the rows of a log is asked of those that were taken."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.simulations._events._row_states import of_rows_taken


def _rows(size):
    return np.arange(float(size)), {"x": np.arange(2.0 * size).reshape(size, 2)}


def _asked(t, y):
    return {"sum": t + jnp.sum(y["x"]), "late": t > 2}


@pytest.mark.parametrize(
    ("size", "count"), [(5, 0), (5, 3), (5, 5), (700, 600), (1024, 1024), (1030, 1030)]
)
def test_every_row_that_was_taken_is_asked(size, count):
    taken = jax.jit(functools.partial(of_rows_taken, _asked))
    found = jax.tree.map(np.asarray, taken(_rows(size), jnp.asarray(count)))
    every = jax.tree.map(np.asarray, jax.jit(jax.vmap(_asked))(*_rows(size)))
    for name, values in found.items():
        assert values.dtype == every[name].dtype and len(values) == size
        np.testing.assert_array_equal(values[:count], every[name][:count])
        # Behind them no more than a block is asked.
        np.testing.assert_array_equal(values[count + 512 :], 0)


def test_runs_of_a_batch_have_counts_of_their_own():
    counts = jnp.array([0, 513, 1300])
    rows = jax.tree.map(jnp.asarray, _rows(1300))
    taken = jax.vmap(lambda n: of_rows_taken(_asked, rows, n)["sum"])
    found = np.asarray(jax.jit(taken)(counts))
    every = np.asarray(jax.jit(jax.vmap(_asked))(*rows)["sum"])
    for n, values in zip(counts.tolist(), found, strict=True):
        np.testing.assert_array_equal(values[:n], every[:n])


def test_what_a_condition_hides_has_no_derivative():
    def total(c):
        rows = jnp.arange(600.0) * c, jnp.ones(600)
        return jnp.sum(of_rows_taken(lambda t, y: c * t * y, rows, jnp.asarray(600)))

    assert jax.grad(total)(2.0) == 0
    assert jax.jvp(total, (2.0,), (1.0,))[1] == 0
