"""Fits, intervals and Fisher matrices of other libraries, from `tools/peers`.

The peers are not installed: their scripts have written problems and answers.
"""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from rows import first_plain

import diffsim as ds
from diffsim import inference
from diffsim.inference import FitOptions, Free, Gaussian, Poisson


PEERS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"


def problems(peer):
    return json.loads((PEERS / f"{peer}.json").read_text())["problems"]


def lotka_volterra(t, initial, model):
    """Populations at increasing times by 40 steps of order 4 between each two."""

    def rate(y):
        x, z = y
        return jnp.stack(
            [
                (model["alpha"] - model["beta"] * z) * x,
                (model["delta"] * x - model["gamma"]) * z,
            ]
        )

    def between(y, gap):
        def step(y, _):
            h = gap / 40
            a = rate(y)
            b = rate(y + h / 2 * a)
            c = rate(y + h / 2 * b)
            d = rate(y + h * c)
            return y + h / 6 * (a + 2 * b + 2 * c + d), None

        y = jax.lax.scan(step, y, None, length=40)[0]
        return y, y

    gaps = np.diff(np.concatenate([[0.0], t]))
    return jax.lax.scan(between, jnp.asarray(initial), gaps)[1].T


@functools.cache
def minuit_fit(name):
    """A fit of one of iminuit's problems."""
    found = problems("iminuit")[name]
    data = {k: np.array(v) for k, v in found["data"].items()}
    if name == "exponential":
        t = data["t"]

        def predict(m):
            return m["A"] * jnp.exp(-m["k"] * t) + m["c"]

        y, noise = data["y"], Gaussian(data["sigma"])
    elif name == "banana":

        def predict(m):
            return jnp.stack([m["b"] - m["a"] ** 2, m["a"]])

        y, noise = data["y"], Gaussian(data["sigma"])
    elif name == "lotka_volterra":

        def predict(m):
            return lotka_volterra(data["t"], data["initial"], m)

        y, noise = data["counts"], Gaussian(data["sigma"])
    else:
        edges = data["edges"]
        middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)

        def predict(m):
            bell = jnp.exp(-0.5 * ((middle - m["m"]) / m["s"]) ** 2)
            density = bell / (m["s"] * np.sqrt(2 * np.pi))
            return width * (m["S"] * density + m["B"])

        y, noise = data["counts"].astype(float), Poisson()
    start = dict(zip(found["parameters"], map(float, found["start"]), strict=True))
    fit = ds.fit(predict, start, y, noise=noise, free=found["parameters"])
    return fit, found


MINUIT = ("exponential", "banana", "poisson_peak", "lotka_volterra")


@pytest.mark.parametrize(
    ("name", "i"),
    first_plain(
        [(n, i) for n in MINUIT for i in range(len(problems("iminuit")[n]["start"]))]
    ),
)
def test_asymmetric_intervals_are_those_of_minos(name, i):
    """Minuit's to 2e-4, its own accuracy, and SciPy's Brent on SciPy's fits to 1e-6."""
    fit, found = minuit_fit(name)
    exact = found["scipy"]
    error = np.sqrt(np.diagonal(exact["covariance"]))
    away = np.asarray(fit.values) - exact["values"]
    assert np.max(np.abs(away) / error) < 1e-5
    observed = np.asarray(fit.observed().covariance)
    size = np.outer(error, error)
    assert np.max(np.abs(observed - exact["covariance"]) / size) < 3e-5
    errors = np.array(fit.profile(found["parameters"][i]).errors)
    for source, tolerance in ((found, 2e-4), (exact, 1e-6)):
        ends = [source["minos_lower"][i], source["minos_upper"][i]]
        np.testing.assert_allclose(errors, ends, rtol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exponential", "banana"])
def test_contours_are_those_of_minuit(name):
    """Each of Minuit's 24 points has the rise that it says, to its own 4e-3."""
    from diffsim.inference._posterior import recall
    from diffsim.inference._profile import Constrained

    fit, found = minuit_fit(name)
    contour = found["contour"]
    pair = tuple(fit.names.index(n) for n in contour["parameters"])
    held = Constrained(recall(fit, "contour"), fit.values, 1.0)
    for point in contour["points"]:
        at = np.array(point) / np.asarray(held.slope)[list(pair)]
        rise = held.root_rise(pair, at) ** 2
        np.testing.assert_allclose(rise, contour["delta_chi2"], rtol=4e-3)
    drawn = fit.contour(*contour["parameters"], contour["cl"], points=6)
    for point in np.asarray(drawn.points):
        at = point / np.asarray(held.slope)[list(pair)]
        rise = held.root_rise(pair, at) ** 2
        np.testing.assert_allclose(rise, contour["delta_chi2"], rtol=1e-5)


def _decaying_wave(t):
    return lambda m: (
        m["amplitude"] * jnp.exp(-m["decay"] * t) * jnp.cos(m["omega"] * t + m["phase"])
        + m["offset"]
    )


def _two_peaks(x):
    def predict(m):
        peaks = sum(
            m[f"height{i}"] * jnp.exp(-(((x - m[f"center{i}"]) / m[f"width{i}"]) ** 2))
            for i in (1, 2)
        )
        return peaks + m["slope"] * x + m["intercept"]

    return predict


LMFIT = {
    "bounded": ("x", lambda x: lambda m: m["top"] * x / (m["half"] + x) + m["floor"]),
    "logistic": (
        "t",
        lambda t: (
            lambda m: m["capacity"] / (1 + jnp.exp(-m["rate"] * (t - m["midpoint"])))
        ),
    ),
    "tied": (
        "t",
        lambda t: (
            lambda m: m["c"] * jnp.exp(-m["a"] * t) + m["d"] * jnp.exp(-m["b"] * t)
        ),
    ),
    "decaying_wave": ("t", _decaying_wave),
    "two_peaks": ("x", _two_peaks),
}


@pytest.mark.parametrize("name", first_plain(LMFIT, 2))
def test_fits_and_error_bars_are_those_of_lmfit(name):
    """Values to 1e-6 of an error bar; error bars, correlations, criteria to 1e-6."""
    found = problems("lmfit")[name]
    axis, predict = LMFIT[name]
    data = {k: np.array(v) for k, v in found["data"].items()}
    start = {k: float(v) for k, v in found["start"].items()}
    bounds = found.get("bounds", {})
    free = {k: Free(bounds=bounds.get(k)) for k in found["parameters"]}
    if "expr" in found:
        start["b"] = 0.0
        free["b"] = Free(tied=lambda m: 2 * m["a"])
    sigma = data.get("sigma")
    noise = Gaussian(sigma, relative=found["scale_covar"] and sigma is not None)
    if sigma is None:
        noise = Gaussian()
    fit = ds.fit(predict(data[axis]), start, data["y"], noise=noise, free=free)
    exact = np.array([found["values"][n] for n in found["parameters"]])
    errors = np.array([found["stderr"][n] for n in found["parameters"]])
    np.testing.assert_allclose((fit.values - exact) / errors, 0, atol=1e-6)
    np.testing.assert_allclose(fit.stderr, errors, rtol=1e-6)
    np.testing.assert_allclose(fit.correlation, found["correlation"], atol=1e-6)
    np.testing.assert_allclose(fit.chi2, found["chisqr"], rtol=1e-10)
    if "expr" in found:
        assert fit.model["b"] == pytest.approx(found["values"]["b"], abs=1e-8)
        twice = fit.propagate(lambda m: m["b"])
        assert twice.stderr == pytest.approx(found["stderr"]["b"], rel=1e-6)


@pytest.mark.slow
def test_counting_experiment_is_that_of_pyhf():
    """µ̂, −2 ln L at three µ, and CLs by the asymptotic formulas from our fits."""
    found = problems("pyhf")["with_uncertainty"]
    signal, background = found["data"]["signal"], found["data"]["background"]
    (tau,) = found["data"]["auxdata"]

    def predict(m):
        counts = m["mu"] * signal + m["gamma"] * background
        return jnp.stack([counts, m["gamma"] * tau])

    free = {"mu": Free(bounds=(0.0, 10.0)), "gamma": Free(bounds=(1e-3, 10.0))}

    def deviance(data, mu=None):
        fixed = () if mu is None else ("mu",)
        start = {"mu": 0.5 if mu is None else mu, "gamma": 1.0}
        options = FitOptions(fixed=fixed)
        best = ds.fit(predict, start, data, noise=Poisson(), free=free, options=options)
        return -2 * float(best.log_prob), best

    data = np.array([found["data"]["observed"], tau])
    least, best = deviance(data)
    assert best.model["mu"] == pytest.approx(0.7, abs=1e-6)
    assert least == pytest.approx(found["twice_nll_at_best"], abs=1e-8)
    for mu in (0.0, 1.0):
        at = found["profile"][f"mu = {mu:g}"]["twice_nll"]
        assert deviance(data, mu)[0] == pytest.approx(at, abs=1e-8)
    observed = deviance(data, 1.0)[0] - least
    # The Asimov data of background alone, by the best gamma at mu = 0.
    gamma = float(deviance(data, 0.0)[1].model["gamma"])
    asimov = np.array([gamma * background, gamma * tau])
    spread = deviance(asimov, 1.0)[0] - deviance(asimov, 0.0)[0]
    root, other = np.sqrt(observed), np.sqrt(spread)
    tail = scipy.stats.norm.sf
    cls = tail(root) / tail(root - other)
    assert cls == pytest.approx(found["cls_at_mu_1"], abs=1e-6)


def test_fisher_matrix_of_a_covariance_with_parameters_is_that_of_derivkit():
    found = problems("derivkit")["fisher_with_covariance_of_theta"]
    t = np.array(found["data"]["t"])
    apart = np.abs(t[:, None] - t[None, :])

    def noise(m):
        shape = np.exp(-(apart**2) / 2) * jnp.cos(m["k"] * apart / 2)
        white = (0.3 + 0.1 * m["a"]) ** 2 * jnp.eye(len(t))
        return Gaussian(covariance=m["s"] ** 2 * shape + white)

    model = dict(zip(found["parameters"], found["theta"], strict=True))

    def predict(m):
        return m["a"] * jnp.exp(-m["k"] * t)

    made = ds.fisher(predict, model, noise=noise, free=found["parameters"])
    np.testing.assert_allclose(made.matrix, found["fisher"], rtol=1e-9)


@pytest.mark.slow
def test_dali_doublet_is_that_of_derivkit():
    found = problems("derivkit")["dali_doublet"]
    t = np.array(found["data"]["t"])

    def predict(m):
        return m["a"] * jnp.exp(-m["k"] * t) * jnp.sin(m["w"] * t)

    model = dict(zip(found["parameters"], found["theta"], strict=True))
    noise = Gaussian(covariance=np.array(found["data"]["covariance"]))
    bent = ds.fisher(predict, model, noise=noise, free=found["parameters"]).dali()
    for tensor, name in ((bent.third, "D_21"), (bent.fourth, "D_22")):
        exact = np.array(found[name])
        np.testing.assert_allclose(tensor, exact, atol=1e-10 * np.abs(exact).max())
    away = np.array([0.05, -0.02, 0.03])
    fisher, third, fourth = (
        np.array(found["symmetrized"][n]) for n in ("fisher", "D_21", "D_22")
    )
    exact = away @ fisher @ away + np.einsum("abc,a,b,c", third, *[away] * 3)
    exact += np.einsum("abcd,a,b,c,d", fourth, *[away] * 4) / 4
    np.testing.assert_allclose(-2 * bent.log_prob(bent.values + away), exact, rtol=1e-9)


@pytest.mark.parametrize("name", first_plain(["one_planet", "two_planets"]))
def test_fisher_matrix_of_a_quasiperiodic_process_is_that_of_gaspery(name):
    found = problems("gaspery")[name]
    t, star = np.array(found["data"]["t"]), found["star"]
    apart = t[:, None] - t[None, :]
    shape = -(apart**2) / (2 * star["Tau"] ** 2) - np.sin(
        np.pi * apart / star["Prot"]
    ) ** 2 / (2 * star["eta"] ** 2)
    matrix = star["sigma_qp_rv"] ** 2 * np.exp(shape) + found["added_to_every_element"]
    matrix += star["sigma_wn_rv"] ** 2 * np.eye(t.size)
    count = len(found["parameters"]) // 3

    def velocity(m):
        return -sum(
            m[f"K{i}"] * jnp.sin(2 * np.pi * (t - m[f"T0{i}"]) / m[f"P{i}"])
            for i in range(1, count + 1)
        )

    model = dict(zip(found["parameters"], found["theta"], strict=True))
    noise = Gaussian(covariance=matrix)
    made = ds.fisher(velocity, model, noise=noise, free=found["parameters"])
    np.testing.assert_allclose(made.matrix, found["fisher"], rtol=1e-10)


def test_likelihood_of_a_celerite_process_is_that_of_celerite2():
    """SHO and Matérn of 200 irregular times, against 50 digits, and with a mask."""
    tinygp = pytest.importorskip("tinygp")
    found = problems("celerite2")["sho_and_matern32"]
    quasisep = tinygp.kernels.quasisep
    sho, matern = found["sho"], found["matern32"]
    size = np.sqrt(sho["S0"] * sho["w0"] * sho["Q"])
    kernel = quasisep.SHO(sho["w0"], sho["Q"], size) + quasisep.Matern32(
        matern["rho"], matern["sigma"]
    )
    data = {k: np.array(v) for k, v in found["data"].items()}
    process = inference.GaussianProcess(kernel, data["t"], sigma=data["noise"])
    white = np.diag(np.broadcast_to(data["noise"] ** 2, data["t"].shape))
    mask = np.arange(200) % 7 != 3

    @jax.jit
    def log_probs(mean, y):
        dense = kernel(data["t"], data["t"]) + white
        left = Gaussian(covariance=dense[np.ix_(mask, mask)])
        masked = Gaussian(covariance=process, mask=mask).log_prob(mean, y)
        every = Gaussian(covariance=process).log_prob(mean, y)
        return every, masked, left.log_prob(mean[mask], y[mask])

    mean = np.broadcast_to(data["mean"], data["y"].shape)
    every, masked, left = log_probs(mean, data["y"])
    exact = found["dense_with_exact_matern_50_digits"]
    np.testing.assert_allclose(every, exact, rtol=1e-11)
    np.testing.assert_allclose(masked, left, rtol=1e-10)
