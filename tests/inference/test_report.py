"""The printed report of a fit: parameters, chi2, correlations and flags."""

import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import RESULTS
from diffsim.inference import FitOptions, Free, Gaussian, fit


@pytest.fixture(scope="module")
def best(oscillator):
    return fit(
        oscillator.predict,
        oscillator.start,
        oscillator.data,
        noise=Gaussian(oscillator.sigma),
    )


@pytest.fixture(scope="module")
def text(best):
    return str(best)


def test_every_parameter_has_its_row(best, text):
    for name, value, sd, start in zip(
        best.names, best.values, best.stderr, best.start, strict=True
    ):
        (row,) = (line for line in text.splitlines() if line.strip().startswith(name))
        words = row.split()
        # value to two digits beyond its error bar, stderr, relative error, start
        assert abs(float(words[1]) - value) < 0.01 * sd
        assert float(words[2]) == pytest.approx(float(sd), rel=0.05)
        assert float(words[3]) == pytest.approx(float(100 * sd / abs(value)), rel=0.05)
        assert words[4] == "%"
        assert float(words[5]) == pytest.approx(float(start), rel=1e-5)


def test_summary_has_status_chi2_and_information_criteria(best, text):
    assert "Fit of 4 parameters to 101 data: converged" in text
    assert f"chi2 {float(best.chi2):.6g}" in text
    assert f"reduced {float(best.chi2 / 97):.4g} (97 degrees of freedom)" in text
    assert f"AIC {float(best.aic):.6g}" in text and f"BIC {float(best.bic):.6g}" in text
    assert "further step would move" in text and f"{int(best.steps)} steps" in text
    assert "sigma given: error bars follow from it and are not rescaled" in text


def test_misfit_is_reported(text):
    assert "misses" not in text
    times = jnp.linspace(0, 1, 30)
    noise = Gaussian(0.01)
    found = fit(lambda p: p * times, jnp.array(1.0), jnp.cos(9 * times), noise=noise)
    assert found.status == RESULTS.successful
    assert "reduced chi2 would be 1 ± 0.26" in str(found)


def test_correlations_above_a_tenth_are_listed_largest_first(best, text):
    block = text.split("Correlations above 0.1:\n")[1].splitlines()
    rows = [line.split() for line in block if line.startswith("  ")]
    listed = [float(words[0]) for words in rows]
    matrix = np.asarray(best.correlation)
    upper = matrix[np.triu_indices(4, k=1)]
    wanted = sorted(upper[np.abs(upper) > 0.1], key=abs, reverse=True)
    np.testing.assert_allclose(listed, wanted, atol=6e-4)
    assert rows[0][1:] == ["A,", "gamma"]


def test_weakest_direction_is_in_parameter_names(text):
    (line,) = (x for x in text.splitlines() if x.startswith("Weakest direction"))
    assert "A" in line and "gamma" in line
    assert "times less certain than its parameters alone" in line


def test_bounds_and_flags_have_a_column():
    found = fit(
        lambda m: m["x"] * np.ones(3) + m["y"] * np.arange(3.0),
        {"x": 1.0, "y": 1.0},
        np.array([0.0, 1.0, 2.0]),
        noise=Gaussian(),
        free={"x": Free(bounds=(0.5, None)), "y": Free()},
    )
    text = str(found)
    assert "[0.5, inf]" in text and "at its lower bound" in text
    assert "sigma unknown: taken as sqrt(RSS/dof)" in text and "RSS" in text


def test_long_list_of_correlations_is_truncated():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(40, 12)) + 2 * rng.normal(size=(40, 1))
    data = design @ np.ones(12)
    found = fit(
        lambda m: design @ m["x"], {"x": jnp.ones(12)}, data, noise=Gaussian(1.0)
    )
    matrix = np.abs(np.asarray(found.correlation)[np.triu_indices(12, k=1)])
    count = int(np.sum(matrix > 0.1))
    assert count > 20
    assert f"and {count - 20} more, in fit.correlation" in str(found)


def slope(model):
    return model["a"] * np.arange(1.0, 6.0)


def test_one_parameter_has_no_weakest_direction():
    found = fit(slope, {"a": 1.0}, np.ones(5), noise=Gaussian(0.1))
    text = str(found)
    assert text.startswith("Fit of 1 parameter to 5 data: converged")
    assert "Weakest" not in text and "(4 degrees of freedom)" in text
    headline = repr(found.fisher).splitlines()[0]
    assert headline == "Fisher(1 parameter, expected information)"


@pytest.mark.parametrize(("data", "freedom"), [(1, "-1 degrees"), (2, "0 degrees")])
def test_no_degrees_of_freedom_give_no_sigma_and_no_error_bars(data, freedom):
    x = np.arange(1.0, 1 + data)

    def line(model):
        return model["a"] + model["b"] * x

    found = fit(line, {"a": 1.0, "b": 1.0}, x**2, noise=Gaussian())
    text = str(found)
    assert f"RSS {float(found.chi2):.6g} ({freedom} of freedom)" in text
    assert "reduced" not in text
    assert "Error bars: none, for sigma is unknown" in text
    assert not np.any(np.isfinite(found.stderr)) and np.isnan(found.sigma_scale)


def test_report_of_a_fit_out_of_steps_names_max_steps():
    found = fit(
        lambda m: jnp.exp(slope(m)),
        {"a": 2.0},
        np.ones(5),
        noise=Gaussian(),
        options=FitOptions(1),
    )
    assert "stopped after 1 step, before it converged" in str(found)
    assert "fit(..., options=inference.FitOptions(max_steps=...))" in str(found)


def line_with_sigma(model):
    return model["a"] + model["b"] * np.arange(20.0)


NOISY = 1 + 0.5 * np.arange(20.0) + 0.3 * np.random.default_rng(2).normal(size=20)
LINE = {"a": 1.0, "b": 1.0, "sigma": 1.0}
AT_ONE = Free(bounds=(None, 1))
FITTED_SIGMA = {"noise": lambda m: Gaussian(m["sigma"])}


def test_reduced_chi2_is_omitted_where_sigma_is_estimated():
    unknown = fit(line_with_sigma, LINE, NOISY, noise=Gaussian(), free=["a", "b"])
    line = str(unknown).splitlines()[1]
    assert f"RSS {float(unknown.chi2):.6g}, sigma {unknown.sigma_scale:.4g} (18" in line
    fitted = fit(line_with_sigma, LINE, NOISY, **FITTED_SIGMA)
    line = str(fitted).splitlines()[1]
    assert "chi2 20 by the sigma of the noise model (17 degrees of freedom)" in line
    assert "reduced" not in str(unknown) + str(fitted)
    known = fit(line_with_sigma, LINE, NOISY, noise=Gaussian(0.3), free=["a", "b"])
    assert f"reduced {float(known.chi2_reduced):.4g} (18" in str(known)


@pytest.mark.parametrize(
    ("options", "count"),
    first_plain(
        [
            ({"noise": Gaussian(), "free": {"a": AT_ONE, "b": Free()}}, 1),
            ({"noise": Gaussian(mask=np.arange(20) < 9), "free": ["a", "b"]}, 2),
            (FITTED_SIGMA, 3),
            (FITTED_SIGMA | {"free": ["a", "sigma"]}, 2),
            ({"noise": Gaussian(0.3), "free": ["a", "b"]}, 2),
            ({"noise": Gaussian(), "free": ["a", "b"]}, 2),
        ],
        3,
    ),
    ids=["at a bound", "masked", "fitted", "some fixed", "known", "unknown"],
)
def test_dof_aic_and_bic_count_the_same_parameters(options, count):
    """k from AIC and BIC by the likelihood written out."""
    data = NOISY + 1.0  # so that the bound is active
    found = fit(line_with_sigma, LINE, data, **options)
    noise = options["noise"]
    noise = noise(found.model) if callable(noise) else noise
    used = np.ones(20, bool) if noise.mask is None else noise.mask
    residual = np.asarray(data - line_with_sigma(found.model))[used]
    rms = np.sqrt(np.mean(residual**2))
    sigma = rms if noise.sigma is None else float(noise.sigma)
    deviance = np.sum((residual / sigma) ** 2 + np.log(2 * np.pi * sigma**2))
    size = used.sum()
    assert int(found.size - found.dof) == count
    np.testing.assert_allclose(found.aic - deviance, 2 * count, atol=1e-9)
    np.testing.assert_allclose(found.bic - deviance, count * np.log(size), atol=1e-9)
