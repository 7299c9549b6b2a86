"""Error bars and information have exact derivatives, also by a modeled sigma."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.inference import Gaussian, fisher, fit
from diffsim.verify import taylor_test


X = np.linspace(0, 1, 21)
DESIGN = jnp.stack([jnp.ones(21), jnp.asarray(X)], axis=1)
WAVE = 0.1 * np.cos(9 * X)
# A fit ends within 1e-7 error bars of its optimum.
FIT = 1e-6


def line(m):
    return m["a"] + m["b"] * X


def decay(m):
    return m["A"] * jnp.exp(-m["k"] * X)


def constant(m):
    return Gaussian(m["s"])


def growing(m):
    return Gaussian(m["s"] * (1 + X))


def by_signal(m):
    return Gaussian(m["s"] * jnp.sqrt(1 + decay(m)))


NOISES = {"constant": constant, "growing": growing, "by signal": by_signal}
MODEL = {"A": 3.0, "k": 2.0, "s": 0.1}


def quantities(found, noise):
    """Everything that is made of the rows, at the numbers of `found`."""
    free = ["A", "k"]
    known = fisher(decay, found, noise=noise, free=free)
    bias = known.bias(WAVE)
    return [known.stderr, known.covariance, known.logdet, bias, known.matrix]


def closed_form(model, noise):
    """F from derivatives of the mean and of ln sigma, whose sum is differentiated."""

    def numbers(x):
        m = {"A": x[0], "k": x[1], "s": model["s"]}
        log_sigma = jnp.log(noise(m).sigma) * jnp.ones(21)
        return decay(m), log_sigma

    at = jnp.stack([model["A"], model["k"]])
    mean, change = jax.jacfwd(numbers)(at)
    sigma = jnp.exp(numbers(at)[1])
    rows = mean / sigma[:, None]
    matrix = rows.T @ rows + 2 * change.T @ change
    covariance = jnp.linalg.inv(matrix)
    bias = covariance @ rows.T @ (WAVE / sigma)
    stderr = jnp.sqrt(jnp.diagonal(covariance))
    return [stderr, covariance, jnp.linalg.slogdet(matrix)[1], bias, matrix]


def assert_near(found, exact, tolerance):
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def arrays(model):
    return jax.tree.map(jnp.asarray, model)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_fisher_information_has_the_first_derivatives_of_the_closed_form(noise):
    """Forward and reverse, by free parameters and by those that stay."""
    exact = jax.jacfwd(closed_form)(arrays(MODEL), noise)
    forward = jax.jacfwd(quantities)(arrays(MODEL), noise)
    assert_near(forward, exact, 1e-10)
    reverse = jax.jacrev(quantities)(arrays(MODEL), noise)
    assert_near(reverse, forward, 1e-10)


@pytest.mark.parametrize("noise", [growing, by_signal])
def test_fisher_information_has_the_second_derivatives_of_the_closed_form(noise):
    def logdet(by):
        return lambda m: by(m, noise)[2]

    exact = jax.hessian(logdet(closed_form))(arrays(MODEL))
    found = jax.jacfwd(jax.jacrev(logdet(quantities)))(arrays(MODEL))
    assert_near(found, exact, 1e-10)


def test_error_bars_are_proportional_to_a_known_sigma():
    """d stderr/ds = stderr/s and d logdet/ds = -2 n/s, exactly."""

    def known(s):
        model = {"A": 3.0, "k": 2.0, "s": s}
        found = fisher(decay, model, noise=constant, free=["A", "k"])
        return found.stderr, found.logdet

    stderr, _ = known(0.1)
    slope, slope_of_logdet = jax.jacfwd(known)(0.1)
    np.testing.assert_allclose(slope, stderr / 0.1, rtol=1e-12)
    np.testing.assert_allclose(slope_of_logdet, -4 / 0.1, rtol=1e-12)


def line_fit(data):
    model = {"a": 1.0, "b": 1.0, "s": 0.3}
    return fit(line, model, data, noise=constant)


def line_error_bars(data):
    """σ̂² = RSS/N, with error bars σ̂ √(XᵀX)⁻¹ and σ̂/√2N."""
    residuals = data - DESIGN @ jnp.linalg.solve(DESIGN.T @ DESIGN, DESIGN.T @ data)
    sigma = jnp.sqrt(jnp.mean(residuals**2))
    unit = jnp.sqrt(jnp.diagonal(jnp.linalg.inv(DESIGN.T @ DESIGN)))
    return sigma * jnp.append(unit, 1 / jnp.sqrt(42.0))


def test_derivative_of_error_bars_by_the_data_is_right():
    data = jnp.asarray(1 + 2 * X + WAVE)
    exact = jax.jacfwd(line_error_bars)(data)
    forward = jax.jacfwd(lambda d: line_fit(d).stderr)(data)
    assert_near(forward, exact, FIT)
    reverse = jax.jacrev(lambda d: line_fit(d).stderr)(data)
    assert_near(reverse, forward, 1e-10)


def test_second_derivative_of_error_bars_by_the_data_is_right():
    data = jnp.asarray(1 + 2 * X + WAVE)
    away = jnp.asarray(np.sin(5 * X))

    def curve(error_bars):
        return jax.jacfwd(jax.jacrev(lambda a: error_bars(data + a * away)[1]))(0.1)

    found = curve(lambda d: line_fit(d).stderr)
    np.testing.assert_allclose(found, curve(line_error_bars), rtol=1e-8)


def test_derivative_of_covariance_by_the_data_is_right():
    data = jnp.asarray(3 * np.exp(-2 * X) + WAVE)

    def logdet(a):
        found = fit(decay, MODEL, data + a * X, noise=by_signal)
        return jnp.append(found.covariance.reshape(-1), found.fisher.logdet)

    h = 1e-3
    ends = [logdet(n * h) for n in (1, -1, 2, -2)]
    slope = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
    assert_near(jax.jacfwd(logdet)(0.0), slope, FIT)


@pytest.mark.parametrize("noise", [constant, by_signal])
def test_fisher_information_passes_the_taylor_test(noise):
    def numbers(model):
        found = fisher(decay, model, noise=noise, free=["A", "k"])
        return found.stderr, found.logdet

    found = taylor_test(numbers, arrays(MODEL))
    assert found.passed and found.disagreement < 1e-10, found


CENTERED = jnp.stack([jnp.ones(21), jnp.asarray(X) - 0.5], axis=1)


def information(s, kind):
    """Of a straight line about the mean of X, whose scaled eigenvalues are equal."""

    def centered(m):
        return m["a"] + m["b"] * (X - 0.5)

    model = {"a": 1.0, "b": 2.0}
    return fisher(centered, model, data=centered(model), noise=Gaussian(s), kind=kind)


#: Eigenvalues that are equal, one that is zero, two that are, and none of these.
PRIORS = {
    "equal": lambda s: jnp.eye(2) / s**2,
    "of one": lambda s: jnp.diag(jnp.array([1.0, 0.0])) / s**2,
    "of a sum": lambda s: jnp.ones((2, 2)) / s,
    "of both": lambda s: jnp.array([[2.0, 0.5], [0.5, 1.0 + s]]),
    "none": lambda s: s * jnp.zeros((2, 2)),
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", ["expected", "observed"])
def test_derivative_of_error_bars_by_a_prior_matrix_is_right(prior, kind):
    def stderr(s):
        return (information(s, kind) + PRIORS[prior](s)).stderr

    def closed(s):
        matrix = CENTERED.T @ CENTERED / s**2 + PRIORS[prior](s)
        return jnp.sqrt(jnp.diagonal(jnp.linalg.inv(matrix)))

    for order in (jax.jacfwd, jax.jacrev, lambda f: jax.jacfwd(jax.jacrev(f))):
        found, want = jax.jit(order(stderr))(0.3), order(closed)(0.3)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)
