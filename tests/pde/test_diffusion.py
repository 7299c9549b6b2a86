"""Diffusion: exact for its discrete operator, of order two for the continuous one."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim.verify import check_simulation


EXPLICIT = ds.Method(diffrax.Heun(), step=5e-4)


def test_wave_decays_at_the_rate_of_the_discrete_operator():
    """μ = 2 D (cos k Δx − 1)/Δx², and its derivative by D."""
    n, k, t = 32, 3, 0.4
    grid = pde.Grid(n, 0.0, 2 * np.pi)
    wave = jnp.sin(k * grid.centers[0])

    def decayed(D):
        ring = pde.Evolution(pde.Diffusion(D), wave, grid)
        method = ds.Method(diffrax.Dopri8(), step=0.02)
        return ds.simulate(ring, t, method).states[0]

    D, dx = 0.3, 2 * np.pi / n
    rate = 2 * (np.cos(k * dx) - 1) / dx**2
    amplitude = np.exp(D * rate * t)
    slope = t * rate * amplitude * wave
    with_slopes = jax.jit(
        lambda D: (*jax.jvp(decayed, (D,), (1.0,)), jax.jacrev(decayed)(D))
    )
    found, *both = with_slopes(D)
    np.testing.assert_allclose(found, amplitude * wave, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(both, [slope, slope], atol=1e-10)


def plate():
    grid = pde.Grid((4, 3), (0.0, 0.1), (1.0, 0.9))
    x, y = grid.centers
    walls = (
        (pde.Dirichlet(0.3), pde.Neumann(0.2)),
        (pde.Robin(1.0, 0.4, 0.1), pde.Outflow()),
    )
    equation = pde.Diffusion(0.1 + 0.05 * x, source=jnp.asarray(0.2))
    return pde.Evolution(equation, jnp.sin(3 * x) + y, grid, walls)


def rod():
    walls = ((pde.Dirichlet(0.3), pde.Robin(1.0, 0.4, 0.1)),)
    equation = pde.Diffusion(jnp.array([0.1, 0.12, 0.2, 0.3]), source=jnp.asarray(0.2))
    return pde.Evolution(equation, jnp.arange(4.0) ** 2, pde.Grid(4, 0.1, 0.8), walls)


HEUN = ds.Method(diffrax.Heun(), step=0.02)


@pytest.mark.slow
def test_gradients_are_correct_for_every_parameter():
    check_simulation(rod(), [0.04, 0.1], HEUN).raise_if_failed()


def test_default_method_agrees_with_small_steps():
    exact = ds.simulate(plate(), 0.3, EXPLICIT)
    found = ds.simulate(plate(), 0.3)
    np.testing.assert_allclose(found.states, exact.states, rtol=1e-6)


@pytest.mark.parametrize(
    "solver",
    first_plain([diffrax.Tsit5(), integrators.KenCarp4(), integrators.Kvaerno5()]),
)
def test_second_derivatives_by_end_time_are_correct_beside_step_grid(solver):
    """0.7 / 0.05 is a rounding below 14, and a step to the rest no step."""
    grid = pde.Grid(6)
    start, weights = grid.centers[0] ** 2, jnp.cos(jnp.arange(6.0))
    assert 0.7 / 0.05 < 14

    def end(T):
        line = pde.Evolution(pde.Diffusion(0.1), start, grid, pde.Neumann())
        run = ds.simulate(line, T, ds.Method(solver, 0.05, max_steps=20))
        return weights @ run.states[0]

    domain = pde.Domain(grid, pde.Neumann())
    L = 0.1 * jax.jacfwd(lambda u: pde.laplacian(u, domain))(start)
    exact = L @ L @ scipy.linalg.expm(0.7 * L) @ start
    found = jax.jit(jax.jacfwd(jax.grad(end)))(0.7)
    np.testing.assert_allclose(
        found, weights @ exact, atol=1e-3 * np.max(np.abs(exact))
    )


@pytest.mark.parametrize("gain", [0.5, 3.0])
def test_robin_of_opposite_signs_does_on_a_plate_as_on_a_line(gain):
    """Its waves are not those of transforms, which would solve for others."""
    sides = pde.Robin(-gain, 1.0), pde.Dirichlet(0.0)
    method = ds.Method(integrators.Kvaerno3(), step=0.1)
    ends = []
    for shape, walls in (((12,), (sides,)), ((12, 4), (sides, pde.Periodic()))):
        body = pde.Evolution(
            pde.Diffusion(1.0), jnp.ones(shape), pde.Grid(shape), walls
        )
        ends.append(ds.simulate(body, 0.3, method).states[0])
    np.testing.assert_allclose(ends[1], jnp.stack([ends[0]] * 4, -1), rtol=1e-6)


@pytest.mark.parametrize("method", [None, ds.Method(diffrax.Tsit5(), step=0.01)])
def test_field_grows_at_robin_of_opposite_signs_on_one_cell(method):
    """A ghost is 3 u, so that ∂u/∂t = 4 D u; on too long a cell it would decay."""
    rod = pde.Evolution(
        pde.Diffusion(0.1), jnp.ones(1), pde.Grid(1), pde.Robin(-1.0, 1.0)
    )
    found = ds.simulate(rod, 2.0, method)
    np.testing.assert_allclose(found.states[0], np.exp(0.8), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_cells_too_long_for_robin_of_opposite_signs_are_refused(n):
    side = pde.Dirichlet(0.0), pde.Robin(-8.0, 1.0)
    sentence = r"upper side of axis 0 .* shorter than 2 \|beta/alpha\| = 0.25.* take 5"
    with pytest.raises(ValueError, match=sentence):
        pde.Evolution(pde.Diffusion(0.1), jnp.ones(n), pde.Grid(n), side)
    pde.Domain(pde.Grid(5), side)
