"""Incompressible flow: exact for its discrete operators, of order two otherwise."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde
from diffsim.verify import check_simulation


TURN = 2 * np.pi


def vortices(x):
    """Taylor and Green's."""
    return jnp.stack([-jnp.cos(x[0]) * jnp.sin(x[1]), jnp.sin(x[0]) * jnp.cos(x[1])])


@pytest.mark.parametrize("walls", [pde.Periodic(), pde.FreeSlip()])
def test_vortices_decay_at_the_discrete_rate_and_so_does_its_derivative(walls):
    """μ = Σ 2 ν (cos Δx − 1)/Δx²: pressure takes all that they carry, in every stage,
    so that a step of Heun's method multiplies by 1 + hμ + (hμ)²/2."""
    # Between free walls the vortices are shifted by a quarter of a wave.
    shift = 0.0 if isinstance(walls, pde.Periodic) else np.pi / 2
    grid = pde.Grid((12, 12), shift, TURN + shift)
    rate = 4 * (np.cos(TURN / 12) - 1) / (TURN / 12) ** 2
    z, nu = 0.1 * 0.05 * rate, 0.1

    def run(nu):
        flow = pde.IncompressibleFlow(nu, grid, walls, initial=vortices)
        return ds.simulate(flow, 0.5, ds.Method(diffrax.Heun(), 0.05)).final.y

    both = jax.jit(lambda nu: jax.jvp(run, (nu,), (1.0,)))(nu)
    backward = jax.jit(jax.jacrev(run))(nu)
    start = pde.IncompressibleFlow(nu, grid, walls, initial=vortices).initial_state()
    for y, slope, other, y0 in zip(*both, backward, start, strict=True):
        factor = 1 + z + z**2 / 2
        change = 10 * factor**9 * (1 + z) * z / nu
        np.testing.assert_allclose(y, factor**10 * y0, atol=1e-12)
        np.testing.assert_allclose(slope, change * y0, atol=1e-12)
        np.testing.assert_allclose(other, slope, atol=1e-12)


def stream(t, x):
    return jnp.stack([4 * x[1] * (1 - x[1]) * (1 + jnp.sin(3 * t)), 0 * x[1]])


LID = pde.NoSlip((1.0, 0.0))
WALLS = {
    "cavity": (pde.NoSlip(), (pde.NoSlip(), LID)),
    "channel": ((pde.Inflow(stream), pde.Outflow()), pde.NoSlip()),
    "jet": ((pde.Inflow((1.0, 0.3)), pde.Outflow()), (pde.Outflow(), pde.FreeSlip())),
    "shear": (pde.Periodic(), (pde.FreeSlip(), LID)),
}
HEUN = ds.Method(diffrax.Heun(), 0.01)


def swirl(x):
    return jnp.stack([jnp.sin(3 * x[1]) + x[0], jnp.cos(2 * x[0]) * x[1]])


@eqx.filter_jit
def rate_of(flow, t, y):
    return flow.terms().vf(t, y, flow)


def outward(flow, t, y):
    u, v = flow.velocities(t, y)
    dx, dy = flow.grid.spacing
    return np.diff(u, axis=0) / dx + np.diff(v, axis=1) / dy


@pytest.mark.parametrize("name", WALLS)
def test_flows_do_not_diverge(name):
    grid = pde.Grid((8, 6), (0.0, 0.1), (1.5, 1.0))
    flow = pde.IncompressibleFlow(0.05, grid, WALLS[name], initial=swirl)
    run = ds.simulate(flow, 0.3, HEUN)
    assert np.max(np.abs(outward(flow, 0.3, run.final.y))) < 1e-12
    # The rate itself keeps it, where nothing that is prescribed moves.
    if name != "channel":
        change = rate_of(flow, 0.3, run.final.y)
        rest = flow._space.outward_rate(change, None)
        assert np.max(np.abs(rest)) < 1e-11 * max(np.max(np.abs(a)) for a in change)


def test_what_flows_in_flows_out():
    grid = pde.Grid((8, 6))
    flow = pde.IncompressibleFlow(0.05, grid, WALLS["channel"])
    run = ds.simulate(flow, 0.3, HEUN)
    u, v = flow.velocities(0.3, run.final.y)
    y = grid.centers[1, 0]
    np.testing.assert_allclose(u[0], 4 * y * (1 - y) * (1 + np.sin(0.9)), rtol=1e-14)
    np.testing.assert_allclose(np.sum(u, axis=1), np.sum(u[0]), rtol=1e-12)
    np.testing.assert_array_equal(v[:, [0, -1]], 0)


@pytest.mark.parametrize("walls", [pde.Periodic(), pde.FreeSlip()])
def test_no_energy_is_made_without_friction(walls):
    grid = pde.Grid((7, 6), 0.0, (1.0, 1.3))
    flow = pde.IncompressibleFlow(0.0, grid, walls, initial=swirl)
    y = flow.initial_state()
    rate = rate_of(flow, 0.0, y)
    work = [jnp.sum(a * b) for a, b in zip(y, rate, strict=True)]
    size = sum(jnp.sum(jnp.abs(a * b)) for a, b in zip(y, rate, strict=True))
    assert abs(sum(work)) < 1e-13 * size


def test_a_channel_comes_to_the_parabola_of_its_pressure():
    """u = y (1 − y) / 2ν under a unit force, exact for second differences but ν/4n²."""
    n = 8
    grid = pde.Grid((4, n))
    walls = (pde.Periodic(), pde.NoSlip())
    flow = pde.IncompressibleFlow(0.5, grid, walls, forcing=(1.0, 0.0))
    found = ds.simulate(flow, 8.0, ds.Method(diffrax.Tsit5(), 0.01)).states
    y = (np.arange(n) + 0.5) / n
    # The linear ghost misses the parabola by Δx²/4, everywhere alike.
    exact = y * (1 - y) + 1 / (4 * n**2)
    np.testing.assert_allclose(found[0], np.tile(exact, (4, 1)), rtol=1e-10)
    np.testing.assert_allclose(found[1], 0, atol=1e-14)


def test_pressure_holds_a_fluid_at_rest():
    """∇p = f where nothing moves."""
    grid = pde.Grid((6, 5))
    flow = pde.IncompressibleFlow(0.1, grid, pde.NoSlip(), forcing=(0.3, -1.0))
    p = flow.pressure(0.0, flow.initial_state())
    x, y = grid.centers - 0.5
    np.testing.assert_allclose(p, 0.3 * x - y, atol=1e-13)
