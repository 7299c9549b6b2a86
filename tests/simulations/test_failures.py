"""A failed run raises, and is NaN with a result under `failures_as_nan`."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import nbody, pde
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
def test_nonfinite_state_raises_runtime_error(run, k):
    with pytest.raises(RuntimeError, match=_SENTENCE):
        run(k)


@pytest.mark.parametrize("method", [_METHOD, Method(diffrax.Tsit5(), max_steps=16)])
def test_nonfinite_initial_state_has_its_own_result(driven, method):
    simulation = driven(start=(np.nan, 1.0))
    result = simulate(simulation, 0.5, method, throw=False).result
    assert result == ds.RESULTS.initial_state_not_finite
    with pytest.raises(RuntimeError, match="The initial state is infinite or not a"):
        simulate(simulation, 0.5, method)


def test_nonfinite_state_raises_under_jit(run):
    with pytest.raises(Exception, match=_SENTENCE):
        jax.jit(lambda k: run(k).states)(np.nan)


def test_throw_false_returns_the_result_and_the_finite_states(run):
    trajectory = run(-1e30, throw=False)
    assert trajectory.result == ds.RESULTS.non_finite
    assert _SENTENCE in ds.RESULTS[trajectory.result]
    assert np.all(np.isfinite(trajectory.states[0])), "what was reached is kept"
    assert run(2.0, throw=False).result == ds.RESULTS.successful


def test_nonfinite_output_off_the_grid_fails_the_run(driven):
    simulation = driven(k=1e160, start=(1e200, 0.0))
    assert simulate(simulation, [0.05], _METHOD, throw=False).result == (
        ds.RESULTS.non_finite
    )


def test_failures_as_nan_gives_nan_value_and_derivative(run):
    with failures_as_nan():
        trajectory = run(-1e30)
        forward = jax.jacfwd(lambda k: run(k).states)(-1e30)
        reverse = jax.jacrev(lambda k: run(k).states)(-1e30)
    assert trajectory.result == ds.RESULTS.non_finite
    for array in (trajectory.states, trajectory.final.y[0], forward, reverse):
        assert np.all(np.isnan(array))


def test_failures_as_nan_also_discards_events_before_the_failure(run):
    """A loss of times of events alone would not know that the run had failed."""
    passes = ds.simulations.Event(lambda t, y, args: y[0], limit=1)
    method = Method(diffrax.Tsit5(), max_steps=16)
    (seen,) = run(2.0, method, events=passes, throw=False).events
    assert np.all(np.isfinite(seen.times))

    @jax.jit
    def found(k):
        (record,) = run(k, method, events=passes).events
        return record.times, record

    with failures_as_nan():
        slope, seen = jax.jacfwd(found, has_aux=True)(2.0)
    for array in (seen.times, seen.states, slope):
        assert np.all(np.isnan(array))


def test_failures_as_nan_leaves_successful_runs_unchanged(run):
    with failures_as_nan():
        inside = run(2.0)
        slope = jax.jacfwd(lambda k: run(k).states)(2.0)
    np.testing.assert_allclose(inside.states, run(2.0).states, rtol=1e-14)
    assert np.all(np.isfinite(slope))


def test_throw_overrides_failures_as_nan(run):
    with failures_as_nan(), pytest.raises(RuntimeError, match=_SENTENCE):
        run(np.nan, throw=True)
    with failures_as_nan():
        assert np.all(np.isfinite(run(-1e30, throw=False).states[0]))


def test_failures_raise_again_after_failures_as_nan(run):
    with failures_as_nan():
        run(np.nan)
    with pytest.raises(RuntimeError, match=_SENTENCE):
        run(np.nan)


def test_failed_run_in_a_batch_leaves_the_others_unchanged(run):
    springs = jnp.array([2.0, np.nan, 3.0])
    with failures_as_nan():
        batch = jax.vmap(lambda k: (run(k).states, run(k).result))(springs)
    alone = [run(k).states for k in (2.0, 3.0)]
    np.testing.assert_allclose(batch[0][::2], alone, rtol=1e-12)
    assert np.all(np.isnan(batch[0][1]))
    ok = batch[1] == ds.RESULTS.successful
    np.testing.assert_array_equal(ok, [True, False, True])


def test_too_few_adaptive_steps_have_the_result_max_steps_reached(run):
    method = Method(diffrax.Tsit5(), max_steps=16)
    trajectory = run(2.0, method, throw=False)
    assert trajectory.result == ds.RESULTS.max_steps_reached
    assert ds.RESULTS[trajectory.result]
    with pytest.raises(RuntimeError, match=r"Method\(max_steps=...\)`, 65536"):
        run(2.0, method)


def test_result_is_that_of_the_failed_time_direction(driven):
    method = Method(diffrax.Tsit5(), max_steps=16)
    result = simulate(driven(), [-40.0, 0.1], method, throw=False).result
    assert result == ds.RESULTS.max_steps_reached


def test_every_result_has_a_message():
    for name in ("non_finite", "times_beyond_max_steps", "max_steps_reached"):
        assert len(ds.RESULTS[getattr(ds.RESULTS, name)]) > 20
    assert ds.RESULTS[ds.RESULTS.successful] == ""


def test_previously_compiled_run_respects_failures_as_nan(run):
    compiled = eqx.filter_jit(lambda k: run(k).states)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=_SENTENCE):
            compiled(np.nan)
        with failures_as_nan():
            assert np.all(np.isnan(compiled(np.nan)))
    found = ds.sweep(lambda k: compiled(k), jnp.array(1.0), {"value": [1.0, np.nan]})
    np.testing.assert_array_equal(found.successful, [True, False])


@pytest.mark.parametrize("known", [True, False], ids=["known", "traced"])
@pytest.mark.parametrize("name", ["diffusivity", "eccentricity", "h"])
def test_parameters_without_meaning_give_nan_under_failures_as_nan(name, known):
    def run(value):
        if name == "diffusivity":
            law, grid = pde.Diffusion(0.1 - value), pde.Grid(4)
            return simulate(pde.Evolution(law, jnp.ones(4), grid), 0.1).states[0, 0]
        if name == "h":
            orbit = nbody.NonsingularElements(semi_major_axis=1.0, h=value)
        else:
            orbit = nbody.Elements(semi_major_axis=1.0, eccentricity=value)
        return orbit.state(1.0)[0][0]

    run = run if known else jax.jit(run)
    with failures_as_nan():
        assert jnp.isfinite(run(0.01)) and jnp.isnan(run(1.2))
    if known:
        with pytest.raises(ValueError, match="must"):
            run(1.2)
