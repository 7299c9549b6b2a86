"""Sources, walls and velocities that set in late, or act for a short time."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim._jaxpr._inspection import depends_on_first


GRID = pde.Grid(64)
X = GRID.centers[0]
BLOB = jnp.exp(-200 * (X - 0.3) ** 2)


def steps(number):
    return ds.Method(integrators.SSPRK3(), controller=pde.CFL(number))


def steps_of(run):
    return int(run.stats["num_steps"])


@pytest.mark.parametrize(
    "method", first_plain([None, steps(0.1)]), ids=["default", "C = 0.1"]
)
def test_blob_moves_with_a_wind_that_sets_in_late(method):
    """∫ 10 (t − 1/2) dt from 1/2 to 7/10 is 1/5."""
    law = pde.AdvectionDiffusion(None, lambda t, x: 10 * jnp.maximum(t - 0.5, 0.0))
    smoke = pde.Evolution(law, BLOB, GRID, pde.Neumann())
    u = ds.simulate(smoke, 0.7, method).states[0]
    # MUSCL makes no new extremum; the center is off by the error of space.
    assert np.max(u) <= 1 and np.min(u) >= -1e-12
    np.testing.assert_allclose(np.sum(X * u) / np.sum(u), 0.5, atol=5e-4)


@pytest.mark.slow
def test_blob_moves_with_a_short_gust():
    """By √π/10, from 0.3, though the run takes 64 times as long as the gust."""
    law = pde.AdvectionDiffusion(None, lambda t, x: jnp.exp(-(((t - 3.4) / 0.1) ** 2)))
    smoke = pde.Evolution(law, BLOB, GRID, pde.Neumann())
    run = ds.simulate(smoke, 6.4, error_estimate=True)
    u = run.states[0]
    assert np.max(u) <= 1 and np.min(u) >= -1e-12
    exact = 0.3 + np.sqrt(np.pi) / 10
    np.testing.assert_allclose(np.sum(X * u) / np.sum(u), exact, atol=5e-4)
    assert np.asarray(run.error_estimate) > 1e-4


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_output_before_a_source_sets_in_is_unchanged(start):
    """The level is that of the start, and then rises by one a time."""
    late = pde.Burgers(source=lambda t, x, u: jnp.where(t > 0.5, 1.0, 0.0))
    tank = pde.Evolution(late, start + 0 * X, GRID)
    run = ds.simulate(tank, [0.4, 0.4999, 1.0], error_estimate=True)
    rise = run.states[:, 0, 0] - start
    np.testing.assert_array_equal(rise[:2], 0)
    # Within half of the step in which it sets in.
    np.testing.assert_allclose(rise[2], 0.5, atol=0.002)
    assert 0 < np.asarray(run.error_estimate) < 0.002


def pulse(t, x, u):
    return jnp.where((t > 50) & (t < 51), 1.0, 0.0)


LAWS = {
    "explicit": (pde.Diffusion(0.0001, pulse), ds.Method(diffrax.Tsit5()), 1e-5),
    "waves": (pde.AdvectionDiffusion(None, 0.0, source=pulse), None, 0.02),
    "implicit": (pde.Diffusion(0.1, pulse), None, 1e-5),
}


@pytest.mark.parametrize("name", first_plain(LAWS))
@pytest.mark.parametrize("end", [100.0, 97.0])
def test_source_of_a_hundredth_of_a_run_is_resolved(name, end):
    law, method, tolerance = LAWS[name]
    grid = pde.Grid(8)
    tank = pde.Evolution(law, 0 * grid.centers[0], grid, pde.Neumann())
    run = ds.simulate(tank, [49.0, end], method)
    np.testing.assert_array_equal(run.states[0], 0)
    np.testing.assert_allclose(run.states[1], 1.0, atol=tolerance)


def test_boundary_pulse_of_a_hundredth_of_a_run_is_resolved():
    """What it lets in at a given slope stays: g Δt over the length."""
    wall = pde.Neumann(lambda t, x: jnp.where((t > 50) & (t < 51), 1.0, 0.0))
    grid = pde.Grid(8)
    rod = pde.Evolution(pde.Diffusion(0.1), 0 * X[:8], grid, (pde.Neumann(), wall))
    found = ds.simulate(rod, 100.0).states
    np.testing.assert_allclose(jnp.mean(found), 0.1, rtol=1e-5)


@pytest.mark.slow
def test_wave_source_of_short_duration_is_resolved():
    law = pde.Wave(1.0, source=pulse)
    grid = pde.Grid(8)
    string = pde.Evolution(law, jnp.zeros((2, 8)), grid)
    run = ds.simulate(string, 100.0)
    # By half while it acts, and at speed one after it.
    np.testing.assert_allclose(run.states[0], 49.5, rtol=1e-5)


def test_flow_forcing_of_a_hundredth_of_a_run_is_resolved():
    """Between walls that slip it moves as a whole, at one a time."""

    def push(t, x):
        on = jnp.where((t > 50) & (t < 51), 1.0, 0.0)
        return jnp.stack([on + 0 * x[0], 0 * x[0]])

    walls = (pde.Periodic(), pde.FreeSlip())
    flow = pde.IncompressibleFlow(1e-3, pde.Grid((4, 4)), walls, forcing=push)
    run = ds.simulate(flow, 100.0)
    np.testing.assert_allclose(run.states[0], 1.0, atol=1e-4)


@pytest.mark.slow
def test_derivatives_of_onsets_agree_in_both_modes_and_float32():
    grid = pde.Grid(8)

    def total(speed):
        start = jnp.sin(2 * jnp.pi * grid.centers[0]).astype(speed.dtype)
        law = pde.AdvectionDiffusion(
            None, lambda t, x: speed * jnp.where(t > 0.25, jnp.sin(t), 0.0)
        )
        ring = pde.Evolution(law, start, grid)
        return jnp.sum(ds.simulate(ring, [0.2, 0.6]).states[1, 0, :3])

    one = jnp.ones(())
    forward, reverse = (jax.jit(d(total))(one) for d in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(total)(one), total(one), rtol=1e-12)
    single = jax.jit(total)(jnp.float32(1.0))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, total(one), atol=1e-3)


def test_explicit_dtmax_takes_precedence():
    law = pde.Diffusion(0.1, lambda t, x, u: 0 * t)
    grid = pde.Grid(8)
    tank = pde.Evolution(law, 0 * grid.centers[0], grid, pde.Neumann())
    for longest, least, most in ((jnp.inf, 1, 20), (0.25, 400, 430), (None, 100, 130)):
        controller = diffrax.PIDController(rtol=1e-8, atol=1e-8, dtmax=longest)
        method = ds.Method(diffrax.Bosh3(), controller=controller)
        run = ds.simulate(tank, 100.0, method)
        assert least <= steps_of(run) <= most


def test_steps_are_bounded_on_both_sides_of_the_epoch_and_for_traced_times():
    law = pde.AdvectionDiffusion(None, 0.0, source=lambda t, x, u: 0 * t)
    grid = pde.Grid(4)
    tank = pde.Evolution(law, jnp.ones(4), grid)
    assert steps_of(ds.simulate(tank, [-1.0, 100.0])) >= 200
    assert steps_of(ds.simulate(tank, 0.0)) <= 1


@pytest.mark.slow
def test_dynamics_without_time_take_steps_of_any_length():
    law = pde.Diffusion(0.1, lambda t, x, u: x[0] - u)
    walls = pde.Dirichlet(lambda t, x: 1.0 + 0 * x[0])
    rod = pde.Evolution(law, 0 * X, GRID, walls)
    assert steps_of(ds.simulate(rod, 100.0)) < 100


def test_time_dependence_is_detected_through_comparisons():
    def read(law, walls=None, space=None):
        grid = pde.Grid(8)
        start = jnp.ones((law.channels(1), 8))
        system = pde.Evolution(law, start, grid, walls, discretization=space)
        terms, y = system.terms(), system.initial_state()
        return depends_on_first(lambda t, y: terms.vf(t, y, system), jnp.zeros(()), y)

    def switched(t, x, u):
        return jnp.where(t > 1, u, 0.0)

    steady = [
        (pde.Burgers(0.1), pde.Inflow(1.0)),
        (pde.Euler(1.4), pde.ReflectingWall()),
        (pde.ShallowWater(1.0), pde.Outflow()),
        (pde.Diffusion(lambda t, x, u: 1 + u**2), pde.Robin(1.0, 1.0)),
        (pde.Wave(1.0, 0.1), pde.Dirichlet(lambda t, x: x[0])),
        (pde.Diffusion(0.1), None, pde.Fourier()),
        (pde.KuramotoSivashinsky(),),
    ]
    driven = [
        (pde.Burgers(0.1, source=switched),),
        (pde.Burgers(0.1), pde.Inflow(lambda t, x: jnp.where(t > 1, 1.0, 0.0))),
        (pde.Diffusion(0.1, switched), None, pde.Fourier()),
        (pde.Wave(1.0, source=switched),),
        (pde.Diffusion(lambda t, x, u: 1 + (t > 1)), pde.Neumann()),
    ]
    assert [read(*case) for case in steady] == [False] * len(steady)
    assert [read(*case) for case in driven] == [True] * len(driven)
