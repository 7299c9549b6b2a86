"""A run continued from `trajectory.final` equals the uninterrupted run."""

import diffrax
import jax
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_TIMES = np.array([0.3, 1.07, 1.55, 2.0, 2.61])


@pytest.mark.parametrize("sign", first_plain([-1, 1]))
@pytest.mark.parametrize("solver", [Leapfrog(), diffrax.Dopri8()])
def test_restarted_run_equals_the_uninterrupted_run(driven, solver, sign):
    simulation, method = driven(t0=0.0), Method(solver, 0.1)
    times = np.sort(sign * _TIMES)
    first, second = (times[:3], times[3:]) if sign > 0 else (times[2:], times[:2])
    whole = simulate(simulation, times, method)
    part = simulate(simulation, first, method)
    # The last output is off the grid; the run is at the grid point before it.
    assert float(part.final.t) == pytest.approx(sign * 1.5, abs=1e-15)
    rest = simulate(simulation, second, method, start=part.final)
    expected = whole.states[3:] if sign > 0 else whole.states[:2]
    np.testing.assert_allclose(rest.states, expected, rtol=1e-13)
    for a, b in zip(rest.final.y, whole.final.y, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    assert float(rest.final.t) == pytest.approx(float(whole.final.t), abs=1e-14)


def test_restarted_adaptive_run_is_within_its_tolerance(driven):
    method = Method(diffrax.Tsit5(), max_steps=64)
    part = simulate(driven(), _TIMES[:3], method)
    assert float(part.final.t) == _TIMES[2]
    rest = simulate(driven(), _TIMES[3:], method, start=part.final)
    expected = [driven().exact(t) for t in _TIMES[3:]]
    np.testing.assert_allclose(rest.states, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("times", "end"),
    [
        ([-1.0, 0.5], 0.5),  # both ways: where it goes on is the future
        ([-1.0, -0.5], -1.0),
        ([-1.0, 0.0], -1.0),  # the epoch is no future
        ([0.0], 0.0),
    ],
)
@pytest.mark.parametrize(
    "method",
    first_plain(
        [Method(Leapfrog(), 0.1, max_steps=16), Method(diffrax.Tsit5(), max_steps=16)]
    ),
    ids=["fixed", "adaptive"],
)
def test_final_state_is_at_the_latest_time(driven, times, end, method):
    def run(times):
        return simulate(driven(), times, method)

    for trajectory in (run(times), jax.jit(run)(np.array(times))):
        assert float(trajectory.final.t) == pytest.approx(end, abs=1e-15)
        state = np.stack(trajectory.final.y)
        row = trajectory.states[times.index(end)]
        np.testing.assert_allclose(state, row, rtol=1e-13)
