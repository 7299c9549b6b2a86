"""Error bars of parameters whose squares overflow or underflow."""

import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.inference import Gaussian, fisher, fit


X = np.linspace(0, 1, 20)
DESIGN = np.stack([np.ones(20), X, X**2], axis=1)
DATA = DESIGN @ [1.0, 2.0, -0.5] + 0.1 * np.random.default_rng(0).normal(size=20)
START = np.array([1.1, 1.5, -0.2])
KNOWN = np.linalg.inv(DESIGN.T @ DESIGN) * 0.01
STDERR = np.sqrt(np.diag(KNOWN))
CORRELATION = KNOWN / np.outer(STDERR, STDERR)

UNITS = (1e-300, 1e200, 1.0), (1e155, 1e-155, 1e-160), (1e300,) * 3, (1e-300,) * 3
EVERY = pytest.mark.parametrize(
    "unit",
    first_plain([(unit,) for unit in UNITS]),
    ids=lambda unit: f"{unit[0]:g} {unit[1]:g}",
)


def parabola(unit):
    return lambda values: DESIGN @ (values / jnp.array(unit))


@EVERY
def test_error_bars_scale_with_the_units_of_the_parameters(unit):
    start = jnp.array(START * unit)
    found = fit(parabola(unit), start, DATA, noise=Gaussian(0.1))
    np.testing.assert_allclose(found.stderr / np.array(unit), STDERR, rtol=1e-9)
    np.testing.assert_allclose(found.correlation, CORRELATION, atol=1e-9)
    assert found.flags == {} and "inf" not in str(found)
    unknown = fit(parabola(unit), start, DATA, noise=Gaussian())
    ratio = unknown.stderr / np.array(unit) / (unknown.sigma_scale / 0.1)
    np.testing.assert_allclose(ratio, STDERR, rtol=1e-9)


@EVERY
@pytest.mark.parametrize("kind", first_plain(["expected", "observed"]))
def test_fisher_information_scales_with_the_units_of_the_parameters(unit, kind):
    values = jnp.array(START * unit)
    options = {"noise": Gaussian(0.1), "kind": kind, "data": DATA}
    found = fisher(parabola(unit), values, **options)
    np.testing.assert_allclose(found.stderr / np.array(unit), STDERR, rtol=1e-9)
    np.testing.assert_allclose(found.correlation, CORRELATION, atol=1e-9)
    twice = found + found
    np.testing.assert_allclose(twice.stderr, found.stderr / np.sqrt(2), rtol=1e-9)
    fixed = np.sqrt(0.01 * np.diag(np.linalg.inv(DESIGN[:, 1:].T @ DESIGN[:, 1:])))
    np.testing.assert_allclose(
        found.fix("[0]").stderr / np.array(unit)[1:], fixed, rtol=1e-9
    )
    rest = found.marginalize("[0]").stderr / np.array(unit)[1:]
    np.testing.assert_allclose(rest, STDERR[1:], rtol=1e-9)


@EVERY
def test_bias_scales_with_the_units_of_the_parameters(unit):
    found = fisher(parabola(unit), jnp.array(START * unit), noise=Gaussian(0.1))
    shift = found.bias(0.3 * X) / np.array(unit)
    np.testing.assert_allclose(shift, [0, 0.3, 0], atol=1e-12)
