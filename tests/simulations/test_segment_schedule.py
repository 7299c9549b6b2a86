"""The segments of a fixed-step run: integers, for any output times."""

import numpy as np
import pytest

from diffsim.simulations._integrate._segment_schedule import Schedule, grid_steps


def kept_after(schedule):
    """Number of steps taken at each kept state, the initial one first."""
    counts = schedule.counts or (schedule.size,) * schedule.segments
    assert len(counts) == schedule.segments
    assert all(0 < count <= schedule.size for count in counts)
    return np.concatenate([[0], np.cumsum(counts, dtype=int)])


def random_steps(random):
    """Sorted whole numbers of all kinds: regular, crowded, repeated, zero."""
    count = random.integers(1, 40)
    kind = random.integers(4)
    if kind == 0:
        return random.integers(1, 50) * np.arange(count)
    if kind == 1:
        return np.sort(random.integers(0, 2000, count))
    if kind == 2:
        return np.cumsum(random.choice([0, 1, 7, 100], count))
    return np.sort(random.integers(0, 5, count)) * random.integers(1, 300)


def test_schedule_reaches_the_grid_point_of_every_output():
    random = np.random.default_rng(0)
    for _ in range(500):
        steps, segments = random_steps(random), int(random.integers(1, 60))
        schedule = Schedule.reaching(steps, segments=segments)
        after = kept_after(schedule)
        np.testing.assert_array_equal(after[list(schedule.rows)], steps)
        assert schedule.steps == steps[-1] == after[-1]
        assert schedule.segments >= min(segments, steps[-1])
        assert hash(schedule) == hash(Schedule.reaching(steps, segments=segments))


def test_regular_outputs_have_full_segments():
    schedule = Schedule.reaching(125 * np.arange(1, 101))
    assert (schedule.size, schedule.segments, schedule.counts) == (125, 100, None)
    # A meter wants fifty, and there is one output.
    schedule = Schedule.reaching(np.array([1000]), segments=50)
    assert schedule.counts is None and schedule.segments >= 50


def test_prime_number_of_steps_is_run_in_few_segments():
    schedule = Schedule.reaching(np.array([10_007]), segments=100)
    assert 100 <= schedule.segments < 200
    assert sum(schedule.counts) == 10_007


def test_steps_and_remainder_add_up_to_the_time():
    random = np.random.default_rng(1)
    for _ in range(500):
        step = float(10 ** random.uniform(-3, 2))
        times = np.sort(random.uniform(0, 300, 20)) * step
        steps, beyond = grid_steps(times, 0.0, step)
        assert np.all(beyond >= 0) and np.all(beyond < step)
        np.testing.assert_allclose(steps * step + beyond, times, rtol=1e-15, atol=0)


@pytest.mark.parametrize("step", [0.1, 1 / 3, 0.01, 2.0, 1e-3])
@pytest.mark.parametrize("many", [10, 1000, 100_000])
def test_rounded_grid_times_have_no_remainder(step, many):
    k = np.arange(many + 1)
    summed = np.cumsum(np.full(10, step))
    for times in (k * step, np.linspace(0, many * step, many + 1), k / (1 / step)):
        steps, beyond = grid_steps(times, 0.0, step)
        np.testing.assert_array_equal(steps, k)
        assert not beyond.any()
    np.testing.assert_array_equal(grid_steps(summed, 0.0, step)[0], np.arange(1, 11))


def test_time_just_off_the_grid_has_a_remainder():
    steps, beyond = grid_steps(np.array([1.0 - 1e-9, 1.0 + 1e-9]), 0.0, 0.1)
    np.testing.assert_array_equal(steps, [9, 10])
    assert np.all(beyond > 0)
