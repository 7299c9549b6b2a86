"""A fit flags misfits, active bounds and undetermined parameters."""

import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._results import RESULTS
from diffsim.inference import Free, Gaussian, fit


FILE = pathlib.Path(__file__).parents[1] / "data_nist/nist_strd.json"
BOXBOD = json.loads(FILE.read_text())["BoxBOD"]
X = np.arange(1.0, 6.0)


def box_bod(b):
    return b[0] * (1 - jnp.exp(-b[1] * np.array(BOXBOD["x"][0])))


@pytest.mark.parametrize("start", ["start1", "start2"])
def test_parameter_that_diverged_is_flagged_as_undetermined(start):
    """From Start 1 of BoxBOD b2 → ∞, where the prediction no longer depends on it."""
    data = np.array(BOXBOD["y"])
    found = fit(box_bod, jnp.array(BOXBOD[start]), data, noise=Gaussian())
    headline = str(found).splitlines()[0]
    lost = start == "start1"
    assert list(found.undetermined) == [False, lost]
    assert ("undetermined" in found.flags) is lost
    clause = "converged, but the data do not determine [1]"
    assert headline.endswith(clause if lost else "converged")


@pytest.mark.parametrize("start", [0.0, 1e-12, 1.0])
def test_parameter_near_zero_is_not_flagged_as_undetermined(start):
    """Data without a slope: 0 ± 0.1, to rounding, is a result."""
    data = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
    model = {"a": 1.0, "b": start}
    x = X - 3
    found = fit(lambda m: m["a"] + m["b"] * x, model, data, noise=Gaussian(0.1))
    assert not np.any(found.undetermined) and not found.flags.get("undetermined")


def test_undetermined_parameters_are_flagged():
    found = fit(
        lambda m: m["a"] * m["b"] * X, {"a": 1.0, "b": 2.0}, 2 * X, noise=Gaussian(0.1)
    )
    assert list(found.undetermined) == [True, True]
    assert found.flags["undetermined"] == "the data do not determine a, b"
    assert "converged, but the data do not determine a, b" in str(found)


def test_active_bound_and_misfit_are_flagged():
    free = {"a": Free(bounds=(0, 0.5))}
    found = fit(lambda m: m["a"] * X, {"a": 0.4}, X, noise=Gaussian(1e-3), free=free)
    assert set(found.flags) == {"at_bound", "misfit"}
    assert found.flags["at_bound"] == "a ended at a bound"


def test_too_small_sigma_sets_the_status_chi2_not_finite():
    sigma = np.array([1, 1, 1e-300, 1, 1])
    found = fit(lambda m: m["a"] * X, {"a": 0.4}, np.ones(5), noise=Gaussian(sigma))
    assert found.status == RESULTS.chi2_not_finite
    assert "a sigma is too small" in str(found)
