"""`error_estimate=True` estimates the error of a run; compared with the true one."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import pde
from diffsim.integrators import SSPRK3, Leapfrog, Yoshida4
from diffsim.simulations import Event, Method, simulate


_TIMES = np.array([2.5, 10.0])
_PID = diffrax.PIDController


def true_error(found, simulation):
    exact = [simulation.exact(t) for t in np.asarray(found.times)]
    return float(np.max(np.abs(np.asarray(found.states) - np.asarray(exact))))


@pytest.mark.parametrize(
    "method",
    first_plain(
        [
            Method(Leapfrog(), 0.05),
            Method(diffrax.Tsit5()),
            # A tenth of this none could reach, so tenfold is what it is compared with.
            Method(diffrax.Dopri8(), controller=_PID(rtol=5e-15, atol=5e-15)),
            Method(Yoshida4(), 0.1, max_steps=200),
            Method(diffrax.Tsit5(), controller=_PID(rtol=1e-5, atol=1e-5)),
        ],
        2,
    ),
)
def test_estimate_is_the_true_error_within_a_factor(driven, method):
    found = simulate(driven(), _TIMES, method, error_estimate=True)
    error = true_error(found, driven())
    # What two runs differ by is most of the error, or all of it and the finer one's;
    # rounding, a hundred ulps, is in no estimate by steps.
    assert 0.4 * error - 1e-13 < float(found.error_estimate) < 2.5 * error + 1e-13


@pytest.mark.slow
def test_estimate_in_single_precision_is_the_true_error(driven):
    found = simulate(driven(dtype=jnp.float32), _TIMES, error_estimate=True)
    error = true_error(found, driven())
    assert 0.2 * error < float(found.error_estimate) < 5 * error


def test_estimate_is_printed_where_requested(driven):
    found = simulate(driven(), _TIMES, error_estimate=True)
    assert f"error of the solver about {found.error_estimate:.2g}" in str(found)
    plain = simulate(driven(), _TIMES)
    assert plain.error_estimate is None
    assert "error" not in str(plain)
    np.testing.assert_array_equal(plain.states, found.states)


def test_estimate_works_under_jit_and_with_events(driven):
    method = Method(Leapfrog(), 0.05)
    ends = Event(lambda t, y, args: y[0], terminal=True)
    options = {"method": method, "error_estimate": True}
    found = simulate(driven(), [0.5, 9.0], events=ends, **options)
    assert np.all(np.isnan(found.states[1]))
    assert 0 < float(found.error_estimate) < 1e-2

    @jax.jit
    def estimate(k):
        return simulate(driven(k=k), _TIMES, **options).error_estimate

    outside = simulate(driven(k=2.0), _TIMES, **options).error_estimate
    np.testing.assert_allclose(estimate(2.0), outside, rtol=1e-8)


def test_estimate_refines_cfl_steps():
    grid = pde.Grid(64)
    (x,) = grid.centers
    start = 1.5 + jnp.sin(2 * jnp.pi * x)
    carried = pde.Evolution(pde.Burgers(0.01), start, grid)
    method = Method(SSPRK3(), controller=pde.CFL(0.5))
    found = simulate(carried, 0.05, method, error_estimate=True)
    # Sixteenfold shorter steps of third order are as good as exact.
    exact = simulate(carried, 0.05, Method(SSPRK3(), controller=pde.CFL(0.03)))
    error = float(jnp.max(jnp.abs(found.states - exact.states)))
    assert 0.4 * error < float(found.error_estimate) < 2.5 * error
