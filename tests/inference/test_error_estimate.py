"""`error_estimate=True` of `fisher`, compared with the true discretization error."""

import dataclasses

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import RESULTS, implicit
from diffsim.inference import Free, Gaussian, fisher
from diffsim.integrators import Leapfrog
from diffsim.simulations import AbstractSimulation, Method, Separable, simulate


_TIMES = np.linspace(0.5, 6, 12)
_NOISE = Gaussian(0.01)
_FIXED = Method(Leapfrog(), step=0.1)
_ADAPTIVE = Method(
    diffrax.Tsit5(), controller=diffrax.PIDController(rtol=1e-4, atol=1e-4)
)


class Oscillator(AbstractSimulation):
    """x'' = -rate^2 x from rest at `start`, which is at start cos(rate t)."""

    rate: jax.Array
    start: jax.Array
    t0: float = eqx.field(static=True, default=0.0)

    def initial_state(self):
        return self.start, jnp.zeros(())

    def terms(self):
        return Separable(lambda t, v, a: v, lambda t, x, a: -(a.rate**2) * x)

    def default_method(self):
        return _FIXED


_MODEL = Oscillator(jnp.array(1.2), jnp.array(2.0))


def exact(model):
    return model.start * jnp.cos(model.rate * _TIMES)


def fixed(model):
    return simulate(model, _TIMES, _FIXED).states[0]


def adaptive(model):
    return simulate(model, _TIMES, _ADAPTIVE).states[0]


@pytest.fixture(scope="module")
def found():
    return fisher(fixed, _MODEL, noise=_NOISE, error_estimate=True)


def true_errors(predict, found):
    """Relative ones of the error bars, and of the best values in error bars."""
    known = fisher(exact, _MODEL, noise=_NOISE)
    of_bars = np.abs(found.stderr / known.stderr - 1)
    return of_bars, np.abs(found.bias(exact(_MODEL) - predict(_MODEL)) / found.stderr)


def test_estimate_by_step_halving_is_three_quarters_of_a_second_order_error(found):
    of_bars, of_values = true_errors(fixed, found)
    np.testing.assert_allclose(found.error_estimate, 0.75 * of_bars, rtol=0.02)
    # Leapfrog from rest is late and keeps its amplitude: nothing moves `start` to
    # second order, and what does is a thousandth of an error bar.
    np.testing.assert_allclose(
        found.solver_error, 0.75 * of_values, rtol=0.02, atol=1e-3
    )


@pytest.mark.slow
def test_the_estimate_of_adaptive_steps_is_the_error_within_a_factor():
    found = fisher(adaptive, _MODEL, noise=_NOISE, error_estimate=True)
    errors = true_errors(adaptive, found)
    for estimate, error in zip(
        (found.error_estimate, found.solver_error), errors, strict=True
    ):
        worst = np.max(error)
        assert 0.4 * worst < np.max(estimate) < 2.5 * worst


def test_estimate_is_the_same_under_jit_and_vmap(found):
    def errors(rate):
        model = Oscillator(rate, _MODEL.start)
        here = fisher(fixed, model, noise=_NOISE, error_estimate=True)
        return here.error_estimate, here.solver_error

    expected = found.error_estimate, found.solver_error
    mapped = jax.jit(jax.vmap(errors, out_axes=1))(jnp.array([1.2, 0.9]))
    np.testing.assert_allclose(np.array(mapped)[..., 0], expected, rtol=1e-9)


@pytest.mark.slow
def test_previously_compiled_prediction_is_refined_too(found):
    compiled = eqx.filter_jit(fixed)
    compiled(_MODEL)
    for _ in range(2):
        again = fisher(
            lambda model: compiled(model), _MODEL, noise=_NOISE, error_estimate=True
        )
        np.testing.assert_allclose(
            again.error_estimate, found.error_estimate, rtol=1e-10
        )


@pytest.mark.slow
def test_observed_information_has_the_same_error_without_residuals(found):
    """On the data that the model predicts, curvature and information are one."""
    observed = fisher(
        fixed,
        _MODEL,
        noise=_NOISE,
        data=fixed(_MODEL),
        kind="observed",
        error_estimate=True,
    )
    np.testing.assert_allclose(observed.stderr, found.stderr, rtol=1e-9)
    # to first order in the error: one takes the derivative by coarse steps, one by fine
    np.testing.assert_allclose(
        np.max(observed.solver_error), np.max(found.solver_error), rtol=0.01
    )


@pytest.mark.slow
def test_solver_error_is_relative_to_the_error_bars_of_an_unknown_sigma(found):
    data = fixed(_MODEL) + 0.02 * np.resize([1, -1], _TIMES.size)
    judged = fisher(fixed, _MODEL, noise=Gaussian(), data=data, error_estimate=True)
    expected = found.solver_error * found.stderr / judged.stderr
    np.testing.assert_allclose(judged.solver_error, expected, rtol=1e-9)


def test_estimate_survives_sums_fix_and_marginalize(found):
    one = found.fix("start")
    alone = fisher(fixed, _MODEL, noise=_NOISE, free="rate", error_estimate=True)
    for part in (one, alone):
        np.testing.assert_allclose(part.error_estimate, alone.error_estimate, rtol=1e-8)
        np.testing.assert_allclose(part.solver_error, alone.solver_error, rtol=1e-8)
    rest = found.marginalize("start")
    np.testing.assert_allclose(rest.error_estimate, found.error_estimate[:1], rtol=1e-8)
    np.testing.assert_allclose(rest.solver_error, found.solver_error[:1], rtol=1e-8)
    for twice in (found + found, 2 * found, sum([found, found])):
        np.testing.assert_allclose(
            twice.error_estimate, found.error_estimate, rtol=1e-8
        )
        # with error bars that are shorter by a square root of two
        np.testing.assert_allclose(
            twice.solver_error, np.sqrt(2) * found.solver_error, rtol=1e-8
        )


@pytest.mark.slow
def test_undetermined_parameter_does_not_change_the_estimate_of_the_others(found):
    def predict(model):
        return fixed(model["of"]) + 0 * model["unused"]

    model = {"of": _MODEL, "unused": jnp.array(3.0)}
    wider = fisher(predict, model, noise=_NOISE, error_estimate=True)
    alike = wider.error_estimate, wider.solver_error
    expected = found.error_estimate, found.solver_error
    for got, want in zip(alike, expected, strict=True):
        np.testing.assert_allclose(got[:2], want, rtol=1e-8)
    assert wider.error_estimate[2] == 0 and np.isnan(wider.solver_error[2])
    assert "sigma (of.rate); take a smaller" in str(wider)
    for part in (wider.marginalize("unused"), wider.fix("unused")):
        np.testing.assert_allclose(part.solver_error, found.solver_error, rtol=1e-8)
    part = wider.marginalize("of.start")
    np.testing.assert_allclose(part.solver_error[0], found.solver_error[0], rtol=1e-8)


@pytest.mark.slow
def test_prior_reduces_the_solver_error(found):
    free = {"rate": Free(prior=(1.2, 1e-3)), "start": Free()}
    given = fisher(fixed, _MODEL, noise=_NOISE, free=free, error_estimate=True)
    added = found + np.diag([1e6, 0.0])
    np.testing.assert_allclose(added.error_estimate, given.error_estimate, rtol=1e-8)
    np.testing.assert_allclose(added.solver_error, given.solver_error, rtol=1e-8)
    assert given.error_estimate[0] < found.error_estimate[0]


def test_large_estimate_is_printed_with_advice(found):
    last = str(found).splitlines()[-1]
    assert f"by more than {np.max(found.error_estimate):.1e} of it (" in last
    assert f"by more than {np.max(found.solver_error):.1e} sigma (rate)" in last
    assert last.endswith("; take a smaller step or tolerance")
    fine = Method(diffrax.Dopri8(), step=0.1)
    good = fisher(
        lambda model: simulate(model, _TIMES, fine).states[0],
        _MODEL,
        noise=_NOISE,
        error_estimate=True,
    )
    assert np.all(good.solver_error < 1e-6) and np.all(good.error_estimate < 1e-6)
    assert "finer steps would change no standard deviation" in str(good)
    assert "smaller step" not in str(good)


def test_no_estimate_by_default(found):
    plain = fisher(fixed, _MODEL, noise=_NOISE)
    assert plain.error_estimate is None and plain.solver_error is None
    assert "Solver error" not in str(plain)
    assert (plain + found).error_estimate is None
    np.testing.assert_array_equal(plain.matrix, found.matrix)


def test_estimate_is_nan_without_a_simulation():
    found = fisher(exact, _MODEL, noise=_NOISE, error_estimate=True)
    assert np.all(np.isnan(found.error_estimate))
    assert np.all(np.isnan(found.solver_error))
    assert str(found).endswith("none, no step in predict can be made finer")
    assert np.all(np.isfinite(found.stderr))


def test_estimate_is_infinite_where_only_finer_steps_fail(found):
    failed = dataclasses.replace(found.refined, status=RESULTS.max_steps_reached)
    known = found.with_refinement(failed, found.score)
    assert np.all(np.isposinf(known.error_estimate))
    assert np.all(np.isposinf(known.solver_error))
    assert str(known).endswith("unknown, the simulation failed at finer steps")


@pytest.mark.slow
def test_run_that_fails_at_finer_steps_only_is_told_from_one_that_fails():
    controller = diffrax.PIDController(
        rtol=1e-6, atol=1e-6, dtmin=0.008, force_dtmin=False
    )
    method = Method(diffrax.Bosh3(), controller=controller)
    found = fisher(
        lambda model: simulate(model, _TIMES, method).states[0],
        Oscillator(jnp.array(3.0), jnp.array(1.0)),
        noise=_NOISE,
        error_estimate=True,
    )
    assert found.status == RESULTS.successful
    assert np.all(np.isposinf(found.error_estimate))
    assert np.all(np.isposinf(found.solver_error))


def _end(rate, start):
    return simulate(Oscillator(rate, start), 0.5, _FIXED).states[0]


#: The start from which a run ends at 1.
SHOTS = {
    "root": lambda r: implicit.root(lambda x, _: _end(r, x) - 1, 1.5),
    "fixed_point": lambda r: implicit.fixed_point(lambda x, _: x + 1 - _end(r, x), 1.5),
    "minimise": lambda r: implicit.minimise(lambda x, _: (_end(r, x) - 1) ** 2, 1.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("layer", SHOTS)
def test_runs_inside_an_implicit_layer_are_refined_at_every_call(layer):
    """Also where JAX has traced the layer before, so that nothing runs in Python."""

    def asked(k):
        found = fisher(
            lambda rate: k * SHOTS[layer](rate),
            jnp.array(1.2),
            noise=_NOISE,
            error_estimate=True,
        )
        return found.error_estimate[0]

    first = asked(1.0)
    assert first > 0
    np.testing.assert_allclose([asked(1.0), asked(2.0)], first, rtol=1e-5)


def test_estimate_of_a_failed_run_is_nan():
    model = Oscillator(jnp.array(1e200), jnp.array(1.0))
    found = fisher(fixed, model, noise=_NOISE, error_estimate=True)
    assert found.status != RESULTS.successful
    assert np.all(np.isnan(found.error_estimate))
    assert "Solver error" not in str(found)
