"""Advection with diffusion and reaction."""

import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


def test_inflow_is_carried_through_and_leaves():
    """u = f(x − vt) behind an inflow that knows it, and out at the other side."""

    def passing(t, x):
        return jnp.exp(-40 * (x - 0.9 * t + 0.3) ** 2)

    def error(n):
        grid = pde.Grid(n)
        ends = ((pde.Inflow(passing), pde.Outflow()),)
        law = pde.AdvectionDiffusion(None, 0.9)
        line = pde.Evolution(law, passing(0.0, grid.centers), grid, ends)
        method = ds.Method(integrators.SSPRK3(), step=0.5 / n)
        found = ds.simulate(line, [1.0, 2.0], method).states
        assert jnp.max(jnp.abs(found[1])) < 1e-2
        return np.mean(np.abs(found[0] - passing(1.0, grid.centers)))

    # The ghosts hold what is at the wall: of order one there, and behind it.
    assert np.log2(error(64) / error(128)) > 0.9


def plate(velocity):
    grid = pde.Grid((5, 4), (0.0, 0.1), (1.0, 0.9))
    x, y = grid.centers
    walls = (
        (pde.Inflow(0.3), pde.Outflow()),
        (pde.Dirichlet(0.2), pde.Robin(1.0, 0.4, 0.1)),
    )
    law = pde.AdvectionDiffusion(0.02 + 0.01 * x, velocity(grid), source=0.2 * y)
    return pde.Evolution(law, jnp.sin(3 * x) + y, grid, walls)


def numbers(grid):
    del grid
    return jnp.array([0.7, -0.3])


def cells(grid):
    x, y = grid.centers
    return jnp.stack([0.7 + y, -0.3 * x])


def faces(grid):
    return tuple(0.5 + grid.faces(axis)[1 - axis] for axis in (0, 1))


@pytest.mark.parametrize("velocity", first_plain([faces, numbers, cells]))
def test_velocities_of_every_kind_run_by_default(velocity):
    found = ds.simulate(plate(velocity), 0.1)
    assert np.all(np.isfinite(found.states))


def test_a_velocity_may_be_a_function_that_returns_a_number():
    grid = pde.Grid(16)
    start = jnp.sin(2 * jnp.pi * grid.centers[0])
    law = pde.AdvectionDiffusion(None, lambda t, x: 0.5)
    other = pde.AdvectionDiffusion(None, 0.5)
    domain = pde.Domain(grid)
    found, same = (one.rate(0.0, start[None], domain) for one in (law, other))
    np.testing.assert_array_equal(found, same)


def test_a_velocity_may_be_a_function_that_returns_a_tuple_of_fields():
    """In the cells, where its x are."""
    grid = pde.Grid((6, 5))
    u = jnp.exp(grid.centers[:1])

    def turning(t, x):
        return jnp.sin(x[1]) + t, jnp.cos(x[0])

    def rate(velocity):
        law = pde.AdvectionDiffusion(None, velocity)
        return law.rate(0.7, u, pde.Domain(grid))

    one = rate(lambda t, x: jnp.stack(turning(t, x)))
    np.testing.assert_array_equal(rate(turning), one)
