"""Fits find the optimum, whatever the solver, the start or the transformation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
import pytest
import scipy.optimize
import scipy.stats

from diffsim._results import RESULTS
from diffsim.inference import Fit, FitOptions, Free, Gaussian, fisher, fit


@pytest.mark.gpu
def test_best_fit_is_that_of_scipy(oscillator, best):
    def residual(x):
        model = dict(zip(oscillator.order, x, strict=True))
        return np.asarray(oscillator.predict(model) - oscillator.data) / 0.05

    start = [float(oscillator.start[k]) for k in oscillator.order]
    found = scipy.optimize.least_squares(residual, start, xtol=1e-14, ftol=1e-14)
    np.testing.assert_allclose(best.values, found.x, rtol=1e-7)  # finite differences
    assert abs(best.chi2 - 2 * found.cost) < 1e-9
    assert best.status == RESULTS.successful
    assert best.names == oscillator.order
    assert best.model.keys() == oscillator.start.keys()


def test_error_bars_are_those_of_the_fisher_matrix_at_the_best_fit(oscillator, best):
    known = fisher(
        oscillator.predict,
        best.model,
        noise=Gaussian(oscillator.sigma),
        free=oscillator.order,
    )
    np.testing.assert_allclose(best.stderr, known.stderr, rtol=1e-12)
    np.testing.assert_allclose(best.covariance, known.covariance, rtol=1e-11)
    np.testing.assert_allclose(best.correlation, known.correlation, atol=1e-12)


def test_unknown_sigma_rescales_the_error_bars(oscillator, best):
    found = fit(
        oscillator.predict,
        oscillator.start,
        oscillator.data,
        noise=Gaussian(),
        free=oscillator.order,
    )
    spread = np.sqrt(found.chi2 / 97)
    assert found.dof == 97 and abs(found.sigma_scale - spread) < 1e-14
    np.testing.assert_allclose(found.values, best.values, rtol=1e-9)
    np.testing.assert_allclose(found.stderr, best.stderr * spread / 0.05, rtol=1e-9)


def test_information_criteria_are_those_of_the_full_likelihood(oscillator, best):
    """Against the normal density written out."""
    residual = np.asarray(oscillator.predict(best.model) - oscillator.data)
    density = np.exp(-((residual / 0.05) ** 2) / 2) / (0.05 * np.sqrt(2 * np.pi))
    deviance = -2 * np.sum(np.log(density))
    assert abs(best.aic - (deviance + 8)) < 1e-9
    assert abs(best.bic - (deviance + 4 * np.log(101))) < 1e-9


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(
            optax.chain(
                optax.clip_by_global_norm(1.0),
                optax.adam(optax.cosine_decay_schedule(2e-2, 1500)),
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(optx.BFGS(rtol=1e-9, atol=1e-9), marks=pytest.mark.slow),
        optx.LevenbergMarquardt(rtol=1e-10, atol=1e-10),
    ],
    ids=["optax", "minimiser", "least squares"],
)
def test_optax_and_optimistix_solvers_find_the_same_optimum(oscillator, best, solver):
    found = fit(
        oscillator.predict,
        oscillator.start,
        oscillator.data,
        noise=Gaussian(oscillator.sigma),
        free=oscillator.order,
        solver=solver,
        options=FitOptions(max_steps=1500),
    )
    # A descent whose rate decays ends within a hundredth of an error bar.
    assert np.max(np.abs(found.values - best.values) / best.stderr) < 0.01
    assert abs(found.loss - found.chi2 / 2) < 1e-10, "the loss is that at the values"


def test_gradient_descent_returns_its_best_point_and_survives_nonfinite_losses():
    """A learning rate that jumps across the minimum and out of the domain of a root."""

    def predict(model):
        return jnp.sqrt(model["x"]) * np.ones(3)

    noise, data = Gaussian(1.0), 0.5 * np.ones(3)
    found = fit(
        predict,
        {"x": 1.0},
        data,
        noise=noise,
        solver=optax.sgd(3.0),
        options=FitOptions(80),
    )
    rho = np.sqrt(float(found.values[0])) - 0.5
    assert abs(found.loss - 1.5 * rho**2) < 1e-14
    assert found.loss == np.nanmin(found.history["loss"])
    assert found.non_finite > 0 and found.status != RESULTS.prediction_not_finite
    assert abs(found.values[0] - 0.25) < 0.2


def test_fit_under_jit_and_vmap_equals_the_eager_fit(oscillator, best):
    """The same fit inside jit, and a batch of fits as a loop of them."""

    def values(data):
        found = oscillator.fitted(data)
        return found.values, found.stderr, found.chi2, found.steps

    rng = np.random.default_rng(3)
    noise = 0.05 * rng.normal(size=(3, 101))
    batch = jnp.asarray(oscillator.data + noise).at[0].set(oscillator.data)
    together = jax.jit(jax.vmap(values))(batch)
    np.testing.assert_allclose(together[0][0], best.values, rtol=1e-10)
    np.testing.assert_allclose(together[1][0], best.stderr, rtol=1e-10)
    assert together[3][0] == best.steps
    loop = [values(data) for data in batch]
    for several, single in zip(together, zip(*loop, strict=True), strict=True):
        np.testing.assert_allclose(several, np.stack(single), rtol=1e-10)


@pytest.mark.slow
def test_derivative_of_a_linear_fit_by_the_data_is_the_pseudoinverse(oscillator):
    """Of a straight line it is known: dθ/dd = (XᵀX)⁻¹Xᵀ; both modes, closures too."""
    design = np.stack([np.ones(12), np.linspace(0, 1, 12)], axis=1)

    def values(data, slope_unit):
        found = fit(
            lambda x: design @ (x * jnp.stack([1.0, slope_unit])),
            jnp.array([0.5, 0.5]),
            data,
            noise=Gaussian(0.1),
        )
        return found.values

    data, unit = jnp.sin(jnp.arange(12.0)), jnp.array(2.0)
    exact = np.linalg.pinv(design)
    for mode in (jax.jacfwd, jax.jacrev):
        by_data, by_unit = jax.jit(mode(values, argnums=(0, 1)))(data, unit)
        np.testing.assert_allclose(by_data, exact / [[1.0], [2.0]], atol=1e-10)
        # the slope in units of `unit`: x₂ = s/u, dx₂/du = −s/u²
        slope = (exact @ data)[1]
        np.testing.assert_allclose(by_unit, [0, -slope / 4], atol=1e-10)


def test_parameter_at_an_active_bound_has_zero_derivative_by_the_data():
    x = np.arange(4.0)
    free = {"a": Free(bounds=(None, 0.5)), "b": Free()}

    def values(data):
        model = {"a": 0.0, "b": 1.0}
        line = Gaussian(0.1)
        found = fit(lambda m: m["a"] + m["b"] * x, model, data, noise=line, free=free)
        return found.values

    jacobian = jax.jit(jax.jacfwd(values))(jnp.array([1.0, 2.0, 3.0, 2.5]))
    np.testing.assert_allclose(jacobian, [np.zeros(4), x / (x @ x)], atol=1e-12)


def test_multistart_finds_the_optimum_that_a_single_start_misses():
    """A frequency: from 30 % off a single fit ends in a side lobe."""
    times = np.linspace(0, 12, 60)

    def predict(model):
        return jnp.sin(model["w"] * times)

    data = np.sin(3.0 * times) + 0.01 * np.random.default_rng(0).normal(size=60)
    given = {"noise": Gaussian(0.01)}
    alone = fit(predict, {"w": 2.1}, data, **given)
    assert alone.chi2_reduced > 100
    several = fit(predict, {"w": 2.1}, data, starts=24, **given)
    assert abs(several.values[0] - 3.0) < 5 * several.stderr[0]
    loss = several.history["starts_loss"]
    assert (
        loss.shape == (24,) and np.all(np.diff(loss) >= 0) and loss[0] == several.loss
    )
    assert "Starts: 24, of which" in str(several)
    again = fit(predict, {"w": 2.1}, data, starts=24, **given)
    np.testing.assert_array_equal(again.history["starts_loss"], loss)


@pytest.mark.slow
def test_noise_parameters_are_fitted_by_maximum_likelihood():
    """Mean and spread of a sample: σ̂² = Σ(d − d̄)²/N, errors σ/√N and σ/√(2N)."""
    rng = np.random.default_rng(5)
    data = 3 + 0.7 * rng.normal(size=400)
    found = fit(
        lambda m: jnp.full(400, m["mu"]),
        {"mu": 1.0, "sigma": 3.0},
        data,
        noise=lambda m: Gaussian(m["sigma"]),
        free={"mu": Free(), "sigma": Free(transform="log")},
    )
    sigma = np.std(data)
    np.testing.assert_allclose(found.values, [np.mean(data), sigma], rtol=1e-7)
    expected = sigma / np.sqrt([400, 800])
    np.testing.assert_allclose(found.stderr, expected, rtol=1e-6)
    assert found.status == RESULTS.successful
    deviance = 400 * (np.log(2 * np.pi * sigma**2) + 1)
    assert abs(found.aic - (deviance + 4)) < 1e-6


def test_nonfinite_prediction_at_the_start_sets_the_status():
    found = fit(
        lambda m: jnp.log(m["a"]) * np.ones(3),
        {"a": -1.0},
        np.zeros(3),
        noise=Gaussian(1.0),
    )
    assert found.status == RESULTS.prediction_not_finite
    assert found.values[0] == -1 and np.isnan(found.stderr[0])
    assert "The prediction is not finite" in str(found)


def test_fit_out_of_steps_has_the_error_bars_of_its_last_point(oscillator):
    given = {"noise": Gaussian(0.05), "free": oscillator.order}
    found = fit(
        oscillator.predict,
        oscillator.start,
        oscillator.data,
        options=FitOptions(2),
        **given,
    )
    assert found.status == RESULTS.nonlinear_max_steps_reached
    here = fisher(oscillator.predict, found.model, **given)
    np.testing.assert_allclose(found.stderr, here.stderr, rtol=1e-11)
    assert found.remaining_sigma > 1e-3 and abs(found.loss - found.chi2 / 2) < 1e-10


@pytest.mark.slow
def test_undetermined_parameters_have_infinite_error_bars_and_are_reported():
    times = np.linspace(0, 1, 20)
    found = fit(
        lambda m: m["a"] * m["b"] * times + m["c"],
        {"a": 1.0, "b": 2.0, "c": 3.0},
        4 * times + 1,
        noise=Gaussian(0.1),
    )
    assert found.chi2 < 1e-12 and found.status == RESULTS.successful
    np.testing.assert_array_equal(np.isinf(found.stderr), [1, 1, 0])
    text = str(found)
    assert "Undetermined directions (sigma = inf)" in text and "undetermined" in text


@pytest.mark.gpu
def test_single_precision_data_give_a_single_precision_fit(oscillator, best):
    start = {k: jnp.float32(v) for k, v in oscillator.start.items()}
    with pytest.warns(UserWarning, match="below float64 in a float64 session"):
        found = fit(
            oscillator.predict,
            start,
            oscillator.data.astype(np.float32),
            noise=Gaussian(0.05),
            free=oscillator.order,
        )
    assert found.values.dtype == found.stderr.dtype == found.chi2.dtype == jnp.float32
    assert found.status == RESULTS.successful
    # rounding of the prediction is 1e-6 of an error bar, amplified by correlations
    assert np.max(np.abs(found.values - best.values) / best.stderr) < 1e-3
    np.testing.assert_allclose(found.stderr, best.stderr, rtol=1e-4)


def test_fit_reports_progress_and_keeps_its_history(oscillator, capsys):
    seen = []
    given = {"noise": Gaussian(0.05), "free": oscillator.order}
    args = (oscillator.predict, oscillator.start, oscillator.data)
    found = fit(*args, options=FitOptions(progress=seen.append), **given)
    assert [s["step"] for s in seen] == list(range(1, int(found.steps) + 1))
    assert set(found.history) == {
        "loss",
        "remaining_sigma",
        "gradient_norm",
        "seconds",
    }
    assert found.history["loss"][-1] == found.loss
    fit(*args, options=FitOptions(progress=True), **given)
    line = capsys.readouterr().err
    assert line.startswith("\rfit: compiling")
    assert line.count("\r") == 1 + found.steps and "sigma to go" in line


def test_fit_resumes_from_its_checkpoint(oscillator, best, tmp_path):
    file = tmp_path / "fit.npz"
    args = (oscillator.predict, oscillator.start, oscillator.data)
    given = {"noise": Gaussian(0.05), "free": oscillator.order}
    fit(*args, options=FitOptions(3, checkpoint=file), **given)
    seen = []
    resumed = fit(
        *args, options=FitOptions(progress=seen.append, checkpoint=file), **given
    )
    assert seen[0]["step"] == 4
    np.testing.assert_array_equal(resumed.values, best.values)
    assert resumed.history["loss"].shape == (int(best.steps),)
    again = fit(
        *args, options=FitOptions(progress=seen.append, checkpoint=file), **given
    )
    np.testing.assert_array_equal(again.values, best.values)
    with pytest.raises(ValueError, match=r"another fit \(its data differ\)"):
        fit(*args[:2], 2 * args[2], options=FitOptions(checkpoint=file), **given)


def test_error_bars_can_be_left_out(oscillator, best):
    found = fit(
        oscillator.predict,
        best.model,
        oscillator.data,
        noise=Gaussian(0.05),
        free=oscillator.order,
        solver=optax.sgd(1e-6),
        options=FitOptions(2, covariance=False),
    )
    assert found.fisher is None and np.all(np.isnan(found.stderr))
    assert abs(found.chi2 - best.chi2) < 1e-6
    assert "Weakest" not in str(found)


def test_more_parameters_than_data_are_fitted_with_priors():
    """Three numbers from one datum and three priors: the posterior mean, exactly."""
    row = np.array([1.0, 2.0, -1.0])
    found = fit(
        lambda m: row @ m,
        jnp.zeros(3),
        np.array(2.0),
        noise=Gaussian(0.1),
        free={"*": Free(prior=(0.0, 1.0))},
    )
    precision = np.outer(row, row) / 0.01 + np.eye(3)
    mean = np.linalg.solve(precision, row * 2.0 / 0.01)
    np.testing.assert_allclose(found.values, mean, atol=1e-9)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), atol=1e-9)


def test_fit_is_a_pytree_of_arrays(best):
    leaves = jax.tree.leaves(best)
    assert all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves)
    rebuilt = jax.tree.unflatten(jax.tree.structure(best), leaves)
    assert isinstance(rebuilt, Fit) and str(rebuilt) == str(best)
    assert eqx.tree_equal(rebuilt.values, best.values)


def test_a_fit_that_goes_on_from_another_compiles_nothing(compilations):
    def line(m):
        return m["a"] + m["b"] * np.linspace(0.0, 1.0, 5)

    def fitted(start):
        return fit(line, start, np.sin(np.arange(5.0)), noise=Gaussian(0.1))

    # Python floats have no dtype, and those of a fitted model have one.
    found = fitted({"a": 1.0, "b": 1.0})
    assert not found.model["a"].weak_type
    near = {name: value + 1.0 for name, value in found.model.items()}
    before = compilations()
    fitted(near)
    assert compilations() == before


def test_whitened_data_give_generalized_least_squares():
    x, data = np.linspace(0, 1, 5), np.array([1.0, 1.7, 2.4, 2.2, 3.1])
    covariance = np.exp(-np.abs(x[:, None] - x))
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))

    def predict(model):
        return whiten @ (model["a"] + model["k"] * x)

    start = {"a": 1.0, "k": 2.0}
    found = fit(predict, start, whiten @ data, noise=Gaussian(1.0))
    A = np.stack([np.ones(5), x], axis=1)
    matrix = A.T @ np.linalg.solve(covariance, A)
    exact = np.linalg.solve(matrix, A.T @ np.linalg.solve(covariance, data))
    # the default tolerance of a fit
    np.testing.assert_allclose(found.values, exact, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(matrix), rtol=1e-8)


@pytest.mark.parametrize("weights", [None, np.linspace(1.0, 3.0, 12)])
def test_log_prob_of_an_unknown_sigma_is_that_of_its_most_likely_value(weights):
    """So that ratios of likelihoods are right, and AIC is of the same number."""
    x, rng = np.linspace(0.0, 1.0, 12), np.random.default_rng(0)
    data = 1 + 2 * x + 0.1 * rng.normal(size=12)
    noise = Gaussian() if weights is None else Gaussian(weights, relative=True)
    found = fit(lambda p: p[0] + p[1] * x, jnp.zeros(2), data, noise=noise)
    left = data - found.values[0] - found.values[1] * x
    each = np.ones(12) if weights is None else weights
    sigma = each * np.sqrt(np.mean((left / each) ** 2))
    exact = scipy.stats.norm.logpdf(left, 0, sigma).sum()
    np.testing.assert_allclose(found.log_prob, exact, rtol=1e-12)
    np.testing.assert_allclose(found.aic, 4 - 2 * exact, rtol=1e-12)


def test_reduced_chi2_without_degrees_of_freedom_is_no_number():
    for used in (slice(None), slice(2)):
        data = jnp.ones(3)[used]
        found = fit(lambda p, s=used: p[s], jnp.zeros(3), data, noise=Gaussian(0.1))
        assert found.dof <= 0 and jnp.isnan(found.chi2_reduced)
