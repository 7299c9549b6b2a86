"""States at output times: off the grid, before the epoch, scalar."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import KahanLi6, Leapfrog, Yoshida4
from diffsim.simulations import Method, simulate
from diffsim.verify import convergence


_OFF_GRID = np.array([-1.987, -0.61, 0.0, 0.013, 0.77, 1.234, 3.0])


def exact_at(simulation, times):
    return jax.vmap(simulation.exact)(jnp.asarray(times))


@pytest.mark.parametrize(
    ("solver", "order", "steps"),
    first_plain(
        [
            (Leapfrog(), 2, (0.05, 0.025)),
            (diffrax.Dopri8(), 8, (0.5, 0.25)),
            (KahanLi6(), 6, (0.2, 0.1)),
            (diffrax.Heun(), 2, (0.05, 0.025)),
        ],
        2,
    ),
)
def test_outputs_off_the_grid_have_the_order_of_the_solver(
    driven, solver, order, steps
):
    simulation = driven(t0=0.25)
    found = convergence(
        lambda step: simulate(simulation, _OFF_GRID, Method(solver, step)),
        steps,
        exact=exact_at(simulation, _OFF_GRID),
    )
    # A solver may do better on a linear system, Dopri8 does by 0.8; an off-grid step of
    # lower order would do worse by 1 or more.
    assert found.order > order - 0.35


def test_an_output_off_the_grid_disturbs_no_other(driven):
    method, grid = Method(Leapfrog(), 0.1), 0.1 * np.arange(1, 30)
    plain = simulate(driven(), grid, method)
    crowded = np.sort(np.concatenate([grid, grid[:-1] + 0.037]))
    among = simulate(driven(), crowded, method).states[np.isin(crowded, grid)]
    # the same steps; the compiler may fuse them otherwise
    np.testing.assert_allclose(among, plain.states, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("times", [np.linspace(0, 3, 31), 0.1 * np.arange(31)])
def test_times_within_rounding_of_the_grid_are_on_it(driven, times):
    trajectory = simulate(driven(), times, Method(Leapfrog(), 0.1))
    assert int(trajectory.stats["num_steps"]) == 30
    last = simulate(driven(), 3.0, Method(Leapfrog(), 0.1))
    np.testing.assert_allclose(trajectory.states[-1], last.states, rtol=1e-14)


#: With room for 64 steps it compiles in half the time that 4096 take.
_ADAPTIVE = Method(diffrax.Tsit5(), max_steps=64)
_BOTH_WAYS = np.array([-1.0, 0.5, 1.3, 1.9, 3.0])


@pytest.mark.parametrize("method", [Method(Yoshida4(), 0.01), _ADAPTIVE])
def test_time_runs_both_ways_from_the_epoch(driven, method):
    simulation = driven(t0=1.3)
    states = simulate(simulation, _BOTH_WAYS, method).states
    # Yoshida4 at 1/400 of a period; Tsit5 with tolerances of 1e-8
    np.testing.assert_allclose(states, exact_at(simulation, _BOTH_WAYS), atol=1e-7)


def test_outputs_on_both_sides_of_the_epoch_equal_two_one_sided_runs(driven):
    simulation, method = driven(t0=1.3), Method(Yoshida4(), 0.1)
    trajectory = simulate(simulation, _BOTH_WAYS, method)
    parts = _BOTH_WAYS[:2], _BOTH_WAYS[2:]
    halves = [simulate(simulation, times, method) for times in parts]
    together = np.concatenate([half.states for half in halves])
    np.testing.assert_allclose(trajectory.states, together, rtol=1e-13)
    counts = [int(half.stats["num_steps"]) for half in halves]
    assert int(trajectory.stats["num_steps"]) == sum(counts)


def test_one_time_has_no_time_axis(driven):
    method = Method(Leapfrog(), 0.1)
    row = simulate(driven(), [0.5, 0.93], method).states[1]
    alone = simulate(driven(), 0.93, method)
    assert alone.states.shape == (2,) and alone.times.shape == ()
    np.testing.assert_allclose(alone.states, row, rtol=1e-14)


def test_the_epoch_itself_is_the_initial_state(driven):
    simulation = driven(t0=0.4)
    interpolated = Method(diffrax.HalfSolver(diffrax.Midpoint()), max_steps=64)
    for method in (Method(Leapfrog(), 0.1), _ADAPTIVE, interpolated):
        states = simulate(simulation, [0.4], method).states
        np.testing.assert_array_equal(states[0], simulation.start)


def test_output_times_may_repeat(driven):
    states = simulate(driven(), [0.5, 0.5, 0.77, 0.77], Method(Leapfrog(), 0.1)).states
    np.testing.assert_array_equal(states[0], states[1])
    np.testing.assert_array_equal(states[2], states[3])


def test_integer_times_are_times(driven):
    method = Method(Leapfrog(), 0.25)
    integers = simulate(driven(), np.arange(4), method)
    floats = simulate(driven(), np.arange(4.0), method)
    np.testing.assert_array_equal(integers.states, floats.states)
    assert jnp.issubdtype(integers.times.dtype, jnp.floating)


def test_observe_replaces_the_recorded_states(driven):
    times = np.array([0.3, 0.55])
    plain = simulate(driven(), times, Method(Leapfrog(), 0.1))
    seen = simulate(
        driven(), times, Method(Leapfrog(), 0.1), observe=lambda t, y: {"tx": t * y[0]}
    )
    np.testing.assert_allclose(
        seen.states["tx"], times * plain.states[:, 0], rtol=1e-15
    )


def test_time_of_a_long_single_precision_run_does_not_drift(driven):
    # Summed, 100 000 steps of 0.1 in float32 come to 9998.557; the drive would be 1.4
    # too early. With resonance off and no start, x is the drive to first order in 1/k.
    simulation = driven(dtype=jnp.float32, k=40.0, a=40.0, start=(0.0, 0.0))
    times = 9990.0 + 0.5 * np.arange(20)
    states = simulate(simulation, times, Method(Yoshida4(), 0.1)).states
    double = simulate(
        driven(k=40.0, a=40.0, start=(0.0, 0.0)), times, Method(Yoshida4(), 0.1)
    ).states
    np.testing.assert_allclose(states[:, 0], double[:, 0], atol=0.02)
