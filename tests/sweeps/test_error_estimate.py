"""`error_estimate=True` of `sweep`, compared with the true error."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Leapfrog
from diffsim.simulations import AbstractSimulation, Method, Separable, simulate
from diffsim.sweeps import SweepOptions, sweep


_TIMES = np.array([1.0, 3.0])
_RATES = np.linspace(0.5, 1.5, 5)
_FIXED = Method(Leapfrog(), step=0.05)
_ADAPTIVE = Method(
    diffrax.Tsit5(), controller=diffrax.PIDController(rtol=1e-6, atol=1e-6)
)


class Oscillator(AbstractSimulation):
    """x'' = -rate^2 x from rest at 1, which is at cos(rate t)."""

    rate: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(()), jnp.zeros(())

    def terms(self):
        return Separable(lambda t, v, a: v, lambda t, x, a: -(a.rate**2) * x)

    def default_method(self):
        return _FIXED


_MODEL = Oscillator(jnp.array(1.0))


def position(model, method=_FIXED):
    return simulate(model, _TIMES, method).states[0]


@pytest.fixture(scope="module")
def found():
    return sweep(position, _MODEL, {"rate": _RATES}, error_estimate=True)


def true_errors(positions):
    exact = np.cos(_RATES[:, None] * _TIMES)
    return np.max(np.abs(np.asarray(positions) - exact), axis=1)


@pytest.mark.parametrize(
    ("method", "batch"), first_plain([(_FIXED, 2), (_ADAPTIVE, None)])
)
def test_estimate_of_each_run_is_its_true_error_within_a_factor(method, batch):
    found = sweep(
        lambda model: position(model, method),
        _MODEL,
        {"rate": _RATES},
        batch=batch,
        error_estimate=True,
    )
    ratio = found.error_estimate / true_errors(found.outputs)
    assert np.all((ratio > 0.4) & (ratio < 2.5))


def test_estimate_is_that_of_single_runs(found):
    alone = [
        simulate(
            Oscillator(jnp.array(rate)),
            _TIMES,
            observe=lambda t, y: y[0],
            error_estimate=True,
        )
        for rate in _RATES
    ]
    expected = [run.error_estimate for run in alone]
    np.testing.assert_allclose(found.error_estimate, expected, rtol=1e-10)


def test_outputs_do_not_depend_on_the_estimate(found):
    plain = sweep(position, _MODEL, {"rate": _RATES})
    np.testing.assert_allclose(found.outputs, plain.outputs, rtol=1e-14)
    assert plain.error_estimate is None
    assert "error" not in str(plain)


def test_run_with_the_largest_estimate_is_printed(found):
    worst = int(np.argmax(found.error_estimate))
    size = f"{found.error_estimate[worst]:.2g}"
    last = str(found).splitlines()[-1]
    assert last.startswith(f"error of the solver up to {size}, in run {worst}: rate = ")


def test_previously_compiled_prediction_is_refined_too(found):
    compiled = eqx.filter_jit(position)
    compiled(_MODEL)
    again = sweep(
        lambda model: compiled(model), _MODEL, {"rate": _RATES}, error_estimate=True
    )
    np.testing.assert_allclose(again.error_estimate, found.error_estimate, rtol=1e-10)


@pytest.mark.parametrize("batch", first_plain([2, None]))
def test_estimate_of_failed_runs_is_nan(found, batch):
    rates = np.append(_RATES, np.nan)
    run = SweepOptions(memory=10**6)
    some = sweep(
        position, _MODEL, {"rate": rates}, batch=batch, options=run, error_estimate=True
    )
    np.testing.assert_allclose(
        some.error_estimate, [*found.error_estimate, np.nan], rtol=1e-10
    )
    assert "1 failed" in str(some) and "error of the solver up to" in str(some)
    none = sweep(
        position, _MODEL, {"rate": [np.nan, np.inf]}, batch=1, error_estimate=True
    )
    assert np.all(np.isnan(none.error_estimate))
    assert "error of the solver" not in str(none)


def test_estimate_is_infinite_where_only_the_refined_run_fails():
    # Steps of the second run are 0.0086 and longer, at a tenth of the tolerance 0.004;
    # those of the first are three times as long.
    controller = diffrax.PIDController(
        rtol=1e-6, atol=1e-6, dtmin=0.008, force_dtmin=False
    )
    method = Method(diffrax.Bosh3(), controller=controller)
    found = sweep(
        lambda model: position(model, method),
        _MODEL,
        {"rate": [1.0, 3.0]},
        error_estimate=True,
    )
    assert found.successful.all()
    assert found.error_estimate[0] < 1e-5 and np.isposinf(found.error_estimate[1])
    lines = str(found).splitlines()
    assert lines[1].startswith("error of the solver up to") and "run 0" in lines[1]
    assert (
        lines[2] == "error of the solver unknown: finer steps fail in run 1: rate = 3."
    )


def test_estimate_is_nan_without_a_simulation():
    found = sweep(jnp.sin, jnp.ones(()), {"value": _RATES}, error_estimate=True)
    assert found.error_estimate.shape == (5,) and np.all(np.isnan(found.error_estimate))
    assert str(found).endswith("none, no step in predict can be made finer")


def test_estimate_compares_trajectories_and_integers():
    def predict(model):
        run = simulate(model, _TIMES)
        return run, jnp.sum(run.states[0] > 0.5), jnp.array("a" == "b")

    found = sweep(predict, _MODEL, {"rate": [1.0]}, error_estimate=True)
    expected = simulate(_MODEL, _TIMES, error_estimate=True).error_estimate
    np.testing.assert_allclose(found.error_estimate, [expected], rtol=1e-10)


def test_estimate_of_derivative_outputs_is_their_true_error():
    """d cos(w t) / dw = -t sin(w t), of which leapfrog misses as much as an order 2."""
    slope = jax.jacfwd(lambda rate: position(Oscillator(rate)))
    found = sweep(slope, jnp.array(1.0), {"value": _RATES}, error_estimate=True)
    exact = -_TIMES * np.sin(_RATES[:, None] * _TIMES)
    error = np.max(np.abs(found.outputs - exact), axis=1)
    np.testing.assert_allclose(found.error_estimate, 0.75 * error, rtol=0.02)
