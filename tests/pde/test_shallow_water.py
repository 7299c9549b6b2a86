"""Shallow water: the lake at rest, the dam break, what is kept, derivatives."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim.verify import taylor_test


SCHEMES = [pde.MUSCL(), pde.WENO5(), pde.Upwind()]
NAMES = ["MUSCL", "WENO5", "Upwind"]


def bumpy(x):
    return 0.5 * jnp.exp(-60 * (x - 0.4) ** 2) + 0.2 * jnp.sin(9 * x) + (x > 0.7) * 0.2


@pytest.mark.parametrize(
    "boundary", first_plain([pde.ReflectingWall(), pde.Outflow(), pde.Periodic()])
)
@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
def test_a_lake_at_rest_stays_at_rest(scheme, boundary):
    """Over a bottom with a step, to the rounding of g η²/2."""
    grid = pde.Grid(40)
    bottom = bumpy(grid.centers[0])
    start = jnp.stack([1.3 - bottom, jnp.zeros(40)])
    water = pde.ShallowWater(9.81, bottom, scheme=scheme)
    lake = pde.Evolution(water, start, grid, boundary)
    states = ds.simulate(lake, 1.0, ds.Method(integrators.SSPRK3(), step=2e-3)).states
    assert np.max(np.abs(states - start)) <= 1e-13


@pytest.mark.slow
def test_a_lake_at_rest_in_two_dimensions_stays_at_rest():
    grid = pde.Grid((9, 8))
    x, y = grid.centers
    bottom = bumpy(x) + 0.3 * jnp.cos(5 * y)
    start = jnp.stack([2.3 - bottom, 0 * x, 0 * x])
    water = pde.ShallowWater(9.81, bottom, scheme=pde.WENO5())
    lake = pde.Evolution(water, start, grid, (pde.ReflectingWall(), pde.Periodic()))
    states = ds.simulate(lake, 0.5, ds.Method(integrators.SSPRK3(), step=5e-3)).states
    assert np.max(np.abs(states - start)) <= 1e-13


@pytest.mark.parametrize(
    "riemann_solver", [pde.HLL(), pytest.param(pde.Rusanov(), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("scheme", first_plain(SCHEMES[:2]), ids=NAMES[:2])
def test_dam_break_matches_stoker(scheme, riemann_solver):
    """g = 1, h = 1 | 0.1 (Stoker): h*, u* and the speed of the shock."""
    grid, t = pde.Grid(400, -1.0, 1.0), 0.5
    x = np.asarray(grid.centers[0])
    start = jnp.stack([jnp.where(x < 0, 1.0, 0.1), jnp.zeros(400)])
    water = pde.ShallowWater(1.0, scheme=scheme, riemann_solver=riemann_solver)
    h, hu = ds.simulate(pde.Evolution(water, start, grid, pde.Outflow()), t).states
    between = np.argmin(np.abs(x - 0.3 * t))
    # WENO rings by 0.2 % behind the bore.
    np.testing.assert_allclose(h[between], 0.3961748168, rtol=3e-3)
    np.testing.assert_allclose(hu[between] / h[between], 0.7411516107, rtol=3e-3)
    bore = x[np.argmax(h < 0.25)]
    assert abs(bore - 0.9913928766 * t) < 2 * 2 / 400


def test_water_high_above_zero_loses_no_digits():
    """In single precision, up to what the bottom itself is rounded by."""

    def end(elevation):
        x = jnp.linspace(0.1, 9.9, 50, dtype=jnp.float32)
        grid = pde.Grid(50, jnp.float32(0.0), jnp.float32(10.0))
        bottom = elevation + 0.3 * jnp.sin(x)
        depth = 1 + 0.1 * jnp.exp(-((x - 5) ** 2)) - 0.3 * jnp.sin(x)
        start = jnp.stack([depth, 0 * depth])
        law = pde.ShallowWater(9.81, bottom)
        sea = pde.Evolution(law, start, grid, pde.ReflectingWall())
        method = ds.Method(integrators.SSPRK3(), 0.02)
        return ds.simulate(sea, 2.0, method).states

    np.testing.assert_allclose(end(1000.0), end(0.0), atol=1e-4)


@pytest.mark.parametrize("scheme", SCHEMES[:2], ids=NAMES[:2])
def test_derivatives_by_a_flat_bottom(scheme):
    """Where the search for a bottom begins."""
    line = pde.Grid(8)
    x = line.centers[0]
    walls = pde.Domain(line, pde.ReflectingWall())
    waves = jnp.stack([1 + 0.2 * jnp.sin(6 * x), 0.1 * jnp.cos(5 * x)])

    def rate(bottom):
        return pde.ShallowWater(9.81, bottom, scheme=scheme).rate(0.0, waves, walls)

    found = taylor_test(rate, jnp.zeros(8))
    assert found.passed, found


def test_mass_is_conserved_between_walls():
    grid = pde.Grid((6, 7))
    x, y = grid.centers
    start = jnp.stack([1 + x * y, jnp.sin(3 * y), x])
    water = pde.ShallowWater(9.81, 0.2 * jnp.sin(6 * x), scheme=pde.Upwind())
    method = ds.Method(diffrax.Euler(), step=2e-3)
    states = ds.simulate(
        pde.Evolution(water, start, grid, pde.ReflectingWall()), [0.0, 0.1], method
    ).states
    before, after = np.sum(states[:, 0], (1, 2))
    np.testing.assert_allclose(after, before, rtol=1e-13)
