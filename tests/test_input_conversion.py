"""Arrays of other dtypes and byte orders keep their values."""

import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody
from diffsim._validation import as_floating, as_vector
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_X, _V = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([[0.0, 0, 0], [0, 1, 0]])
_SYSTEM = nbody.NBody(nbody.Bodies([1.0, 1e-3], _X, _V))
_METHOD = Method(Leapfrog(), 0.5)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.array([1.5, 2], ">f8"), jnp.float64),
        (np.array([1.5, 2], ">f4"), jnp.float32),
        (np.array([1.5, 2], "<f4"), jnp.float32),
        (np.array([1.5, 2], "g"), jnp.float64),
        ([np.longdouble(1.5), 2], jnp.float64),
        ((np.array(1.5, ">f8"), 2), jnp.float64),
        ([[1.5, 2]], jnp.float64),
        ([np.float32(1.5), 2.0], jnp.float32),
        (np.ma.array([1.5, 2]), jnp.float64),
    ],
)
def test_foreign_dtypes_and_byte_orders_are_converted(given, dtype):
    found = as_floating("a", given)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.reshape(-1), [1.5, 2])


def test_arrays_of_numpy_compile_nothing(compilations):
    shape = (3, 17)  # that of no other array in this file
    for given in (np.ones(shape), np.ones(shape, int), np.ones(shape).tolist()):
        found = as_floating("a", given)
        assert found.dtype == jnp.float64 and found.shape == shape
    joined = as_vector([found, np.ones((2, 7), np.float32), 1.0])
    assert joined.dtype == jnp.float64 and joined.shape == (66,)
    assert compilations() == 0


def test_concatenated_leaves_have_the_promoted_dtype_of_jax():
    for leaves in ([np.float32([1, 2]), 3.0], [np.float32([1]), np.arange(2)], [1, 2]):
        found = as_vector(leaves)
        expected = jnp.concatenate([jnp.reshape(jnp.asarray(x), -1) for x in leaves])
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    "given", [[10**30, 10**24], (10**30, 10**24), np.array([10**30, 10**24])]
)
def test_integers_beyond_int64_become_floats(given):
    found = nbody.Bodies(given, _X, _V).masses
    np.testing.assert_array_equal(found, [1e30, 1e24])


def test_scalar_integer_beyond_int64_becomes_a_float():
    assert as_floating("a", 10**30) == 1e30
    assert as_floating("a", -(10**30)) == -1e30
    assert as_floating("a", np.array([1, 2], ">i4")).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [">f8", "g", ">f4", ">i4"])
def test_times_of_foreign_dtypes_keep_their_values(dtype):
    found = simulate(_SYSTEM, np.array([1, 2], dtype), _METHOD)
    expected = simulate(_SYSTEM, [1.0, 2.0], _METHOD)
    np.testing.assert_array_equal(found.times, [1, 2])
    np.testing.assert_array_equal(found.states.positions, expected.states.positions)
