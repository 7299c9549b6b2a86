"""Noise with free parameters: the fit reaches the optimum from any scale of sigma."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hudson_bay import PELTS
from rows import first_plain

from diffsim._results import RESULTS
from diffsim.inference import FitOptions, Free, Gaussian, StudentT, fisher, fit


OFF_BY = (1e-3, 1e3, 1e-2, 0.1, 1.0, 10.0, 100.0)

LOG_PELTS = np.log(PELTS)
RATES = {"alpha": 0.5, "beta": 0.025, "gamma": 0.8, "delta": 0.025}
START = {**RATES, "hare": 30.0, "lynx": 4.0}

X = np.linspace(0, 1, 20)
LINE = 1 + 2 * X + 0.1 * np.random.default_rng(0).normal(size=20)
DESIGN = np.stack([np.ones(20), X], axis=1)


def line(model):
    return model["a"] + model["b"] * X


def log_populations(model):
    """Lotka-Volterra by the classical Runge-Kutta method, 20 steps a year."""

    def rate(y):
        hare, lynx = y
        return jnp.stack(
            [
                (model["alpha"] - model["beta"] * lynx) * hare,
                (model["delta"] * hare - model["gamma"]) * lynx,
            ]
        )

    def step(y, _, h=0.05):
        a = rate(y)
        b = rate(y + h / 2 * a)
        c = rate(y + h / 2 * b)
        d = rate(y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d), None

    def year(y, _):
        return jax.lax.scan(step, y, None, length=20)[0], y

    start = jnp.stack([model["hare"], model["lynx"]])
    return jnp.log(jax.lax.scan(year, start, None, length=21)[1]).T


def one_sigma(model):
    return Gaussian(model["sigma"])


def two_sigmas(model):
    return Gaussian(model["sigma"][:, None] * jnp.ones((1, 21)))


@pytest.mark.parametrize("transform", [None, "log"])
@pytest.mark.parametrize("factor", first_plain(OFF_BY, 2))
def test_sigma_of_a_linear_fit_is_found_from_any_scale(transform, factor):
    """σ̂² = RSS/N beside the least-squares line; measured: 6 to 14 steps."""
    found = fit(
        line,
        {"a": 0.5, "b": 1.0, "sigma": 0.1 * factor},
        LINE,
        noise=one_sigma,
        free={"a": Free(), "b": Free(), "sigma": Free(transform=transform)},
    )
    coefficients, rss, *_ = np.linalg.lstsq(DESIGN, LINE)
    exact = [*coefficients, np.sqrt(rss[0] / 20)]
    np.testing.assert_allclose(found.values, exact, rtol=1e-6)
    assert found.status == RESULTS.successful and found.steps <= 30


# The optimum of the log posterior without constants, by SciPy below.
LOST_OR_FOUND = -42.740563


@pytest.mark.slow
@pytest.mark.parametrize("transform", [None, "log"])
@pytest.mark.parametrize("factor", OFF_BY)
def test_lotka_volterra_fit_converges_from_any_scale_of_sigma(transform, factor):
    """Measured: 11 to 28 steps; the last from 1000 times too large without the log."""
    found = fit(
        log_populations,
        {**START, "sigma": 0.25 * factor * jnp.ones(2)},
        LOG_PELTS,
        noise=two_sigmas,
        free={**{k: Free() for k in START}, "sigma": Free(transform=transform)},
    )
    assert abs(found.loss - LOST_OR_FOUND) < 1e-6
    assert found.status == RESULTS.successful and found.steps <= 30


@pytest.mark.slow
def test_lotka_volterra_optimum_is_that_of_the_profile_likelihood():
    """σ of each species eliminated, σ̂² = RSS/21: what is left is least squares."""
    found = fit(
        log_populations,
        {**START, "sigma": 0.25 * jnp.ones(2)},
        LOG_PELTS,
        noise=two_sigmas,
        free={**{k: Free() for k in START}, "sigma": Free(transform="log")},
    )

    def profile(values):
        model = dict(zip(START, values, strict=True))
        squares = jnp.mean((log_populations(model) - LOG_PELTS) ** 2, axis=1)
        return 21 * jnp.sum(0.5 + 0.5 * jnp.log(squares))

    best = found.values[:6]
    assert abs(profile(best) - found.loss) < 1e-8
    slope, hessian = jax.jit(lambda x: (jax.grad(profile)(x), jax.hessian(profile)(x)))(
        best
    )
    assert np.max(np.abs(slope * found.stderr[:6])) < 1e-4
    assert np.all(np.linalg.eigvalsh(hessian) > 0)


def test_error_bars_are_those_of_the_expected_information():
    """σ that depends on the datum, so that steps and error bars differ."""
    sigma = 0.05 + 0.2 * X

    def noise(model):
        return Gaussian(jnp.exp(model["floor"]) + jnp.exp(model["slope"]) * X)

    data = 1 + 2 * X + sigma * np.random.default_rng(1).normal(size=20)
    model = {"a": 0.0, "b": 1.0, "floor": -3.0, "slope": -1.0}
    found = fit(line, model, data, noise=noise)
    known = fisher(line, found.model, noise=noise)
    np.testing.assert_allclose(found.stderr, known.stderr, rtol=1e-10)
    again = fit(line, model, data, noise=noise, options=FitOptions(covariance=False))
    np.testing.assert_allclose(again.stderr, known.stderr, rtol=1e-10)


SCATTERED = 1 + 2 * X + 0.37 * np.random.default_rng(0).normal(size=20)
QUIET = 1 + 2 * X + 0.05 * np.random.default_rng(0).normal(size=20)
FREE = {"a": Free(), "b": Free(), "jitter": Free(bounds=(0.0, None))}


def jittered(model):
    return Gaussian(0.1, jitter=model["jitter"])


def student(model):
    return StudentT(jnp.sqrt(0.01 + model["jitter"] ** 2), dof=1e6)


def check_excess(found):
    """0.01 + j² = RSS/N about the line of least squares."""
    _, rss, *_ = np.linalg.lstsq(DESIGN, SCATTERED)
    np.testing.assert_allclose(found[2], np.sqrt(rss[0] / 20 - 0.01), rtol=1e-5)


@pytest.mark.parametrize("start", [0.0, 1e-8, 1.0])
@pytest.mark.parametrize("free", [FREE, None])
def test_jitter_of_excess_noise_is_found_from_any_start(start, free):
    model = {"a": 0.0, "b": 1.0, "jitter": start}
    found = fit(line, model, SCATTERED, noise=jittered, free=free)
    check_excess(found.values)
    assert found.status == RESULTS.successful and not found.flags


@pytest.mark.parametrize(
    "how",
    [
        {"solver": optax.adam(0.01), "options": FitOptions(max_steps=3000)},
        {"starts": 3},
        {"noise": student},
    ],
)
def test_jitter_leaves_0_by_any_search(how):
    model = {"a": 0.0, "b": 1.0, "jitter": 0.0}
    found = fit(line, model, SCATTERED, free=FREE, **{"noise": jittered, **how})
    check_excess(found.values)


def test_batch_of_fits_leaves_a_jitter_of_0_where_there_is_excess_noise():
    def one(data):
        model = {"a": 0.0, "b": 1.0, "jitter": 0.0}
        found = fit(line, model, data, noise=jittered, free=FREE)
        return found.values, found.at_bound

    values, at_bound = jax.vmap(one)(jnp.stack([SCATTERED, QUIET]))
    check_excess(values[0])
    assert values[1, 2] == 0
    np.testing.assert_array_equal(at_bound[:, 2], [False, True])


@pytest.mark.parametrize("start", [0.0, 1.0])
@pytest.mark.parametrize("how", [Free(bounds=(0.0, None)), Free(), "log"])
def test_no_excess_noise_is_a_converged_fit_with_the_jitter_at_its_end(start, how):
    """Error bars are those of the known σ, and the report says nothing else."""
    if how == "log":
        start, how = max(start, 0.1), Free(transform="log")
    model = {"a": 0.0, "b": 1.0, "jitter": start}
    free = {**FREE, "jitter": how}
    found = fit(line, model, QUIET, noise=jittered, free=free)
    exact = 0.1 * np.sqrt(np.diagonal(np.linalg.inv(DESIGN.T @ DESIGN)))
    np.testing.assert_allclose(found.stderr[:2], exact, rtol=1e-6)
    assert float(found.values[2]) < 1e-6 and bool(found.at_bound[2])
    assert found.status == RESULTS.successful and set(found.flags) == {"at_bound"}
    assert "do not quote" not in str(found)


def test_misfit_of_a_noise_model_is_flagged_by_its_own_expectation():
    def noise(model):
        return Gaussian(0.01 + 0 * model["a"])

    found = fit(line, {"a": 0.0, "b": 1.0}, SCATTERED, noise=noise)
    assert set(found.flags) == {"misfit"}
    free = fit(line, {"a": 0.0, "b": 1.0, "sigma": 1.0}, SCATTERED, noise=one_sigma)
    assert not free.flags
