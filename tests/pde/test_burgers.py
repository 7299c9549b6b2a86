"""Burgers' equation: Cole and Hopf's solution, shocks, derivatives."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim.verify import check_simulation


@pytest.mark.parametrize(
    ("scheme", "tolerance"),
    first_plain([(pde.WENO5(), 2e-7), (pde.MUSCL(), 2e-4)]),
)
def test_steepening_wave_matches_cole_hopf_solution(scheme, tolerance):
    """u₀ = −sin πx, ν = 0.01/π, at t = 0.5."""
    grid = pde.Grid(800, -1.0, 1.0)
    law = pde.Burgers(0.01 / np.pi, scheme=scheme)
    start = -jnp.sin(np.pi * grid.centers[0])
    wave = pde.Evolution(law, start, grid)
    (u,) = ds.simulate(wave, 0.5, ds.Method(integrators.SSPRK3(), step=2.5e-4)).states
    # Between cells by their fourth-order mean, far below either tolerance.
    for x, exact in (
        (0.1, -0.958159553),
        (0.25, -0.847354524),
        (0.5, -0.592769534),
        (0.75, -0.302842708),
    ):
        i = round((x + 1) / 2 * 800)
        found = (9 * (u[i - 1] + u[i]) - (u[i - 2] + u[i + 1])) / 16
        assert abs(found - exact) < tolerance


@pytest.mark.parametrize(
    "scheme", first_plain([pde.MUSCL(), pde.Upwind(), pde.WENO5()])
)
def test_shock_speed_is_the_mean_of_both_sides(scheme):
    grid = pde.Grid(100)
    x = grid.centers[0]
    start = jnp.where(x < 0.3, 1.0, 0.2)
    shock = pde.Evolution(pde.Burgers(scheme=scheme), start, grid, pde.Outflow())
    (u,) = ds.simulate(shock, 0.5).states
    place = jnp.sum((u - 0.2) / 0.8) * 0.01
    # What came in at the left and left at the right is the flux, to rounding.
    np.testing.assert_allclose(place, 0.3 + 0.5 * 0.6, atol=1e-6)
    assert jnp.max(u) < 1.002 and jnp.min(u) > 0.198


def ring():
    grid = pde.Grid(6, 0.1, 1.2)
    walls = ((pde.Dirichlet(0.4), pde.Outflow()),)
    start = 1 + jnp.sin(5 * grid.centers[0])
    law = pde.Burgers(0.01, scheme=pde.Central())
    return pde.Evolution(law, start, grid, walls)


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_gradients_are_correct_for_every_parameter():
    method = ds.Method(diffrax.Euler(), step=0.01)
    check_simulation(ring(), [0.02, 0.05], method).raise_if_failed()


def test_reflecting_wall_equals_odd_extension():
    """For friction as for what is carried."""

    def run(grid, boundary=None):
        start = -jnp.sin(jnp.pi * grid.centers[0])
        wave = pde.Evolution(pde.Burgers(0.05), start, grid, boundary)
        return ds.simulate(wave, 0.3, ds.Method(integrators.SSPRK3(), 0.01)).states[0]

    whole = run(pde.Grid(32, -1.0, 1.0))
    half = run(pde.Grid(16, 0.0, 1.0), pde.ReflectingWall())
    np.testing.assert_allclose(half, whole[16:], atol=1e-13)


def test_single_precision_stays_single():
    grid = pde.Grid(16, jnp.float32(0.0), jnp.float32(1.0))
    law = pde.Burgers(jnp.float32(0.01))
    wave = pde.Evolution(law, jnp.sin(6 * grid.centers[0]), grid)
    found = jax.eval_shape(lambda: ds.simulate(wave, 0.1).states)
    assert found.dtype == jnp.float32
    slope = jax.grad(
        lambda v: jnp.sum(
            pde.flux_divergence(pde.Burgers(v), wave.initial, wave.domain) ** 2
        )
    )
    assert jax.eval_shape(slope, jnp.float32(0.01)).dtype == jnp.float32
