"""Scales, transforms, bounds and priors: their effect on values and error bars."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.inference import FitOptions, Free, Gaussian, fisher, fit


TIMES = np.linspace(0, 4, 40)
RNG = np.random.default_rng(2)
DATA = 2 * np.exp(-0.5 * TIMES) + 0.3 + 0.05 * RNG.normal(size=40)
START = {"a": 1.5, "rate": 1.0, "floor": 0.1}
NOISE = Gaussian(0.05)


def decay(model):
    return model["a"] * jnp.exp(-model["rate"] * TIMES) + model["floor"]


@pytest.fixture(scope="module")
def plain():
    return fit(decay, START, DATA, noise=NOISE)


class Reciprocal:
    """A user's own transform, which decreases."""

    def forward(self, x):
        return 1 / x

    def inverse(self, u):
        return 1 / u


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param("log", marks=pytest.mark.slow),
        pytest.param((lambda x: 1 / x, lambda u: 1 / u), marks=pytest.mark.slow),
        Reciprocal(),
    ],
    ids=["log", "decreasing", "own"],
)
def test_a_transform_changes_neither_values_nor_error_bars(plain, transform):
    free = {"a": Free(), "rate": Free(transform=transform), "floor": Free()}
    found = fit(decay, START, DATA, noise=NOISE, free=free)
    order = [plain.names.index(name) for name in found.names]
    np.testing.assert_allclose(found.values, plain.values[np.array(order)], rtol=1e-7)
    expected = plain.covariance[np.ix_(order, order)]
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-6)


def test_bounded_fit_is_that_of_scipy_and_flags_the_bound(plain):
    free = {"a": Free(), "rate": Free(bounds=(0.6, None)), "floor": Free(bounds=(0, 1))}
    found = fit(decay, START, DATA, noise=NOISE, free=free)
    bounded = scipy.optimize.least_squares(
        lambda x: np.asarray(decay(dict(zip(free, x, strict=True))) - DATA) / 0.05,
        [1.5, 1.0, 0.1],
        bounds=([-np.inf, 0.6, 0], [np.inf, np.inf, 1]),
        xtol=1e-12,
        ftol=1e-12,
    )
    np.testing.assert_allclose(found.values, bounded.x, rtol=1e-5)  # finite differences
    assert found.status == RESULTS.successful
    np.testing.assert_array_equal(found.at_bound, [False, True, False])
    assert found.values[1] == 0.6 and np.isnan(found.stderr[1])
    assert "at its lower bound" in str(found)
    # The others' error bars are those with the bounded one fixed there.
    fixed = found.fisher.fix("rate").stderr
    np.testing.assert_allclose(found.stderr[np.array([0, 2])], fixed, rtol=1e-10)
    rows = np.stack([np.exp(-0.6 * TIMES), np.ones(40)], axis=1) / 0.05
    dense = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))
    np.testing.assert_allclose(fixed, dense, rtol=1e-10)
    assert found.dof == 38


def test_bounds_that_do_not_bind_change_nothing(plain):
    free = {name: Free(bounds=(-10, 10)) for name in plain.names}
    found = fit(decay, START, DATA, noise=NOISE, free=free)
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-9)
    assert not np.any(found.at_bound)


ADAM = optax.adam(optax.cosine_decay_schedule(0.1, 1500))


@pytest.mark.parametrize(
    "solver", first_plain([None, (ADAM,)]), ids=["default", "adam"]
)
def test_bounds_hold_under_a_transform_and_in_gradient_descent(solver):
    free = {name: Free() for name in START}
    free["rate"] = Free(transform="log", bounds=(0.6, 3))
    given = {"noise": NOISE, "free": free, "options": FitOptions(1500)}
    found = fit(decay, START, DATA, solver=solver, **given)
    assert found.at_bound[1] and found.values[1] == pytest.approx(0.6, rel=1e-12)
    rows = np.stack([np.exp(-0.6 * TIMES), np.ones(40)], axis=1)
    exact = np.linalg.lstsq(rows, DATA)[0]
    np.testing.assert_allclose(found.values[np.array([0, 2])], exact, atol=2e-3)


def test_prior_acts_as_one_more_datum():
    free = {"a": Free(), "rate": Free(prior=(0.7, 0.02)), "floor": Free()}
    found = fit(decay, START, DATA, noise=NOISE, free=free)

    def residual(x):
        model = dict(zip(free, x, strict=True))
        data = np.asarray(decay(model) - DATA) / 0.05
        return np.append(data, (x[1] - 0.7) / 0.02)

    both = scipy.optimize.least_squares(residual, [1.5, 1, 0.1], xtol=1e-14, ftol=1e-14)
    np.testing.assert_allclose(found.values, both.x, rtol=1e-6)
    assert abs(found.loss - both.cost) < 1e-8
    assert found.chi2 < 2 * found.loss, "chi2 is that of the data alone"
    assert found.dof == 37


def test_gradient_descent_steps_in_units_of_the_scale():
    """One step of sgd(1): z moves by the gradient in z, x by scale² times that in x."""

    def predict(model):
        return model["x"] * np.ones(2)

    for scale in (0.1, 0.3):
        found = fit(
            predict,
            {"x": 1.0},
            np.full(2, 0.9),
            noise=Gaussian(1.0),
            free={"x": Free(scale=scale)},
            solver=optax.sgd(1.0),
            options=FitOptions(2),
        )
        assert abs(found.values[0] - (1 - scale**2 * 0.2)) < 1e-14


def test_only_free_parameters_change(plain):
    found = fit(decay, START, DATA, noise=NOISE, free=["rate", "a"])
    assert found.names == ("rate", "a")
    assert found.model["floor"] == 0.1
    by_function = fit(
        decay, START, DATA, noise=NOISE, free=lambda m: (m["rate"], m["a"])
    )
    np.testing.assert_allclose(by_function.values, found.values, rtol=1e-12)


def test_leaf_may_be_free_where_others_share_a_name():
    model = {"a": {"b": 0.0}, "a.b": 1.0, "c": 2.0}
    found = fisher(lambda m: m["c"] * TIMES, model, noise=NOISE, free=["c"])
    assert found.names == ("c",)


@pytest.mark.parametrize("free", [["k", "a"], {"k": Free(), "a": Free()}])
def test_parameters_keep_the_order_given_in_free(free):
    def line(model):
        return model["a"] + model["k"] * TIMES

    model, data = {"a": 1.0, "k": 2.0}, 1 + 2 * TIMES
    found = fit(line, model, data, noise=NOISE, free=free)
    assert found.names == ("k", "a")
    np.testing.assert_allclose(found.values, [2.0, 1.0])
