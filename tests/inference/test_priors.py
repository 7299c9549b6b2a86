"""Priors of every kind, ties and fixed parameters: the fit is SciPy's of the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from rows import first_plain

import diffsim as ds
from diffsim import RESULTS
from diffsim.inference import FitOptions, Free, Gaussian, Prior


X = np.linspace(0.0, 3.0, 25)
DATA = 1 + 0.5 * X + 0.2 * np.random.default_rng(2).normal(size=25)
START = {"a": 0.5, "b": 0.5}
NOISE = Gaussian(0.2)


def line(m):
    return m["a"] + m["b"] * X


class Density:
    """A distribution as its log density, with the bounds of its support."""

    def __init__(self, log_prob, lower=None):
        self.log_prob = log_prob
        if lower is not None:
            self.support = Support(lower)


class Support:
    """As NumPyro's constraints are, positive and open at its end."""

    def __init__(self, lower):
        self.lower_bound = lower

    def __call__(self, x):
        return x > self.lower_bound


LOG_NORMAL = Density(lambda x: -((jnp.log(x) + 1) ** 2) / 2 - jnp.log(x), lower=0.0)
HALF_NORMAL = Density(lambda x: -(x**2) / 2, lower=0.0)
JOINT = Density(lambda x: -jnp.sum((x - jnp.mean(x)) ** 2) / (2 * 0.1**2))


def best(loss, start):
    """The optimum, by SciPy."""
    options = {"xatol": 1e-11, "fatol": 1e-14, "maxiter": 4000, "maxfev": 4000}
    value = jax.jit(loss)
    given = {"method": "Nelder-Mead", "options": options}
    found = scipy.optimize.minimize(lambda x: float(value(x)), start, **given)
    return found.x


def error_bars(loss, values):
    """Of the second derivative there."""
    return np.sqrt(np.diagonal(np.linalg.inv(jax.jit(jax.hessian(loss))(values))))


def chi2(a, b):
    return jnp.sum((a + b * X - DATA) ** 2) / (2 * 0.2**2)


def test_list_of_priors_is_one_for_each_entry():
    free = {"[:]": Free(prior=[(1.0, 0.02), LOG_NORMAL])}

    def predict(c):
        return c[0] + c[1] * X

    found = ds.fit(predict, jnp.array([0.5, 0.5]), DATA, noise=NOISE, free=free)

    def loss(x):
        gaussian = (x[0] - 1.0) ** 2 / (2 * 0.02**2)
        return chi2(*x) + gaussian - LOG_NORMAL.log_prob(x[1])

    values = best(loss, np.array([0.9, 0.5]))
    np.testing.assert_allclose(found.values, values, rtol=1e-6)
    # One density is not concave here, which only the observed information knows.
    errors = error_bars(loss, values)
    np.testing.assert_allclose(found.observed().stderr, errors, rtol=1e-5)
    np.testing.assert_array_equal(found.lower, [-np.inf, 0.0])


@pytest.mark.slow
def test_prior_of_several_entries_together_is_a_matrix_of_curvatures():
    def predict(c):
        return c[0] + c[1] * X

    free = {"[:]": Free(prior=JOINT)}
    found = ds.fit(predict, jnp.array([0.5, 0.5]), DATA, noise=NOISE, free=free)

    def loss(x):
        return chi2(*x) - JOINT.log_prob(x)

    values = best(loss, np.array([0.9, 0.5]))
    np.testing.assert_allclose(found.values, values, rtol=1e-6)
    np.testing.assert_allclose(found.stderr, error_bars(loss, values), rtol=1e-5)


@pytest.mark.parametrize(
    "prior", first_plain([((2.0, 0.01),), Density(lambda r: -(jnp.abs(r) ** 3))])
)
def test_prior_on_a_function_is_part_of_the_posterior(prior):
    ratio = Prior(lambda m: m["a"] / m["b"], prior)
    found = ds.fit(line, START, DATA, noise=NOISE, priors=[ratio])

    def loss(x):
        r = x[0] / x[1]
        other = (r - 2.0) ** 2 / (2 * 0.01**2) if prior == (2.0, 0.01) else r**3
        return chi2(*x) + other

    values = best(loss, np.array([0.9, 0.5]))
    np.testing.assert_allclose(found.values, values, rtol=1e-6)


@pytest.mark.slow
def test_fit_ends_at_the_end_of_a_support():
    """A half-normal has a finite density at 0, where this optimum lies."""
    free = {"a": Free(prior=HALF_NORMAL), "b": Free()}
    found = ds.fit(line, START, DATA - 1.5, noise=NOISE, free=free)
    assert found.status == RESULTS.successful
    assert found.at_bound[0] and found.values[0] == 0
    slope = np.sum(X * (DATA - 1.5)) / np.sum(X**2)
    assert found.values[1] == pytest.approx(slope, rel=1e-8)


def test_tied_and_fixed_parameters_follow():
    free = {"a": Free(tied=lambda m: 2 * m["b"]), "b": Free(unit="m/s")}
    found = ds.fit(line, START, DATA, noise=NOISE, free=free)
    shape = 2 + X
    exact = np.sum(shape * DATA) / np.sum(shape**2)
    sd = 0.2 / np.sqrt(np.sum(shape**2))
    assert found.names == ("b",) and found.tied_names == ("a",)
    np.testing.assert_allclose(found.model["a"], 2 * exact, rtol=1e-9)
    np.testing.assert_allclose(found.tied_stderr, [2 * sd], rtol=1e-9)
    assert "b [m/s]" in str(found) and "tied" in str(found)
    same = ds.fit(
        line, START, DATA, noise=NOISE, free={"a": Free(tied="b"), "b": Free()}
    )
    assert same.model["a"] == same.model["b"]
    fixed = ds.fit(line, START, DATA, noise=NOISE, options=FitOptions(fixed="a"))
    assert fixed.names == ("b",) and fixed.model["a"] == 0.5


def test_a_key_of_free_may_be_a_function_of_the_model():
    by_path = {"a": Free(prior=(1.0, 0.01)), "b": Free()}
    by_where = {(lambda m: m["a"]): Free(prior=(1.0, 0.01)), (lambda m: m["b"]): Free()}
    fits = [ds.fit(line, START, DATA, noise=NOISE, free=f) for f in (by_path, by_where)]
    assert fits[0].names == fits[1].names == ("a", "b")
    np.testing.assert_array_equal(fits[0].values, fits[1].values)


def test_start_outside_of_a_prior_is_named():
    narrow = Density(lambda x: jnp.where(x > 1, 0.0, -jnp.inf))
    free = {"a": Free(prior=narrow), "b": Free()}
    found = ds.fit(line, START, DATA, noise=NOISE, free=free)
    assert found.status == RESULTS.prior_not_finite


@pytest.mark.parametrize("start", [(0.0, 0.0), (0.9, 0.6)])
def test_own_likelihood_without_curvature_far_away_is_fitted(start):
    """Huber's loss is straight where all residuals are large."""

    class Huber:
        def log_prob(self, prediction, data):
            r = jnp.abs(data - prediction) / 0.2
            return -jnp.sum(jnp.where(r < 1.5, r**2 / 2, 1.5 * r - 1.125))

    spoiled = DATA.copy()
    spoiled[[3, 9]] += 5.0
    given = dict(zip("ab", start, strict=True))
    found = ds.fit(line, given, spoiled, noise=Huber())
    assert found.status == RESULTS.successful

    def loss(x):
        return -Huber().log_prob(x[0] + x[1] * X, spoiled)

    values = best(loss, np.array([0.9, 0.5]))
    np.testing.assert_allclose(found.values, values, atol=1e-5)
    np.testing.assert_allclose(found.stderr, error_bars(loss, values), rtol=1e-4)


def test_fit_stays_in_the_support_of_a_prior_on_a_function():
    """Whose optimum is outside: the fit ends at the end, and says so."""
    data = np.array([-2.8, -3.0, -3.2])
    prior = Prior(lambda m: m["a"], HALF_NORMAL)
    found = ds.fit(
        lambda m: m["a"] * jnp.ones(3),
        {"a": 0.5},
        data,
        noise=Gaussian(0.1),
        priors=[prior],
    )
    np.testing.assert_allclose(found.values, 0, atol=1e-9)
    assert found.status == RESULTS.no_progress


def test_prior_on_an_order_keeps_it():
    """Of two decays that may be exchanged; begun out of order, there is no density."""
    t = np.linspace(0.0, 1.0, 30)

    def decays(m):
        return jnp.exp(-m["k"][0] * t) + jnp.exp(-m["k"][1] * t)

    data = decays({"k": np.array([1.0, 4.0])})
    order = Prior(lambda m: m["k"][1] - m["k"][0], HALF_NORMAL)
    given = {"noise": Gaussian(0.001), "priors": [order]}
    found = ds.fit(decays, {"k": jnp.array([2.9, 3.0])}, data, **given)
    np.testing.assert_allclose(found.values, [1, 4], rtol=1e-3)
    turned = ds.fit(decays, {"k": jnp.array([3.9, 1.0])}, data, **given)
    assert turned.status == RESULTS.prior_not_finite


def straight_flanks():
    """Densities with a slope and no curvature, or that of a tail, near the optimum."""
    named = ("Exponential", (1.0,)), ("LogUniform", (0.01, 100.0))
    named += ("Laplace", (0.0, 1.0)), ("Cauchy", (0.0, 0.3)), ("LogNormal", (0.0, 1.0))
    return named


@pytest.mark.parametrize(("name", "numbers"), straight_flanks())
def test_fits_on_flanks_of_priors_converge(name, numbers):
    """Their slope counts where their curvature, which is not positive, does not."""
    distribution = getattr(pytest.importorskip("numpyro.distributions"), name)(*numbers)
    data = jnp.array([3.3, 2.8, 3.1])
    fit = ds.fit(
        lambda model: model["x"] * jnp.ones(3),
        {"x": 2.0},
        data,
        noise=Gaussian(1.0),
        free={"x": Free(prior=distribution)},
    )
    x = jnp.linspace(2.0, 3.5, 150_001)
    log_density = distribution.log_prob(x) - jnp.sum((data[:, None] - x) ** 2, 0) / 2
    np.testing.assert_allclose(fit.values[0], x[jnp.argmax(log_density)], atol=1e-5)
    assert fit.status == ds.RESULTS.successful
    assert fit.remaining_sigma < 1e-6
    np.testing.assert_allclose(fit.stderr, 3**-0.5, rtol=1e-9)


def test_priors_that_push_onto_a_bound_say_so():
    exponential = pytest.importorskip("numpyro.distributions").Exponential(3.0)
    fit = ds.fit(
        lambda model: model["x"] * jnp.ones(3),
        {"x": 0.3},
        jnp.array([0.3, -0.2, 0.1]),
        noise=Gaussian(0.4),
        free={"x": Free(prior=exponential)},
    )
    assert fit.values == 0
    assert fit.at_bound
    assert fit.dof == 3


@pytest.mark.parametrize("joint", [False, True])
def test_slopes_of_priors_are_no_information(joint):
    """A Fisher matrix leaves open what only a slope is known of."""
    exponential = pytest.importorskip("numpyro.distributions").Exponential(1.0)
    found = ds.fisher(
        lambda model: model["a"] * jnp.ones(3),
        {"a": 1.0, "b": 2.0},
        noise=Gaussian(0.1),
        free={"a": Free(), "b": Free(prior=None if joint else exponential)},
        priors=[Prior(lambda model: model["b"], exponential)] if joint else [],
    )
    assert found.stderr[1] == np.inf
