"""The log density for samplers: closed forms of SciPy, failures, transformations."""

import sys

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from rows import first_plain
from scipy import special, stats

from diffsim.inference import (
    Free,
    Gaussian,
    LogNormal,
    Prior,
    StudentT,
    fit,
    log_density,
)
from diffsim.simulations import AbstractSimulation, Method, simulate


LOGIT = (jax.scipy.special.logit, jax.nn.sigmoid)
PRIOR = {"prior": (0.7, 0.3)}


class Gamma(eqx.Module):
    """A distribution of a user's: of positive numbers, shape 3, mean 0.6."""

    def log_prob(self, value):
        return jax.scipy.stats.gamma.logpdf(value, 3, scale=0.2)


def logistic(lower, upper):
    def value(u):
        return lower + (upper - lower) * special.expit(u)

    def log_slope(u):
        share = special.log_expit(u) + special.log_expit(-u)
        return np.log(upper - lower) + share

    return value, log_slope


def log_uniform(lower, upper):
    """e^y with y between the logarithms of the bounds."""
    y, log_slope = logistic(np.log(lower), np.log(upper))
    return lambda u: np.exp(y(u)), lambda u: log_slope(u) + y(u)


def affine(scale):
    return lambda u: scale * u, lambda u: np.log(scale) + 0 * u


#: How the parameter varies; x(u) and ln |dx/du|; its prior, None for 1.
CASES = {
    "plain": (Free(), affine(0.5), None),
    "scale": (Free(scale=3.0), affine(3.0), None),
    "prior": (Free(**PRIOR), affine(0.3), stats.norm(0.7, 0.3)),
    "lower": (
        Free(bounds=(0.2, None), **PRIOR),
        (lambda u: 0.2 + np.exp(u), lambda u: u),
        stats.truncnorm((0.2 - 0.7) / 0.3, np.inf, 0.7, 0.3),
    ),
    "upper": (
        Free(bounds=(None, 0.9), **PRIOR),
        (lambda u: 0.9 - np.exp(u), lambda u: u),
        stats.truncnorm(-np.inf, (0.9 - 0.7) / 0.3, 0.7, 0.3),
    ),
    "both": (Free(bounds=(-1, 2)), logistic(-1, 2), stats.uniform(-1, 3)),
    "far": (
        Free(bounds=(0, 1), prior=(-3.0, 0.25)),
        logistic(0, 1),
        stats.truncnorm(12, 16, -3, 0.25),
    ),
    "open": (Free(bounds=(0.1, None)), (lambda u: 0.1 + np.exp(u), lambda u: u), None),
    "log": (
        Free(transform="log", scale=0.4, bounds=(0, None), **PRIOR),
        (lambda u: np.exp(0.4 * u), lambda u: np.log(0.4) + 0.4 * u),
        stats.truncnorm(-0.7 / 0.3, np.inf, 0.7, 0.3),
    ),
    "log, both": (
        Free(transform="log", bounds=(0.1, 2.0), **PRIOR),
        log_uniform(0.1, 2.0),
        stats.truncnorm((0.1 - 0.7) / 0.3, (2.0 - 0.7) / 0.3, 0.7, 0.3),
    ),
    "gamma": (
        Free(transform="log", prior=Gamma()),
        (lambda u: np.exp(u), lambda u: u),
        stats.gamma(3, scale=0.2),
    ),
    "logit": (Free(transform=LOGIT, bounds=(0, 1)), logistic(0, 1), stats.uniform()),
    "falling": (
        Free(transform=(lambda x: 1 / x, lambda y: 1 / y), bounds=(0.25, 2.0)),
        (
            lambda u: 1 / logistic(0.5, 4)[0](u),
            lambda u: logistic(0.5, 4)[1](u) - 2 * np.log(logistic(0.5, 4)[0](u)),
        ),
        stats.uniform(0.25, 1.75),
    ),
}
EVERY = pytest.mark.parametrize("name", CASES)
#: Cut off far from its mean, and in a coordinate that falls; the others are slow rows.
PROPER = ["far", "falling"] + [
    n for n in CASES if CASES[n][2] is not None and n not in ("far", "falling")
]
DATA = np.array([0.4, 0.8])


class Silent(eqx.Module):
    """Data that tell nothing."""

    def log_prob(self, prediction, data):
        return 0 * data * prediction


def value_of(model):
    return model["x"] * jnp.ones(2)


def of_case(name, noise):
    free = {"x": CASES[name][0]}
    return log_density(value_of, {"x": 0.5}, DATA, noise=noise, free=free)


@EVERY
def test_density_is_scipys_with_the_jacobian(name):
    density = of_case(name, Gaussian(0.2))
    found, values = jax.jit(density), jax.jit(lambda u: density.values(u))
    _, (value, log_slope), prior = CASES[name]
    for u in (-1.5, 0.3, 2.0):
        x = value(u)
        exact = np.sum(stats.norm.logpdf(DATA, x, 0.2)) + log_slope(u)
        exact += 0 if prior is None else prior.logpdf(x)
        np.testing.assert_allclose(found([u]), exact, rtol=1e-12)
        np.testing.assert_allclose(values([u]), [x], rtol=1e-14)


@pytest.mark.parametrize("name", first_plain(PROPER, 2))
def test_proper_prior_integrates_to_one_in_any_coordinate(name):
    """Without data; by SciPy's quadrature over u, to where the tails are below 1e-9."""
    density = jax.jit(of_case(name, Silent()))
    mass, _ = scipy.integrate.quad(
        lambda u: np.exp(density(jnp.array([u]))), -40, 40, points=[-2, 0, 2], limit=200
    )
    np.testing.assert_allclose(mass, 1, rtol=1e-8)


@EVERY
def test_coordinates_are_the_inverse_of_values(name):
    density = of_case(name, Gaussian(0.2))
    np.testing.assert_allclose(density.values(density.start), [0.5], rtol=1e-14)
    for u in (-3.0, 0.3, 3.0):
        again = density.coordinates(density.values([u]))
        np.testing.assert_allclose(again, [u], rtol=1e-12)


def test_values_meet_their_bounds_and_never_pass_them():
    density = of_case("both", Gaussian(0.2))
    found = [float(density.values([u])[0]) for u in (-1e3, -40.0, 40.0, 1e3)]
    assert found[0] == -1 and found[-1] == 2 and found == sorted(found)
    assert float(jax.grad(lambda u: density.values(u)[0])(jnp.array([1e3]))[0]) == 0


def test_evidence_of_a_conjugate_posterior_is_the_integral():
    """d ~ N(x, σ), x ~ N(m, s): data of covariance σ² + s² around m."""
    density = jax.jit(of_case("prior", Gaussian(0.2)))
    found, _ = scipy.integrate.quad(lambda u: np.exp(density(jnp.array([u]))), -20, 20)
    covariance = 0.2**2 * np.eye(2) + 0.3**2
    exact = stats.multivariate_normal([0.7, 0.7], covariance).pdf(DATA)
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_support_of_a_distribution_of_numpyro_is_where_the_coordinates_are():
    """Beta between 0 and 1 by the logistic function, half-normal numbers by e^u."""
    numpyro = pytest.importorskip("numpyro.distributions")
    free = {
        "x": Free(prior=numpyro.Beta(2.0, 3.0)),
        "y": Free(prior=numpyro.HalfNormal(2.0)),
    }
    start, noise = {"x": 0.5, "y": 1.0}, Gaussian(0.2)
    density = log_density(value_of, start, DATA, noise=noise, free=free)
    for u in ([0.3, -0.4], [-2.0, 1.5]):
        (x, slope), y = (f(u[0]) for f in logistic(0, 1)), np.exp(u[1])
        exact = np.sum(stats.norm.logpdf(DATA, x, 0.2)) + slope + u[1]
        exact += stats.beta(2, 3).logpdf(x) + stats.halfnorm(scale=2).logpdf(y)
        np.testing.assert_allclose(density(u), exact, rtol=1e-12)


def test_priors_on_functions_and_tied_parameters_count():
    """A Gaussian of x + y, a distribution of y/x, and z = 2x as data see it."""

    def predict(model):
        return model["z"] * jnp.ones(2)

    free = {"x": Free(), "y": Free(), "z": Free(tied=lambda m: 2 * m["x"])}
    priors = [
        Prior(lambda m: m["x"] + m["y"], (1.0, 0.5)),
        Prior(lambda m: m["y"] / m["x"], Gamma()),
    ]
    start, noise = {"x": 0.5, "y": 0.25, "z": 0.0}, Gaussian(0.2)
    density = log_density(predict, start, DATA, noise=noise, free=free, priors=priors)
    assert density.names == ("x", "y")
    x, y = 0.5 * 1.2, 0.25 * 0.9
    exact = np.sum(stats.norm.logpdf(DATA, 2 * x, 0.2)) + np.log(0.5 * 0.25)
    exact += stats.norm.logpdf(x + y, 1, 0.5) + stats.gamma(3, scale=0.2).logpdf(y / x)
    value, model = jax.jit(lambda u: (density(u), density.model(u)))([1.2, 0.9])
    np.testing.assert_allclose(value, exact, rtol=1e-12)
    assert float(model["z"]) == 2 * x


TIMES = np.linspace(0.0, 3.0, 12)


def decay(model):
    return model["height"] * jnp.exp(-model["rates"] * TIMES[:, None])


def decay_density(dtype=float, **more):
    start = {"height": np.array(2.0, dtype), "rates": np.array([0.5, 0.9], dtype)}
    free = {
        "height": Free(bounds=(0, 5), prior=(2.0, 1.0)),
        "rates": Free(transform="log", prior=(0.6, np.array([0.2, 0.3], dtype))),
    }
    data = np.asarray(decay({"height": 1.8, "rates": np.array([0.6, 0.8])}), dtype)
    noise = LogNormal(np.array(0.1, dtype))
    return log_density(decay, start, data, noise=noise, free=free, **more), data


def plain_posterior(u, data):
    """The same by hand."""
    height, rates = 5 * jax.nn.sigmoid(u[0]), jnp.exp(u[1:])
    prediction = height * jnp.exp(-rates * TIMES[:, None])
    normal = jax.scipy.stats.norm.logpdf
    log_likelihood = normal(jnp.log(data), jnp.log(prediction), 0.1) - jnp.log(data)
    log_slope = jnp.log(5 * jax.nn.sigmoid(u[0]) * jax.nn.sigmoid(-u[0])) + sum(u[1:])
    cut = np.log(stats.norm(2, 1).cdf(5) - stats.norm(2, 1).cdf(0))
    prior = jnp.sum(normal(rates, 0.6, jnp.array([0.2, 0.3]))) + normal(height, 2, 1)
    return jnp.sum(log_likelihood) + prior - cut + log_slope


def test_every_transformation_of_jax_is_that_of_the_posterior_by_hand():
    density, data = decay_density()
    u = density.start + 0.1
    several = jnp.stack([u, u - 0.3])

    def summed(f):
        """Over a loop, the derivative of which goes through its body."""
        step = lambda x: lambda total, y: (total + f(x + y), None)  # noqa: E731
        return lambda x: jax.lax.scan(step(x), 0.0, several)[0]

    ways = (
        lambda f: f(u),
        lambda f: jax.grad(f)(u),
        lambda f: jax.jacfwd(f)(u),
        lambda f: jax.hessian(f)(u),
        lambda f: jax.vmap(jax.value_and_grad(f))(several),
        lambda f: jax.jacrev(jax.grad(f))(u),
        lambda f: jax.grad(summed(f))(u),
    )
    # One program for each of the two, of which most of the time is compilation.
    found = jax.jit(lambda: [way(density) for way in ways])()
    exact = jax.jit(lambda: [way(lambda x: plain_posterior(x, data)) for way in ways])()
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(density(u), found[0], rtol=1e-12)


@pytest.mark.slow
def test_maximum_in_the_coordinates_of_a_flat_prior_is_the_fit():
    """Where dx/du is constant both have their maximum at the same x."""
    data = np.asarray(decay({"height": 1.8, "rates": np.array([0.6, 0.8])})) + 0.01
    start = {"height": 2.0, "rates": np.array([0.5, 0.9])}
    best = fit(decay, start, data, noise=StudentT(0.05, dof=4.0))
    density = log_density(decay, start, data, noise=StudentT(0.05, dof=4.0))
    u = density.coordinates(best.values)
    gradient = jax.grad(density)(u) * best.stderr / density.variables.scale
    assert np.max(np.abs(gradient)) < 1e-5
    expected = best.log_prob + np.sum(np.log(density.variables.scale))
    np.testing.assert_allclose(density(u), expected, rtol=1e-12)
    assert density.names == best.names and density.size == 3
    assert eqx.tree_equal(density.model(u), best.model, rtol=1e-14, typematch=True)


class Explosion(AbstractSimulation):
    """y' = a y², infinite at t = 1/a."""

    growth: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(())

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: args.growth * y**2)

    def default_method(self):
        return Method(diffrax.Tsit5())


METHODS = {
    "infinite state": Method(diffrax.Heun(), step=0.02),
    "too many steps": Method(diffrax.Tsit5(), max_steps=60),
}


@pytest.mark.parametrize("kind", first_plain(METHODS))
def test_failed_simulation_has_density_and_derivatives_zero(kind):
    """Exactly, in both modes, alone and beside one of a batch that does not fail."""
    times = np.linspace(0, 1, 4)

    def predict(model):
        return simulate(model, times, METHODS[kind])

    data = 1 / (1 - 0.5 * times)
    start = Explosion(jnp.array(0.4))
    density = log_density(predict, start, data, noise=Gaussian(0.1))
    good, bad = density.start, density.coordinates([3.0])
    assert density(bad) == -np.inf

    # Second derivatives of adaptive steps take ten seconds to compile.
    ways = [jax.grad, jax.jacfwd] + [jax.hessian] * (METHODS[kind].step is not None)

    @jax.jit
    def every(u):
        return density(u), *(way(density)(u) for way in ways)

    alone = every(bad)
    beside = jax.vmap(every)(jnp.stack([good, bad]))
    for value, *derivatives in (alone, [x[1] for x in beside]):
        assert value == -np.inf
        assert all(np.all(np.asarray(d) == 0) for d in derivatives)
    for one, other in zip(beside, every(good), strict=True):
        np.testing.assert_allclose(one[0], other, rtol=1e-9, atol=1e-12)
    assert np.all(np.asarray(beside[1][0]) != 0)


def test_density_that_is_not_a_number_is_zero_and_has_derivative_zero():
    """The logarithm of a negative prediction, without any simulation."""

    def root(model):
        return jnp.sqrt(model["x"]) * jnp.ones(2)

    density = log_density(root, {"x": 0.5}, DATA, noise=LogNormal(0.1))
    ways = lambda f: f, jax.grad, jax.jacfwd
    every = jax.jit(lambda u: [way(density)(u) for way in ways])
    for u in (jnp.array([-1.0]), jnp.array([jnp.nan]), jnp.array([0.0])):
        value, *derivatives = every(u)
        assert density(u) == -np.inf == value
        assert all(derivative == 0 for derivative in derivatives)


def test_gradient_that_is_not_finite_where_the_density_is_stays():
    """√x at 0 under Gaussian noise: the density is finite and its slope is not."""

    def root(model):
        return jnp.sqrt(jnp.abs(model["x"])) * jnp.ones(2)

    density = log_density(root, {"x": 0.5}, DATA, noise=Gaussian(0.1))
    u = jnp.array([0.0])
    value, slope = jax.jit(jax.value_and_grad(density))(u)
    assert np.isfinite(value) and not np.isfinite(slope[0])


def test_arrays_that_predict_and_noise_close_over_may_be_traced():
    """Derivatives in a σ and in a shift, and a batch of shifts, at one u."""
    free = {"x": Free(bounds=(0, None))}

    def at(shift, sigma, u):
        def predict(model):
            return jnp.log(model["x"] - shift) * jnp.ones(2)

        def noise(model):
            return Gaussian(sigma * jnp.ones(2))

        return log_density(predict, {"x": 0.5}, DATA, noise=noise, free=free)(u)

    def exact(shift, sigma, u):
        prediction = jnp.log(jnp.exp(u) - shift)
        normal = jax.scipy.stats.norm.logpdf(DATA, prediction, sigma)
        return jnp.sum(normal) + u[0]

    u = jnp.array([-0.5])

    def derivatives(of):
        ways = jax.grad, jax.jacfwd
        every = jax.jit(lambda *given: [way(of, (0, 1, 2))(*given) for way in ways])
        return lambda *given: jax.tree.leaves(every(*given))

    found, known = derivatives(at), derivatives(exact)(0.1, 0.3, u)
    for one, other in zip(found(0.1, 0.3, u), known, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    shifts = jnp.array([0.1, 0.9])
    batch = jax.jit(jax.vmap(jax.grad(at, 2), (0, None, None)))(shifts, 0.3, u)
    np.testing.assert_allclose(batch[0], known[-1], rtol=1e-12)
    assert batch[1] == 0
    assert all(x == 0 for x in found(0.9, 0.3, u))


def test_prediction_with_reverse_mode_only_has_its_gradient():
    @jax.custom_vjp
    def logarithm(x):
        return jnp.log(x)

    logarithm.defvjp(lambda x: (jnp.log(x), x), lambda x, bar: (bar / x,))

    def of(function):
        def predict(model):
            return function(model["x"]) * jnp.ones(2)

        return log_density(predict, {"x": 0.5}, DATA, noise=Gaussian(0.1))

    density, plain = of(logarithm), of(jnp.log)
    for u in (density.start, -density.start):
        np.testing.assert_array_equal(jax.grad(density)(u), jax.grad(plain)(u))


def test_function_follows_what_predict_reads_without_compiling_again(compilations):
    """A number in a global array; a density of known u compiles nothing new."""
    factor = {"now": jnp.array(1.0)}

    def predict(model):
        return factor["now"] * value_of(model)

    density = log_density(predict, {"x": 0.5}, DATA, noise=Gaussian(0.2))
    first = density(density.start)
    before = compilations()
    factor["now"] = jnp.array(2.0)
    second = density(density.start)
    assert compilations() == before
    exact = [np.sum(stats.norm.logpdf(DATA, x, 0.2)) for x in (0.5, 1.0)]
    np.testing.assert_allclose([first, second], np.add(exact, np.log(0.5)), rtol=1e-12)


@pytest.mark.slow
def test_single_precision_is_kept_and_near_double():
    single, double = decay_density(np.float32)[0], decay_density()[0]
    u = single.start + np.float32(0.1)
    both = jax.jit(jax.value_and_grad(single))
    value, gradient = both(u)
    exact, slope = jax.jit(jax.value_and_grad(double))(jnp.asarray(u, float))
    assert value.dtype == gradient.dtype == single.values(u).dtype == np.float32
    np.testing.assert_allclose(value, exact, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-3)
    value, gradient = both(u - 400)
    assert value == -np.inf and np.all(gradient == 0)


def test_numpyro_model_has_the_density_and_a_site_for_each_parameter():
    numpyro = pytest.importorskip("numpyro")
    density, _ = decay_density()
    model = density.to_numpyro()
    u = density.start + 0.1
    given = {"unconstrained": u}
    found, trace = numpyro.infer.util.log_density(model, (), {}, given)
    np.testing.assert_allclose(found, density(u), rtol=1e-14)
    sites = {name: trace[name]["value"] for name in density.names}
    np.testing.assert_array_equal(list(sites.values()), density.values(u))
    assert density.names == ("height", "rates[0]", "rates[1]")


def test_numpyro_that_is_absent_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    density = of_case("plain", Gaussian(0.1))
    with pytest.raises(ImportError, match="pip install numpyro"):
        density.to_numpyro()
