"""Inputs that a fit, a forecast or their plots cannot take raise `ValueError`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import plots
from diffsim._results import RESULTS
from diffsim.inference import Free, Gaussian, fisher, fit
from diffsim.verify import taylor_test


X = np.linspace(0, 1, 5)
LINE = {"a": 1.0, "b": 2.0}
KNOWN = Gaussian(0.1)


def line(m):
    return m["a"] + m["b"] * X


def test_fit_needs_data():
    with pytest.raises(ValueError, match=r"^data must be .*fisher"):
        fit(line, LINE, None, noise=KNOWN)


@pytest.mark.parametrize("free", [["a.b"], None, {"a.b": Free()}])
def test_leaves_with_the_same_name_raise_value_error(free):
    model = {"a": {"b": 0.0}, "a.b": 1.0}
    with pytest.raises(ValueError, match=r"a\.b.*\['a'\]\['b'\].*\['a\.b'\]"):
        fisher(lambda m: m["a.b"] * X + m["a"]["b"], model, noise=KNOWN, free=free)


def test_leaf_may_be_free_where_others_share_a_name():
    model = {"a": {"b": 0.0}, "a.b": 1.0, "c": 2.0}
    found = fisher(lambda m: m["c"] * X, model, noise=KNOWN, free=["c"])
    assert found.names == ("c",)


def test_transform_by_numpy_raises_value_error():
    free = {"a": Free(transform=(np.log, np.exp)), "b": Free()}
    with pytest.raises(ValueError, match=r"transform.*NumPy.*jax\.numpy"):
        fit(line, LINE, line(LINE), noise=KNOWN, free=free)


@pytest.fixture(scope="module")
def fits():
    data = np.stack([line(LINE), line(LINE) + 0.1])
    return jax.vmap(lambda d: fit(line, LINE, d, noise=KNOWN))(data)


@pytest.mark.parametrize(
    "show",
    [lambda f: [f.flags], lambda f: plots.corner(f).size, lambda f: [f.fisher.stderr]],
)
def test_batch_of_fits_raises_value_error(fits, show):
    with pytest.raises(ValueError, match=r"jax\.tree\.map\(lambda x: x\[0\]"):
        show(fits)
    assert show(jax.tree.map(lambda x: x[0], fits))


@pytest.mark.parametrize("truths", [{"a": 1.0}, "ab", [1, "b"], [np.nan, 1.0]])
def test_invalid_truths_of_a_corner_plot_raise_value_error(truths):
    found = fisher(line, LINE, noise=KNOWN)
    with pytest.raises(ValueError, match=r"^truths must be"):
        plots.corner(found, truths=truths)


@pytest.mark.parametrize("units", [0.0, -1.0, np.inf, [1.0, np.nan]])
def test_invalid_units_of_a_corner_plot_raise_value_error(units):
    found = fisher(line, LINE, noise=KNOWN)
    with pytest.raises(ValueError, match=r"^units must be (finite|positive)"):
        plots.corner(found, units=units)


def test_numpy_in_a_taylor_test_raises_value_error():
    with pytest.raises(ValueError, match=r"function.*NumPy.*jax\.numpy"):
        taylor_test(lambda v: np.sin(v), jnp.ones(3))


def test_floats_in_inputs_of_a_taylor_test_become_arrays():
    found = taylor_test(lambda m: jnp.sin(m["a"] * m["b"]), LINE)
    assert found.passed and list(found.slopes) == ["a", "b"]


def test_fisher_information_adds_by_parameter_name():
    one = fisher(line, LINE, noise=KNOWN, free=["a", "b"])
    other = fisher(line, LINE, noise=Gaussian(0.3), free=["b", "a"])
    found = one + other
    assert found.names == ("a", "b")
    exact = one.matrix + other.matrix[::-1, ::-1]
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-12)


def test_integer_array_as_model_raises_value_error():
    with pytest.raises(ValueError, match=r"integers of the array itself;"):
        fisher(lambda m: m[0] + m[1] * X, np.array([0, 1]), noise=KNOWN)


def test_too_small_sigma_sets_the_status_chi2_not_finite():
    sigma = np.array([1, 1, 1e-300, 1, 1])
    found = fit(line, LINE, np.ones(5), noise=Gaussian(sigma))
    assert found.status == RESULTS.chi2_not_finite
    assert "a sigma is too small" in str(found)


@pytest.mark.parametrize("sigma", [np.inf, [1, 1, np.inf, 1, 1]])
def test_infinite_sigma_raises_value_error(sigma):
    with pytest.raises(ValueError, match=r"^sigma must be finite.*mask="):
        Gaussian(np.asarray(sigma))
    assert Gaussian(np.array([1, np.inf]), mask=np.array([True, False])).mask.sum() == 1
