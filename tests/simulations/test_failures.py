"""A run that fails raises for a person, and is NaN with a name inside a fit."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, failures_as_nan, simulate


_METHOD = Method(Leapfrog(), 0.1)
_SENTENCE = "The state became infinite or not a number"


@pytest.fixture(scope="module")
def run(driven):
    """Runs the oscillator with the spring `k`."""

    def run(k, method=_METHOD, **options):
        simulation = eqx.tree_at(lambda s: s.k, driven(), jnp.asarray(k))
        return simulate(simulation, [0.5, 40.0], method, **options)

    return run


# -1e30 is finite and its states overflow on the way.
@pytest.mark.parametrize("k", [np.nan, np.inf, -1e30])
def test_a_state_that_is_not_finite_raises(run, k):
    with pytest.raises(RuntimeError, match=_SENTENCE):
        run(k)


@pytest.mark.parametrize("method", [_METHOD, Method(diffrax.Tsit5(), max_steps=16)])
def test_a_start_that_is_not_finite_is_named(driven, method):
    simulation = driven(start=(np.nan, 1.0))
    result = simulate(simulation, 0.5, method, throw=False).result
    assert result == ds.RESULTS.initial_state_not_finite
    with pytest.raises(RuntimeError, match="The initial state is infinite or not a"):
        simulate(simulation, 0.5, method)


def test_it_raises_from_compiled_code_too(run):
    with pytest.raises(Exception, match=_SENTENCE):
        jax.jit(lambda k: run(k).states)(np.nan)


def test_throw_false_returns_the_reason(run):
    trajectory = run(-1e30, throw=False)
    assert trajectory.result == ds.RESULTS.non_finite
    assert _SENTENCE in ds.RESULTS[trajectory.result]
    assert np.all(np.isfinite(trajectory.states[0])), "what was reached is kept"
    assert run(2.0, throw=False).result == ds.RESULTS.successful


def test_an_output_off_the_grid_that_is_not_finite_is_a_failure(driven):
    simulation = driven(k=1e160, start=(1e200, 0.0))
    assert simulate(simulation, [0.05], _METHOD, throw=False).result == (
        ds.RESULTS.non_finite
    )


def test_inside_a_fit_a_failure_is_nan_and_so_is_its_derivative(run):
    with failures_as_nan():
        trajectory = run(-1e30)
        forward = jax.jacfwd(lambda k: run(k).states)(-1e30)
        reverse = jax.jacrev(lambda k: run(k).states)(-1e30)
    assert trajectory.result == ds.RESULTS.non_finite
    for array in (trajectory.states, trajectory.final.y[0], forward, reverse):
        assert np.all(np.isnan(array))


def test_inside_a_fit_what_happened_before_a_failure_is_nan_too(run):
    """A loss of times of events alone would not know that the run had failed."""
    passes = ds.simulations.Event(lambda t, y, args: y[0], limit=1)
    method = Method(diffrax.Tsit5(), max_steps=16)
    (seen,) = run(2.0, method, events=passes, throw=False).events
    assert np.all(np.isfinite(seen.times))
    with failures_as_nan():
        (seen,) = run(2.0, method, events=passes).events
        slope = jax.jacfwd(lambda k: run(k, method, events=passes).events[0].times)(2.0)
    for array in (seen.times, seen.states, slope):
        assert np.all(np.isnan(array))


def test_inside_a_fit_a_good_run_is_untouched(run):
    with failures_as_nan():
        inside = run(2.0)
        slope = jax.jacfwd(lambda k: run(k).states)(2.0)
    np.testing.assert_allclose(inside.states, run(2.0).states, rtol=1e-14)
    assert np.all(np.isfinite(slope))


def test_throw_is_obeyed_inside_a_fit(run):
    with failures_as_nan(), pytest.raises(RuntimeError, match=_SENTENCE):
        run(np.nan, throw=True)
    with failures_as_nan():
        assert np.all(np.isfinite(run(-1e30, throw=False).states[0]))


def test_after_a_fit_failures_raise_again(run):
    with failures_as_nan():
        run(np.nan)
    with pytest.raises(RuntimeError, match=_SENTENCE):
        run(np.nan)


def test_one_member_of_a_batch_fails_alone(run):
    springs = jnp.array([2.0, np.nan, 3.0])
    with failures_as_nan():
        batch = jax.vmap(lambda k: (run(k).states, run(k).result))(springs)
    alone = [run(k).states for k in (2.0, 3.0)]
    np.testing.assert_allclose(batch[0][::2], alone, rtol=1e-12)
    assert np.all(np.isnan(batch[0][1]))
    ok = batch[1] == ds.RESULTS.successful
    np.testing.assert_array_equal(ok, [True, False, True])


def test_too_few_adaptive_steps_is_a_named_failure(run):
    method = Method(diffrax.Tsit5(), max_steps=16)
    trajectory = run(2.0, method, throw=False)
    assert trajectory.result == ds.RESULTS.max_steps_reached
    assert ds.RESULTS[trajectory.result]
    with pytest.raises(RuntimeError, match=r"Method\(max_steps=...\)`, 65536"):
        run(2.0, method)


def test_of_two_directions_of_time_the_one_that_failed_is_reported(driven):
    method = Method(diffrax.Tsit5(), max_steps=16)
    result = simulate(driven(), [-40.0, 0.1], method, throw=False).result
    assert result == ds.RESULTS.max_steps_reached


def test_every_result_has_a_sentence():
    for name in ("non_finite", "times_beyond_max_steps", "max_steps_reached"):
        assert len(ds.RESULTS[getattr(ds.RESULTS, name)]) > 20
    assert ds.RESULTS[ds.RESULTS.successful] == ""


def test_what_was_compiled_before_raises_outside_only(run):
    compiled = eqx.filter_jit(lambda k: run(k).states)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=_SENTENCE):
            compiled(np.nan)
        with failures_as_nan():
            assert np.all(np.isnan(compiled(np.nan)))
    found = ds.sweep(lambda k: compiled(k), jnp.array(1.0), {"value": [1.0, np.nan]})
    np.testing.assert_array_equal(found.successful, [True, False])
