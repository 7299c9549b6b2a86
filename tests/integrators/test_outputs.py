"""Outputs of stiff solvers are as accurate as their steps, which end there."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


GRID = pde.Grid(20)
WAVE = jnp.sin(np.pi * GRID.centers[0])
#: At which it decays on these cells.
RATE = 4 * 20**2 * np.sin(np.pi / 40) ** 2
TIMES = np.linspace(0.0, 0.3, 31)


def rod(diffusivity):
    equation = pde.Diffusion(diffusivity)
    return pde.Evolution(equation, WAVE, GRID, pde.Dirichlet(0.0))


def middle(diffusivity, times, method):
    run = ds.simulate(rod(diffusivity), times, method)
    return run.states[:, 0, 10] / WAVE[10]


SOLVERS = {
    # The default of diffusion.
    "by default": (None, 1e-8),
    "KenCarp4": (integrators.KenCarp4(), 1e-7),
    "Kvaerno5": (integrators.Kvaerno5(), 1e-8),
}


@pytest.mark.parametrize("name", first_plain(SOLVERS))
def test_outputs_and_their_derivatives_are_within_the_tolerance(name):
    solver, error = SOLVERS[name]
    method = rod(1.0).default_method() if solver is None else ds.Method(solver)
    exact = np.exp(-RATE * TIMES)

    @jax.jit
    def both(d):
        return jax.jvp(lambda d: middle(d, TIMES, method), (d,), (1.0,))

    value, slope = both(1.0)
    np.testing.assert_allclose(value, exact, atol=error)
    np.testing.assert_allclose(slope, -RATE * TIMES * exact, atol=error)


@pytest.mark.slow
def test_derivative_by_traced_output_times_is_right():
    """By the slope of the dense output, of order 3."""
    method = ds.Method(integrators.KenCarp5(), max_steps=100)
    times = jnp.asarray(TIMES[1::6])
    both = jax.jit(
        lambda t: jax.jvp(lambda t: middle(1.0, t, method), (t,), (jnp.ones_like(t),))
    )
    value, slope = both(times)
    exact = np.exp(-RATE * times)
    np.testing.assert_allclose(value, exact, atol=1e-7)
    np.testing.assert_allclose(slope, -RATE * exact, rtol=1e-3)


def ends(times, controller=None):
    """Of the steps, those before the epoch too."""
    method = ds.Method(integrators.KenCarp4(), controller=controller)
    found = np.asarray(ds.simulate(rod(1.0), times, method).steps)
    return found[np.isfinite(found)]


def test_steps_end_at_outputs_and_none_is_tiny():
    times = np.append([-1e-3, -5e-4], TIMES)
    found = ends(times)
    assert np.all(np.isin(times[times != 0], found))
    # Free ones grow by five at most.
    assert np.min(np.diff(found[found >= 0])[5:]) > 1e-3


@pytest.mark.slow
def test_outputs_beside_the_epoch_are_ends_of_steps():
    both = np.array([-1e-3, -5e-4, 5e-4, 1e-3])
    assert np.all(np.isin(both, ends(both)))


PID = diffrax.PIDController(rtol=1e-8, atol=1e-8)
MANY = np.linspace(0.0, 0.3, 1001)


def test_clipped_controller_of_the_user_is_not_clipped_again():
    assert ends(MANY, diffrax.ClipStepSizeController(PID)).size < 100


def test_more_outputs_than_max_steps_do_not_fail():
    """Where they clip the steps, as they do by any other controller of the user."""
    method = ds.Method(integrators.KenCarp4(), controller=PID, max_steps=50)
    assert ds.simulate(rod(1.0), MANY, method).stats["num_steps"] >= 1000
