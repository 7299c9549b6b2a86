"""Steps that follow the waves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde


def wave(amplitude=1.0, n=40):
    grid = pde.Grid(n)
    start = amplitude * (1.5 + jnp.sin(2 * jnp.pi * grid.centers[0]))
    return pde.Evolution(pde.Burgers(scheme=pde.MUSCL()), start, grid)


METHOD = ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.4))


def test_steps_are_the_part_of_a_cell_that_is_asked_for():
    run = ds.simulate(wave(), 0.2, METHOD)
    ends = np.asarray(run.steps)
    ends = ends[np.isfinite(ends)]
    first = np.max(np.asarray(wave().initial))
    np.testing.assert_allclose(ends[0], 0.4 / 40 / first, rtol=1e-12)
    np.testing.assert_allclose(pde.largest_step(wave(), 0.4), ends[0], rtol=1e-12)
    assert np.all(np.diff(ends) < 0.4 / 40 / 1.5)


def test_a_run_backwards_measures_the_same_steps():
    law = pde.AdvectionDiffusion(0.0, lambda t, x: 1 + 0 * t, scheme=pde.Central(4))
    grid = pde.Grid(32)
    start = jnp.sin(2 * jnp.pi * grid.centers[0])
    ring = pde.Evolution(law, start, grid)
    states = ds.simulate(ring, [-1.0, 1.0], METHOD).states
    np.testing.assert_allclose(states, np.stack([start[None]] * 2), atol=2e-3)


@pytest.mark.slow
def test_derivatives_are_those_at_frozen_steps_in_every_mode():
    frozen = METHOD.frozen(ds.simulate(wave(), 0.1, METHOD))

    def final(method):
        return lambda a: jnp.sum(ds.simulate(wave(a), 0.1, method).states ** 2)

    for derivative in (jax.jacfwd, jax.jacrev):
        steered, given = (derivative(final(m))(1.0) for m in (METHOD, frozen))
        np.testing.assert_allclose(steered, given, rtol=1e-10)
    h = 1e-5
    differences = (final(frozen)(1 + h) - final(frozen)(1 - h)) / (2 * h)
    np.testing.assert_allclose(jax.jacfwd(final(frozen))(1.0), differences, rtol=1e-8)


def test_waters_at_rest_take_the_whole_way_in_one_step():
    grid = pde.Grid(8)
    still = pde.Evolution(pde.AdvectionDiffusion(0.0, 0.0), jnp.ones(8), grid)
    run = ds.simulate(still, 3.0, METHOD)
    assert run.stats["num_steps"] == 1
    np.testing.assert_array_equal(run.states, jnp.ones((1, 8)))


def test_a_run_that_becomes_nan_fails_with_a_name():
    """Two streams that part leave a vacuum behind."""
    grid, gas = pde.Grid(40), pde.Euler(1.4)
    x = grid.centers[0]
    start = gas.state(1.0, 30 * jnp.sign(x - 0.5)[None], 1e-3)
    parted = pde.Evolution(gas, start, grid, pde.Outflow())
    run = ds.simulate(parted, 0.1, throw=False)
    if not np.all(np.isfinite(run.states)):
        assert run.result != ds.RESULTS.successful


def test_equations_without_waves_and_numbers_that_are_none_are_named():
    still = pde.Evolution(pde.Diffusion(1.0), jnp.ones(8), pde.Grid(8))
    with pytest.raises(ValueError, match="does not say how fast its waves are"):
        ds.simulate(still, 0.1, METHOD)
    with pytest.raises(ValueError, match="number must be positive"):
        pde.CFL(0.0)
