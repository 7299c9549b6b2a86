"""A fit has the derivatives of its optimum, in every nesting and in a scan."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.inference import Free, Gaussian, fit


DATA = jnp.array([1.0, 2.0, 3.0, 2.5])
#: d²/dd² of ln of a mean.
CURVATURE = np.full((4, 4), -1 / (4 * np.mean(DATA)) ** 2)


def log_mean(data, **options):
    def predict(m):
        return jnp.exp(m["x"]) * jnp.ones(4)

    return fit(predict, {"x": 0.0}, data, noise=Gaussian(1.0), **options)


def scanned(value):
    def total(data):
        def step(data, _):
            return data, value(data)

        return jnp.sum(jax.lax.scan(step, data, None, length=2)[1]) / 2

    return total


fwd, rev = jax.jacfwd, jax.jacrev

HESSIANS = {
    "forward over forward": lambda f: fwd(fwd(f)),
    "forward over reverse": lambda f: fwd(rev(f)),
    "reverse over forward": lambda f: rev(fwd(f)),
    "reverse over reverse": lambda f: rev(rev(f)),
}


# The first is one that a rule by `custom_jvp` does not have.
@pytest.mark.parametrize("mode", first_plain(reversed(HESSIANS)))
def test_hessian_of_a_fit_in_a_scan_is_right_in_every_mode(mode):
    """ln of a mean: d²x/dd² = −1/(N d̄)²."""
    hessian = HESSIANS[mode](scanned(lambda data: log_mean(data).values[0]))
    np.testing.assert_allclose(jax.jit(hessian)(DATA), CURVATURE, rtol=1e-9)


def test_gradient_of_the_minimal_loss_by_the_data_is_the_residual():
    """½ Σ (d − d̄)² has the gradient d − d̄: the fit itself adds nothing to it."""

    def loss(data):
        return log_mean(data).loss

    for slope in jax.jit(lambda data: (fwd(loss)(data), rev(loss)(data)))(DATA):
        np.testing.assert_allclose(slope, DATA - jnp.mean(DATA), atol=1e-12)


@pytest.mark.slow
def test_multistart_fit_has_the_hessian_of_its_best_start():
    def value(data):
        return log_mean(data, starts=3).values[0]

    hessian = jax.jit(HESSIANS["reverse over reverse"](value))(DATA)
    np.testing.assert_allclose(hessian, CURVATURE, rtol=1e-9)


@pytest.mark.slow
def test_parameter_at_an_active_bound_has_zero_hessian():
    x = np.arange(4.0)
    free = {"a": Free(bounds=(None, 0.5)), "b": Free(transform="log")}

    def values(data):
        model = {"a": 0.0, "b": 1.0}
        line = Gaussian(0.1)
        found = fit(lambda m: m["a"] + m["b"] * x, model, data, noise=line, free=free)
        return jnp.stack([found.values[0], jnp.log(found.values[1])])

    # b = x·(d − ½)/x·x, at the bound ½ of a.
    b = x @ (DATA - 0.5) / (x @ x)
    exact = [np.zeros((4, 4)), -np.outer(x, x) / (x @ x * b) ** 2]
    hessian = jax.jit(HESSIANS["reverse over reverse"](values))(DATA)
    np.testing.assert_allclose(hessian, exact, atol=1e-10)


def test_derivative_is_nan_in_an_undetermined_direction():
    """The sum of two numbers is known; neither of them is, and nothing is made up."""

    def values(data):
        found = fit(lambda m: (m[0] + m[1]) * jnp.ones(4), P, data, noise=Gaussian(1.0))
        return found.values

    P = jnp.ones(2)
    every = jax.jit(lambda data: [f(data) for f in (values, fwd(values), rev(values))])
    found, *derivatives = every(DATA)
    np.testing.assert_allclose(jnp.sum(found), jnp.mean(DATA), rtol=1e-12)
    assert np.all(np.isnan(derivatives))
