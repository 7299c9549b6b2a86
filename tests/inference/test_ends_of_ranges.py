"""Fits and information where a prediction or a parameter ends its range."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from rows import first_plain
from scipy.optimize import brentq
from scipy.special import xlog1py, xlogy

from diffsim import RESULTS
from diffsim.inference import (
    Binomial,
    Categorical,
    Free,
    Gaussian,
    Poisson,
    fisher,
    fit,
)


ROOT: Any = brentq
NONE = np.zeros(3)
WEIGHTS = np.array([1.0, 4.0, 1.0])
BESIDE = np.array([0.0, 0.0, 2.0])
LOGIT = (jax.scipy.special.logit, jax.nn.sigmoid)
HOW = {
    "log": Free(transform="log"),
    "bound": Free(bounds=(0.0, None)),
    "share": Free(bounds=(0.0, 1.0)),
    "logit": Free(transform=LOGIT),
    "open": Free(),
}


def counts_loss(weights, rest, data):
    """Half the rise of a profile, Σ µ − d ln µ."""

    def loss(x):
        mean = weights * x + rest
        return np.sum(mean - xlogy(data, mean))

    return loss


def shares_loss(successes):
    return lambda p: -np.sum(xlogy(successes, p) + xlog1py(10 - successes, -p))


# Weights and rest of a mean, counts, the best value, how x is free.
COUNTS = [
    (1.0, 0.0, NONE, 0.0, "log"),
    (1.0, 0.0, NONE, 0.0, "open"),
    (WEIGHTS, 0.0, NONE, 0.0, "bound"),
    (1e8 * WEIGHTS, 0.0, NONE, 0.0, "log"),
    (1e8 * WEIGHTS, 0.0, NONE, 0.0, "open"),
    (WEIGHTS, np.array([0.0, 2.0, 1.0]), np.array([0.0, 1.0, 0.0]), 0.0, "log"),
    (WEIGHTS, 0.0, np.array([0.0, 0.0, 1.0]), 1 / 6, "log"),
    (WEIGHTS, 0.0, np.array([0.0, 0.0, 1.0]), 1 / 6, "open"),
]
SHARES = [
    (NONE, 0.0, "log"),
    (NONE, 0.0, "share"),
    (NONE, 0.0, "logit"),
    (NONE, 0.0, "open"),
    (np.full(3, 10.0), 1.0, "logit"),
    (np.full(3, 10.0), 1.0, "open"),
    (np.array([0.0, 1.0, 0.0]), 1 / 30, "log"),
]


def check_profile(found, loss, best, highest):
    """Ends beside SciPy's roots of 2ΔL = 1, or the end of the range before."""
    interval = found.profile("x")

    def rise(x):
        return 2 * (loss(x) - loss(best)) - 1

    lower = 0.0 if best == 0 or rise(1e-300) < 0 else ROOT(rise, 1e-300, best)
    upper = highest if best == highest else ROOT(rise, best, highest - 1e-16)
    np.testing.assert_allclose(interval.lower, lower, rtol=1e-4, atol=1e-18)
    np.testing.assert_allclose(interval.upper, upper, rtol=1e-4)
    assert interval.at_bound == (best == 0, best == highest)
    is_at_end = best in (0, highest)
    assert bool(found.at_bound[0]) == is_at_end
    assert bool(np.isnan(found.stderr[0])) == is_at_end
    assert found.status == RESULTS.successful
    assert set(found.flags) == ({"at_bound"} if is_at_end else set())


@pytest.mark.parametrize(
    ("weights", "rest", "data", "best", "how"), first_plain(COUNTS, 3)
)
def test_profile_of_counts_ends_where_scipy_finds_the_root(
    weights, rest, data, best, how
):
    def mean(model):
        return weights * model["x"] * jnp.ones(3) + rest

    found = fit(mean, {"x": 1.0}, data, noise=Poisson(), free={"x": HOW[how]})
    check_profile(found, counts_loss(weights * np.ones(3), rest, data), best, 10.0)


@pytest.mark.parametrize(("data", "best", "how"), first_plain(SHARES, 2))
def test_profile_of_a_probability_ends_where_scipy_finds_the_root(data, best, how):
    def chance(model):
        return model["x"] * jnp.ones(3)

    found = fit(chance, {"x": 0.3}, data, noise=Binomial(10), free={"x": HOW[how]})
    check_profile(found, shares_loss(data), best, 1.0)


def test_log_of_a_value_that_wants_to_be_negative_ends_at_0():
    """Gaussian data below 0: 2ΔL = 1 where Σ (w x − d)² has risen by σ²."""
    data, sigma = -WEIGHTS, 0.1

    def line(model):
        return model["x"] * WEIGHTS

    found = fit(line, {"x": 1.0}, data, noise=Gaussian(sigma), free={"x": HOW["log"]})
    assert bool(found.at_bound[0]) and "at the end of its range" in str(found)
    square = np.sum(WEIGHTS**2)
    exact = np.sqrt(1 + sigma**2 / square) - 1
    np.testing.assert_allclose(found.profile("x").upper, exact, rtol=1e-4)


@pytest.mark.parametrize("how", ["bound", "open"])
def test_fit_leaves_a_mean_of_0_that_the_data_do_not_want(how):
    """L = s + (1 + s) − 5 ln(1 + s): s = 3/2."""

    def mean(model):
        return jnp.stack([model["x"], 1 + model["x"]])

    data = np.array([0.0, 5.0])
    found = fit(mean, {"x": 0.0}, data, noise=Poisson(), free={"x": HOW[how]})
    np.testing.assert_allclose(found.values, 1.5, rtol=1e-6)
    assert not found.at_bound[0] and found.status == RESULTS.successful


def source(model):
    return model["s"] * WEIGHTS + model["b"] * BESIDE


SOURCE = {"s": HOW["bound"], "b": Free()}
SEEN = np.array([0.0, 0.0, 3.0])


def test_any_start_ends_at_the_bound_with_one_answer():
    """b̂ = 3/2 ± √3/2 beside s = 0, of 20 starts; nothing is said but the bound."""
    answers = set()
    for s in 10 ** np.random.default_rng(1).uniform(-3, 2, 20):
        found = fit(source, {"s": s, "b": 1.0}, SEEN, noise=Poisson(), free=SOURCE)
        np.testing.assert_allclose(found.values[1], 1.5, rtol=1e-6)
        np.testing.assert_allclose(found.stderr[1], np.sqrt(3) / 2, rtol=1e-6)
        row = next(x for x in str(found).splitlines() if x.startswith("  s "))
        flags = tuple(found.flags.items())
        answer = float(found.values[0]), bool(found.at_bound[0]), flags, int(found.dof)
        answers.add((*answer, row.split()[-3:] == ["its", "lower", "bound"]))
    clause = ("at_bound", "s ended at a bound")
    assert answers == {(0.0, True, (clause,), 2, True)}


def test_batch_of_fits_ends_at_the_bound():
    def one(s):
        model = {"s": s, "b": 1.0}
        found = fit(source, model, SEEN, noise=Poisson(), free=SOURCE)
        return found.values, found.stderr, found.at_bound

    values, stderr, at_bound = jax.vmap(one)(jnp.array([0.1, 0.3, 1.1, 1.7]))
    np.testing.assert_array_equal(values[:, 0], 0)
    np.testing.assert_allclose(stderr[:, 1], np.sqrt(3) / 2, rtol=1e-6)
    np.testing.assert_array_equal(at_bound, [[True, False]] * 4)


@pytest.mark.parametrize("start", [0.1, 0.7, 1.1])
def test_upper_bound_is_met_exactly_from_any_start(start):
    """Beside it the mean of the data, σ/√3."""
    free = {"a": Free(bounds=(None, 0.0)), "b": Free()}

    def line(model):
        return model["a"] * WEIGHTS + model["b"]

    data = np.array([1.0, 3.0, 1.2])
    start = {"a": -start, "b": 1.0}
    found = fit(line, start, data, noise=Gaussian(1.0), free=free)
    assert float(found.values[0]) == 0 and bool(found.at_bound[0])
    np.testing.assert_allclose(found.stderr[1], 1 / np.sqrt(3), rtol=1e-9)


def test_profile_beside_a_parameter_that_follows_ends_at_the_root():
    """b takes up its own counts: 2ΔL = 10 s of the first two data, whatever the third.

    A mean of 5 s for no counts, and for 3 counts s + 2b, which b keeps: 2 · 5s = 1.
    """
    free = {"s": HOW["log"], "b": Free()}
    found = fit(source, {"s": 0.7, "b": 1.0}, SEEN, noise=Poisson(), free=free)
    np.testing.assert_allclose(found.stderr[1], np.sqrt(3) / 2, rtol=1e-6)
    interval = found.profile("s")
    np.testing.assert_allclose([interval.lower, interval.upper], [0, 0.1], atol=1e-5)


def test_parameter_without_an_end_stays_undetermined():
    """A mean of eˣ for no counts: x has no end, and no minimum."""

    def mean(model):
        return jnp.exp(model["x"]) * jnp.ones(3)

    found = fit(mean, {"x": 1.0}, NONE, noise=Poisson())
    assert set(found.flags) == {"undetermined"} and not found.at_bound[0]


def test_share_that_no_label_has_ends_at_0():
    """2ΔL = −10 ln(1 − s) of five labels: 1 − e^−0.1."""

    def chance(model):
        return jnp.stack([model["s"], 1 - model["s"]]) * jnp.ones((5, 1))

    free = {"s": HOW["log"]}
    found = fit(chance, {"s": 0.3}, np.ones(5), noise=Categorical(), free=free)
    assert bool(found.at_bound[0])
    interval = found.profile("s")
    np.testing.assert_allclose(interval.upper, 1 - np.exp(-0.1), rtol=1e-4)


def test_optax_ends_at_the_bound_as_well():
    found = fit(
        lambda m: m["s"] * WEIGHTS,
        {"s": 0.7},
        NONE,
        noise=Poisson(),
        free={"s": HOW["bound"]},
        solver=optax.adam(0.1),
    )
    assert float(found.values[0]) == 0 and set(found.flags) == {"at_bound"}


def counts(model):
    return model["s"] * np.array([1.0, 2.0]) + np.array([0.0, 2.0])


@pytest.mark.parametrize(
    ("predict", "model", "noise"),
    [
        (counts, {"s": 0.0}, Poisson()),
        (lambda m: m["p"] * jnp.ones(3), {"p": 0.0}, Binomial(10)),
        (lambda m: m["p"] * jnp.ones(3), {"p": 1.0}, Binomial(10)),
        (lambda m: {"n": counts(m)}, {"s": 0.0}, {"n": Poisson()}),
    ],
)
def test_error_bar_at_the_end_of_a_range_is_its_limit(predict, model, noise):
    """√(µ/µ'²) → 0, and √(p(1 − p)/n) → 0."""
    found = fisher(predict, model, noise=noise)
    np.testing.assert_allclose(found.stderr, 0, atol=1e-30)
    assert found.status == RESULTS.successful and not found.degeneracies()


def test_error_bars_beside_a_known_parameter_are_those_with_it_fixed():
    """b by a mean of 2b + 2: µ/µ'² = ½ at b = 0, whatever s does there."""

    def mean(model):
        return jnp.stack([model["s"], 2 + 2 * model["b"] + 3 * model["s"]])

    found = fisher(mean, {"s": 0.0, "b": 0.0}, noise=Poisson())
    np.testing.assert_allclose(found.stderr, [np.sqrt(0.5), 0], atol=1e-30)


def test_information_that_diverges_along_a_combination_raises():
    def mean(model):
        return jnp.stack([model["a"] + model["b"], 2 + model["a"]])

    model = {"a": 0.0, "b": 0.0}
    with pytest.raises(ValueError, match="diverges along a combination of a, b"):
        fisher(mean, model, noise=Poisson())
    # Beside it: b = −a to √µ, and a by the other, µ/µ'² = 2.
    found = fisher(mean, {"a": 0.0, "b": 1e-9}, noise=Poisson())
    np.testing.assert_allclose(found.stderr, np.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize("s", [0.0, 1e-6])
def test_sampled_information_without_a_rare_event_is_uncertain(s):
    """In 10⁴ samples of a mean of 1e-6 there is none, and 0.58 is not 0.001."""
    found = fisher(counts, {"s": s}, noise=Poisson(), kind="sampled")
    assert found.sampling_error is not None and np.isinf(found.sampling_error[0])
    assert "error bars are unknown" in str(found)


def test_sampled_information_of_events_that_occur_has_its_error():
    """1/F = 1/(1/s + 4/(2 + 2s)) at s = 3."""
    found = fisher(counts, {"s": 3.0}, noise=Poisson(), kind="sampled")
    exact = (1 / 3 + 1 / 2) ** -0.5
    assert found.sampling_error is not None
    error = float(found.sampling_error[0])
    assert error < 0.02 and abs(float(found.stderr[0]) / exact - 1) < 4 * error
