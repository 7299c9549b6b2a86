"""Default step bounds end no ordinary run, and reached bounds are reported."""

import re

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim.simulations import Event, Method, _simulate, failures_as_nan, simulate
from diffsim.simulations._integrate import _plan


@pytest.fixture
def few_steps(monkeypatch):
    """Sixteen steps, where a run would have 65536."""
    monkeypatch.setattr(_plan, "MAX_STEPS", 16)


_TIMES = np.array([0.2, 3.0, 3.1, 7.7, 11.0])


def exact(simulation, times):
    return [simulation.exact(t) for t in times]


@pytest.mark.parametrize("times", first_plain([-_TIMES[::-1], _TIMES, 9.0]))
@pytest.mark.parametrize("t0", first_plain([100.0, 0.0]))
def test_default_run_continues_beyond_the_initial_step_bound(
    driven, few_steps, times, t0
):
    simulation = driven(t0=t0)
    found = simulate(simulation, t0 + times)
    expected = exact(simulation, np.atleast_1d(t0 + times))
    np.testing.assert_allclose(np.atleast_2d(found.states), expected, atol=2e-7)
    assert found.result == ds.RESULTS.successful
    assert int(found.stats["num_steps"]) > 16
    farthest = np.atleast_1d(times)[np.argmax(np.abs(times))]
    assert float(found.final.t) == t0 + farthest
    ends = found.steps[np.isfinite(found.steps)]
    assert ends.size == int(found.stats["num_accepted_steps"])
    assert np.all(np.diff(ends) > 0)


def test_default_run_continues_in_both_time_directions(driven, few_steps):
    times = np.array([-9.0, -0.1, 0.3, 8.0])
    found = simulate(driven(), times)
    np.testing.assert_allclose(found.states, exact(driven(), times), atol=2e-7)
    assert float(found.final.t) == 8.0
    np.testing.assert_array_equal(found.times, times)


def test_concrete_run_under_failures_as_nan_continues(driven, few_steps):
    with failures_as_nan():
        found = simulate(driven(), _TIMES)
    np.testing.assert_allclose(found.states, exact(driven(), _TIMES), atol=2e-7)


@pytest.mark.slow
def test_float32_run_continues_beyond_the_initial_step_bound(driven, few_steps):
    found = simulate(driven(dtype=jnp.float32), _TIMES)
    assert found.states.dtype == jnp.float32
    np.testing.assert_allclose(found.states, exact(driven(), _TIMES), atol=1e-4)


@pytest.fixture
def interrupted(monkeypatch):
    """A person who stops a run some parts after its first warning."""
    parts, part = [], _simulate._simulate

    def counted(*inputs):
        parts.append(inputs)
        if len(parts) > 40:
            raise KeyboardInterrupt
        return part(*inputs)

    monkeypatch.setattr(_simulate, "_simulate", counted)


@pytest.mark.parametrize("side", first_plain([-1, 1]))
def test_very_long_run_warns_once_and_can_be_interrupted(
    driven, few_steps, interrupted, side
):
    simulation, end = driven(t0=7.0), 7.0 + side * 1e9
    stopped = pytest.raises(KeyboardInterrupt)
    with pytest.warns(UserWarning, match="goes on") as record, stopped:
        simulate(simulation, end)
    assert len(record) == 1
    found = re.search(
        r"(\d+) steps to t0 \+ (\S+) on the way to t0 \+ (\S+) .* takes (\S+)\. .*"
        r"simulate\(max_steps=...\)",
        str(record[0].message),
    )
    steps, reached, end, total = map(float, found.groups())
    assert steps == 16 * 16
    assert end == side * 1e9
    # Steps are alike all the way.
    assert total == pytest.approx(steps * end / reached, rel=0.3)


def test_moderately_long_run_does_not_warn(driven, few_steps):
    found = simulate(driven(), 25.0)
    assert int(found.stats["num_steps"]) > 17 * 16


def test_traced_run_fails_at_the_step_bound(driven, few_steps):
    run = jax.jit(lambda k: simulate(driven(), k * _TIMES[-1], throw=False).result)
    assert run(1.0) == ds.RESULTS.max_steps_reached
    assert run(0.01) == ds.RESULTS.successful


def test_explicit_max_steps_fails_the_run_and_reports_the_time_reached(driven):
    message = r"Here 16 steps led to t = [\d.]+ on the way to 40\."
    with pytest.raises(RuntimeError, match=message):
        simulate(driven(), [0.5, 40.0], max_steps=16)
    found = simulate(driven(), [0.5, 40.0], max_steps=16, throw=False)
    assert 0.5 < float(found.final.t) < 10.0
    last = found.steps[np.isfinite(found.steps)][-1]
    assert float(found.final.t) == last, "it is where the last step ended"
    np.testing.assert_allclose(found.final.y, driven().exact(last), atol=1e-7)


def test_default_step_bound_covers_three_hundred_periods(driven):
    """Of which 4096 took 85."""
    found = simulate(driven(), 300 * 2 * np.pi / np.sqrt(2.0))
    assert int(found.stats["num_steps"]) > 4096
    # Tsit5 at 1e-8 loses a phase of 1e-8 a step
    np.testing.assert_allclose(found.states, driven().exact(found.times), atol=2e-4)


def test_events_of_a_long_run_are_all_recorded(driven):
    passes = Event(lambda t, y, args: y[0], direction="up", limit=400)
    simulation = driven(a=0.0)
    found = simulate(simulation, 1400.0, events=passes)
    assert int(found.stats["num_steps"]) > 4096
    gaps = np.diff(found.events[0].times[: int(found.events[0].count)])
    np.testing.assert_allclose(gaps, 2 * np.pi / np.sqrt(2.0), atol=1e-6)


def test_options_change_the_default_method(driven):
    simulation = driven()
    loose = simulate(simulation, 5.0, rtol=1e-3)
    tight = simulate(simulation, 5.0, rtol=1e-11)
    assert loose.stats["num_steps"] < tight.stats["num_steps"]
    np.testing.assert_allclose(tight.states, simulation.exact(5.0), atol=1e-10)
    fixed = simulate(simulation, 5.0, step=0.05)
    assert fixed.steps is None
    assert int(fixed.stats["num_steps"]) == 100
    same = simulate(simulation, 5.0, Method(diffrax.Tsit5(), 0.05))
    np.testing.assert_array_equal(fixed.states, same.states)
