"""Profiles, contours and what else a fit makes of itself."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim.inference import Fit, Free, Gaussian
from diffsim.inference._profile import crossing


T = np.linspace(0.0, 3.0, 12)
DATA = 2 * np.exp(-0.7 * T) + 0.3 * np.random.default_rng(4).normal(size=12)


def decay(m):
    return m["h"] * jnp.exp(-m["r"] * T)


@pytest.fixture(scope="module")
def best():
    return ds.fit(decay, {"h": 1.0, "r": 1.0}, DATA, noise=Gaussian(0.3))


@pytest.mark.slow
def test_profile_of_a_linear_parameter_is_its_error_bar():
    """χ² is a parabola: both errors are the standard deviation, at any level."""
    found = ds.fit(
        lambda m: m["a"] + m["b"] * T, {"a": 0.0, "b": 0.0}, DATA, noise=Gaussian(0.3)
    )
    for level in (1, 3.0):
        low, high = found.profile("a", level).errors
        exact = level * float(found.stderr[0])
        np.testing.assert_allclose([-low, high], exact, rtol=1e-7)
    assert "1 sigma, profile likelihood" in repr(found.profile("a"))


@pytest.mark.slow
def test_profile_does_not_depend_on_the_coordinates(best):
    free = {"h": Free(), "r": Free(transform="log")}
    other = ds.fit(decay, {"h": 1.0, "r": 1.0}, DATA, noise=Gaussian(0.3), free=free)
    np.testing.assert_allclose(
        other.profile("r").errors, best.profile("r").errors, rtol=1e-6
    )


def test_profile_ends_at_a_bound(best):
    edge = float(best.values[1]) + 0.5 * float(best.stderr[1])
    free = {"h": Free(), "r": Free(bounds=(None, edge))}
    found = ds.fit(decay, {"h": 1.0, "r": 0.5}, DATA, noise=Gaussian(0.3), free=free)
    interval = found.profile("r")
    assert interval.at_bound == (False, True)
    assert interval.upper == pytest.approx(edge, rel=1e-12)
    assert interval.lower == pytest.approx(float(best.profile("r").lower), rel=1e-6)
    assert "the upper end is a bound" in repr(interval)


def test_rise_that_never_reaches_its_level_ends_at_infinity():
    assert crossing(lambda z: 0.0, 1.0, first=0.1, limit=np.inf) == (np.inf, False)


@pytest.mark.slow
def test_profile_of_what_data_leave_open_is_infinite():
    found = ds.fit(
        lambda m: (m["a"] + m["b"]) * T, {"a": 1.0, "b": 1.0}, DATA, noise=Gaussian(0.3)
    )
    interval = found.profile("a")
    assert interval.lower == -np.inf and interval.upper == np.inf


def test_contour_of_linear_parameters_is_the_ellipse():
    found = ds.fit(
        lambda m: m["a"] + m["b"] * T, {"a": 0.0, "b": 0.0}, DATA, noise=Gaussian(0.3)
    )
    curve = found.contour("a", "b", 0.9, points=5)
    away = np.asarray(curve.points) - np.asarray(curve.best)
    inverse = np.linalg.inv(np.asarray(found.covariance))
    distance = np.einsum("ia,ab,ib->i", away, inverse, away)
    np.testing.assert_allclose(distance, -2 * np.log(0.1), rtol=1e-6)
    assert "5 points, 0.9 of the probability" in repr(curve)


@pytest.mark.parametrize("bounds", [(0.0, None), (None, 0.0)])
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_contour_beside_a_bound_is_the_part_of_the_region_inside(bounds, order):
    """The area within 2ΔL of the best point at the bound, beside that of a grid."""
    sign = 1.0 if bounds[1] is None else -1.0
    fit = ds.fit(
        lambda m: jnp.stack([m["a"] + m["b"], m["b"]]),
        {"a": sign, "b": 1.0},
        jnp.array([1 - sign, 1.0]),
        noise=Gaussian(1.0),
        free={"a": Free(bounds=bounds), "b": Free()},
    )
    assert fit.at_bound[0]
    curve = fit.contour(*order, 0.6827, points=40)
    x, y = np.asarray(curve.points).T
    area = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
    a, b = np.meshgrid(sign * np.linspace(0, 3, 1501), np.linspace(-3, 4, 1501))
    rise = (a + b - 1 + sign) ** 2 + (b - 1) ** 2 - 0.5
    exact = 21 * np.mean(rise < -2 * np.log1p(-0.6827))
    np.testing.assert_allclose(area, exact, rtol=0.005)
    on_bound = np.asarray(curve.points)[:, order.index("a")] == 0
    np.testing.assert_array_equal(curve.at_bound, on_bound)
    assert np.ptp(np.asarray(curve.points)[on_bound][:, order.index("b")]) > 2.1


def test_logit_at_its_upper_end_has_a_profile():
    logit = jax.scipy.special.logit, jax.nn.sigmoid
    fit = ds.fit(
        lambda m: jnp.stack([m["p"], m["q"]]),
        {"p": 0.5, "q": 0.4},
        np.array([1.1, 0.3]),
        noise=Gaussian(0.1),
        free={"p": Free(transform=logit), "q": Free()},
    )
    assert fit.values[0] == 1
    np.testing.assert_array_equal(fit.at_bound, [True, False])
    assert fit.dof == 1
    found = fit.profile("p")
    np.testing.assert_allclose(found.lower, 1.1 - 0.02**0.5, rtol=1e-6)
    assert found.upper == 1 and found.at_bound == (False, True)


def test_function_of_the_parameters_has_the_error_bar_of_the_chain_rule(best):
    """The half-life ln 2/r, and the integral h/r with the correlation."""
    half = best.propagate(lambda m: jnp.log(2.0) / m["r"])
    r, sd = float(best.values[1]), float(best.stderr[1])
    assert half.value == pytest.approx(np.log(2) / r)
    assert half.stderr == pytest.approx(np.log(2) / r**2 * sd)
    area = best.propagate(lambda m: {"area": m["h"] / m["r"]})
    slope = np.array([1 / r, -float(best.values[0]) / r**2])
    exact = np.sqrt(slope @ np.asarray(best.covariance) @ slope)
    assert area.stderr["area"] == pytest.approx(exact)


def test_a_fit_is_saved_and_loaded(best, tmp_path):
    best.save(tmp_path / "fit.npz")
    found = Fit.load(tmp_path / "fit.npz")
    assert repr(found) == repr(best)
    with pytest.raises(ValueError, match="profile needs predict and the data"):
        found.profile("r")
    ds.save(tmp_path / "other.npz", {"a": 1.0})
    with pytest.raises(ValueError, match="holds no fit"):
        Fit.load(tmp_path / "other.npz")


def test_a_fit_is_numbers_for_json(best):
    found = json.loads(json.dumps(best.to_dict()))
    assert found["parameters"]["r"]["value"] == float(best.values[1])
    assert found["chi2"] == float(best.chi2) and found["status"] == "successful"


def test_data_stand_beside_what_is_expected_of_them(best):
    (one,) = best.fitted_data()
    np.testing.assert_allclose(one.expected, decay(best.model), rtol=1e-12)
    np.testing.assert_allclose(one.residuals, (DATA - one.expected) / 0.3, rtol=1e-9)
    np.testing.assert_allclose(one.stderr, 0.3)
    assert float(jnp.sum(one.residuals**2)) == pytest.approx(float(best.chi2))


def test_observed_error_bars_are_those_of_the_full_hessian(best):
    def loss(x):
        residual = (x[0] * jnp.exp(-x[1] * T) - DATA) / 0.3
        return jnp.sum(residual**2) / 2

    exact = np.linalg.inv(np.asarray(jax.jit(jax.hessian(loss))(best.values)))
    np.testing.assert_allclose(best.observed().covariance, exact, rtol=1e-9)
    options = ds.inference.FitOptions(observed=True)
    given = {"noise": Gaussian(0.3), "options": options}
    found = ds.fit(decay, {"h": 1.0, "r": 1.0}, DATA, **given)
    np.testing.assert_allclose(found.covariance, exact, rtol=1e-6)
    assert "full second derivative" in str(found)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda f: f.profile("q"), "is no parameter"),
        (lambda f: f.profile("r", 0), "level must be positive"),
        (lambda f: f.contour("r", "r"), "two parameters, got 'r' twice"),
        (lambda f: f.contour("h", "r", 1.0), "between 0 and 1"),
        (lambda f: f.propagate(lambda: 0.0), r"must take \(model\)"),
    ],
)
def test_invalid_arguments_raise_value_error(best, act, words):
    with pytest.raises(ValueError, match=words):
        act(best)
