"""Invalid times, epochs and steps are errors, never initial states."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim.integrators import Yoshida4
from diffsim.simulations import Method, failures_as_nan, simulate
from diffsim.simulations._elapsed_time import warn_of_a_far_start


_FIXED = Method(Yoshida4(), 0.1, max_steps=20)
_METHODS, _IDS = [_FIXED, Method(diffrax.Tsit5())], ["fixed", "adaptive"]
_BOTH = pytest.mark.parametrize("method", _METHODS, ids=_IDS)
_FIRST = pytest.mark.parametrize("method", first_plain(_METHODS), ids=_IDS)


def moved(driven, t0):
    return eqx.tree_at(lambda s: s.t0, driven(), t0)


@_BOTH
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_traced_nonfinite_time_has_its_own_result(driven, method, wrong):
    @jax.jit
    def run(times):
        found = simulate(driven(), times, method, throw=False)
        return found.states, found.result

    states, result = run(jnp.array([0.3, wrong, 0.7]))
    assert result == ds.RESULTS.times_not_finite
    assert np.all(np.isnan(states[1]))
    good, fine = run(jnp.array([0.3, 0.5, 0.7]))
    assert fine == ds.RESULTS.successful
    np.testing.assert_allclose(states[::2], good[::2], rtol=1e-7)


@_FIRST
def test_traced_nan_time_raises_and_is_nan_under_failures_as_nan(driven, method):
    def run(time):
        return simulate(driven(), time, method).states

    with pytest.raises(Exception, match="A requested time or `t0` is infinite or not"):
        jax.jit(run)(np.nan)
    with failures_as_nan():
        assert np.all(np.isnan(jax.jit(lambda time: run(time))(np.nan)))


@_FIRST
def test_traced_nonfinite_epoch_has_its_own_result(driven, method):
    def run(t0):
        return simulate(moved(driven, t0), 1.0, method, throw=False).result

    assert jax.jit(run)(jnp.nan) == ds.RESULTS.times_not_finite
    assert jax.jit(run)(0.2) == ds.RESULTS.successful


@pytest.mark.parametrize("bound", [None, 4])
@pytest.mark.parametrize("step", [3.0, 1e20])
def test_step_beyond_the_outputs_is_clipped_to_them(driven, step, bound):
    """And does not make the first output the initial state."""
    method = Method(diffrax.Dopri8(), step, max_steps=bound)

    def run(times):
        return simulate(driven(), times, method).states

    run = run if bound is None else jax.jit(run)
    times = np.array([0.01, 0.02])
    exact = [driven().exact(t) for t in times]
    np.testing.assert_allclose(run(times), exact, rtol=1e-13)


def test_epoch_far_from_all_outputs_warns(driven, recwarn):
    with pytest.warns(UserWarning, match=r"far from t0 = 0.*give it .* as t0="):
        warn_of_a_far_start(0.0, np.array([2451545.0, 2451546.0]))
    with pytest.warns(UserWarning, match="times from -2451546 to -2451545 lie far"):
        warn_of_a_far_start(0, np.array([-2451546.0, -2451545.0]))
    with pytest.warns(UserWarning, match="far from t0 = 0"):
        simulate(moved(driven, 0.0), [30.0, 30.001], Method(Yoshida4(), 0.5))
    assert not recwarn.list
    warn_of_a_far_start(2451540.0, np.array([2451545.0, 2451546.0]))
    warn_of_a_far_start(0.0, np.array([900.0, 901.0]))
    warn_of_a_far_start(0.0, np.array([-1e5, 1e5]))
    warn_of_a_far_start(0.0, np.array([1e5, 1e5]))
    warn_of_a_far_start(0.0, np.array(1e5))
    assert not recwarn.list


def test_large_integer_times_representable_in_float64_are_exact(driven):
    far = 2**60  # where doubles lie 256 apart
    times = np.array([512, 1024])
    method = Method(Yoshida4(), 256.0)
    system = eqx.tree_at(lambda s: s.a, driven(), 0.0)  # which knows no date
    near = simulate(eqx.tree_at(lambda s: s.t0, system, 0.0), times, method)
    there = simulate(
        eqx.tree_at(lambda s: s.t0, system, float(far)), far + times, method
    )
    np.testing.assert_array_equal(there.states, near.states)
    edges = [-(2**53), 2**53]
    assert (
        simulate(driven(), edges, Method(Yoshida4(), 2.0**52)).times.tolist() == edges
    )
