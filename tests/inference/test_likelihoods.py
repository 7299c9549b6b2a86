"""Laws of all likelihoods: SciPy's log densities, scores, information, samples."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from likelihood_cases import CASES, NOISE, SIGMA, TRUTH, X, line
from rows import first_plain

import diffsim as ds
from diffsim.inference import Gaussian, StudentT, fisher
from diffsim.inference._posterior import posterior


#: Those that share no code come first; the others are slow rows.
ORDER = ("student_t_varies", "poisson", "gaussian_sigma", "dense_varies", "banded")
ORDER += ("toeplitz_varies", "binomial", "categorical")
ORDER += tuple(name for name in CASES if name not in ORDER)


def every(count, without=()):
    """All likelihoods but some, of which the first are plain."""
    names = [name for name in ORDER if name not in without]
    return pytest.mark.parametrize("name", first_plain(names, count))


#: Parameters a little off the best ones, where scores are not 0.
AWAY = np.array([1.4, 0.9, 0.35])


def experiment(case, data=None):
    given = case.data if data is None else data
    return posterior(case.predict, case.model, given, noise=case.noise, free=case.start)


@pytest.mark.parametrize("name", CASES)
def test_log_prob_is_scipys(name):
    case = CASES[name]
    model = dict(zip(case.start, AWAY, strict=False))

    @jax.jit
    def log_prob(model):
        return case.likelihood(model).log_prob(case.predict(model), case.data)

    np.testing.assert_allclose(log_prob(model), case.log_prob(model), rtol=1e-11)


@every(8)
def test_rows_are_the_gradient_of_the_loss_and_of_the_log_prob(name):
    """Aᵀe = ∇loss, where steps are taken and where error bars are."""
    case = CASES[name]
    found = experiment(case)
    values = jnp.asarray(AWAY[: len(case.start)])
    z = values / found.parameters.coordinates.scale

    def minus_log_prob(values):
        model = dict(zip(case.start, values, strict=True))
        return -case.likelihood(model).log_prob(case.predict(model), case.data)

    @eqx.filter_jit
    def numbers(found):
        both = found, found.with_expected_information()
        by_rows = [one.rows_and_jacobian(z) for one in both]
        losses = jax.value_and_grad(found.loss)(z), jax.grad(found.loss_at)(values)
        return by_rows, *losses, jax.grad(minus_log_prob)(values)

    by_rows, (value, exact), by_values, of_log_prob = numbers(found)
    for rows, jacobian, objective in by_rows:
        np.testing.assert_allclose(jacobian.T @ rows, exact, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(objective.value, value, rtol=1e-13)
    np.testing.assert_allclose(by_values, of_log_prob, rtol=1e-11, atol=1e-11)


@every(5, without=("custom",))
def test_expected_information_is_the_covariance_of_the_score(name):
    """Over 20,000 drawn data sets; four standard errors of each entry."""
    case = CASES[name]
    names, count = case.start, 20_000
    prediction = case.predict(case.model)
    likelihood = case.likelihood(case.model)
    keys = jax.random.split(jax.random.key(1), count)

    def log_prob(values, drawn):
        model = dict(zip(names, values, strict=True))
        return case.likelihood(model).log_prob(case.predict(model), drawn)

    values = jnp.array([TRUTH[n] for n in names])
    draw = jax.jit(
        jax.vmap(lambda k: jax.grad(log_prob)(values, likelihood.sample(k, prediction)))
    )
    scores = np.asarray(draw(keys))
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(axis=0) / np.sqrt(count)
    found = fisher(case.predict, case.model, noise=case.noise, free=names)
    away = np.abs(found.matrix - products.mean(axis=0)) / error
    assert away.max() < 4
    assert np.abs(scores.mean(axis=0) / scores.std(axis=0)).max() < 4 / np.sqrt(count)


@every(8, without=("custom", "cholesky"))
def test_masked_data_are_as_if_left_out(name):
    """Losses and scores do not depend on them, and their gradient is exactly 0."""
    case = CASES[name]
    mask = np.arange(12) % 3 != 1

    def noise(model):
        found = case.likelihood(model)
        return with_mask(found, mask)

    given = noise if callable(case.noise) else noise(case.model)
    bad = np.where(mask, case.data, 1e6 if name == "binomial" else np.nan)
    one = posterior(case.predict, case.model, bad, noise=given, free=case.start)
    values = jnp.asarray(AWAY[: len(case.start)])
    data = jnp.asarray(np.where(mask, case.data, 1.0), float)

    @jax.jit
    def gradients(values, data):
        by_data = jax.grad(lambda d: loss_of(case, given, d, values))(data)
        return jax.grad(one.loss_at)(values), left_out(case, mask, values), by_data

    found, exact, by_data = gradients(values, data)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)
    assert np.all(np.asarray(by_data)[~mask] == 0)


def loss_of(case, noise, data, values):
    model = dict(zip(case.start, values, strict=True))
    likelihood = noise(model) if callable(noise) else noise
    return -likelihood.log_prob(case.predict(model), data)


def with_mask(likelihood, mask):
    return eqx.tree_at(
        lambda x: x.mask, likelihood, jnp.asarray(mask), is_leaf=lambda x: x is None
    )


def left_out(case, mask, values):
    """The gradient of −ln L of the data that are left, their marginal density."""

    def loss(values):
        model = dict(zip(case.start, values, strict=True))
        likelihood = case.likelihood(model)
        prediction = case.predict(model)[mask]
        covariance = getattr(likelihood, "covariance", None)
        if covariance is None:
            every = [
                None if leaf is None else jnp.broadcast_to(leaf, (12,))[mask]
                for leaf in jax.tree.leaves(likelihood, is_leaf=lambda x: x is None)
            ]
            structure = jax.tree.structure(likelihood, is_leaf=lambda x: x is None)
            smaller = jax.tree.unflatten(structure, every)
        else:
            factor = covariance.factor(None, 12, float)
            root = jnp.stack([factor.correlate(row) for row in jnp.eye(12)], axis=1)
            smaller = Gaussian(covariance=(root @ root.T)[np.ix_(mask, mask)])
        return -smaller.log_prob(prediction, jnp.asarray(case.data)[mask])

    return jax.grad(loss)(values)


def test_samples_of_correlated_noise_have_its_covariance():
    """20 000 samples; 4.5 standard errors of each of 78 entries."""
    case = CASES["banded"]
    keys = jax.random.split(jax.random.key(2), 20_000)
    drawn = jax.vmap(lambda key: case.noise.sample(key, jnp.zeros(12)))(keys)
    found = np.cov(np.asarray(drawn).T)
    exact = np.asarray(
        case.noise.covariance.factor(None, 12, float).tangent_matrix(
            case.noise.covariance.bands.reshape(-1)
        )
    )
    size = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / 20_000)
    assert np.max(np.abs(found - exact) / size) < 4.5


@pytest.mark.slow
def test_outliers_pull_a_fit_by_students_t_less():
    """Two readings 40σ off; the Gaussian fit is 20σ away and Student's within 3σ."""
    data = MEAN_LINE.copy()
    data[[3, 8]] += 8.0
    given = line, {"a": jnp.array(1.0), "b": jnp.array(1.0)}, data
    robust = ds.fit(*given, noise=StudentT(SIGMA, dof=3.0))
    pulled = ds.fit(*given, noise=Gaussian(SIGMA))
    truth = np.array([TRUTH["a"], TRUTH["b"]])
    assert np.all(np.abs(robust.values - truth) < 3 * robust.stderr)
    assert np.max(np.abs(pulled.values - truth) / pulled.stderr) > 5


MEAN_LINE = TRUTH["a"] + TRUTH["b"] * X + SIGMA * NOISE


def test_student_t_keeps_its_digits_to_a_gaussian():
    for dof in (150.0, 250.0, 1e6, 1e12):
        found = StudentT(1.0, dof=dof).log_prob(jnp.zeros(1), jnp.ones(1))
        exact = scipy.stats.t.logpdf(1.0, dof)
        np.testing.assert_allclose(found, exact, rtol=3e-13)


#: Pearson's points with York's weights.
PEARSON = {
    "x": np.array([0.0, 0.9, 1.8, 2.6, 3.3, 4.4, 5.2, 6.1, 6.5, 7.4]),
    "y": np.array([5.9, 5.4, 4.4, 4.6, 3.5, 3.7, 2.8, 2.8, 2.4, 1.5]),
}
YORK = {
    "x": np.array([1000, 1000, 500, 800, 200, 80, 60, 20, 1.8, 1.0]),
    "y": np.array([1, 1.8, 4, 8, 20, 20, 70, 70, 100, 500]),
}


def test_errors_in_both_variables_are_those_of_york():
    """Slope and intercept of his paper, 10.1119/1.1632486, and what ODRPACK says.

    Error bars and χ² per degree of freedom are those of ODRPACK by SciPy 1.18.
    """

    def points(model):
        return {"x": model["x"], "y": model["a"] + model["b"] * model["x"]}

    noise = {name: Gaussian(weight**-0.5) for name, weight in YORK.items()}
    start = {"a": 5.0, "b": 0.0, "x": jnp.asarray(PEARSON["x"])}
    fit = ds.fit(points, start, PEARSON, noise=noise)
    np.testing.assert_allclose(fit.values[:2], [5.47991022, -0.480533407], rtol=2e-8)
    np.testing.assert_allclose(fit.stderr[:2], [0.29497074, 0.05798501], rtol=1e-6)
    assert fit.dof == 8
    np.testing.assert_allclose(fit.chi2_reduced, 1.48329415, rtol=1e-8)
