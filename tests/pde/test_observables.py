"""Observables, beside closed forms and the laws of the equations."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import pde
from diffsim.integrators import ETDRK4, SSPRK3


TURN = 2 * np.pi


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def test_periodic_diffusion_conserves_mass_to_machine_precision():
    grid = pde.Grid((8, 6), (0.0, 0.5), (1.0, 2.0))
    ring = pde.Evolution(pde.Diffusion(0.05), 3 + random(8, 6), grid)
    times = np.linspace(0.0, 0.5, 6)
    run = ds.simulate(ring, times, ds.Method(diffrax.Heun(), 0.05))
    mass = pde.integral(run.states, grid)
    assert mass.shape == (6, 1)
    # The mean times the area.
    np.testing.assert_allclose(mass[0], 1.5 * np.mean(ring.initial), rtol=1e-14)
    np.testing.assert_allclose(mass, np.broadcast_to(mass[0], (6, 1)), rtol=1e-14)


def vortices(x):
    """Taylor and Green's: of energy π² and enstrophy 2π²."""
    return jnp.stack([-jnp.cos(x[0]) * jnp.sin(x[1]), jnp.sin(x[0]) * jnp.cos(x[1])])


@pytest.mark.slow
def test_energy_and_enstrophy_of_vortices_decay_at_their_rate():
    grid, times = pde.Grid((12, 16), 0.0, TURN), np.array([0.0, 0.3, 1.0])
    start = 2 * jnp.cos(grid.centers[0]) * jnp.cos(grid.centers[1])

    def both(nu):
        flow = pde.Evolution(pde.NavierStokesVorticity(nu), start, grid)
        states = ds.simulate(flow, times, ds.Method(ETDRK4(), 0.1)).states
        return jnp.stack([f(flow, states) for f in (pde.energy, pde.enstrophy)])

    exact = np.pi**2 * np.array([[1.0], [2.0]]) * np.exp(-4 * 0.3 * times)
    found, slope = jax.jit(lambda nu: jax.jvp(both, (nu,), (1.0,)))(0.3)
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    np.testing.assert_allclose(slope, -4 * times * exact, rtol=1e-11, atol=1e-12)


def test_energy_and_enstrophy_on_staggered_grid_have_discrete_values():
    """cos ½Δx in the centers, and sin Δx / Δx for a derivative."""
    dx = TURN / 12
    grid = pde.Grid((12, 12), 0.0, TURN)
    flow = pde.IncompressibleFlow(0.1, grid, pde.Periodic(), initial=vortices)
    state = flow.observe(0.0, flow.initial_state())
    energy = np.pi**2 * np.cos(dx / 2) ** 2
    np.testing.assert_allclose(pde.energy(flow, state), energy, rtol=1e-13)
    enstrophy = 2 * energy * (np.sin(dx) / dx) ** 2
    np.testing.assert_allclose(pde.enstrophy(flow, state), enstrophy, rtol=1e-13)


@pytest.mark.parametrize(
    "shape", [(16, 12), pytest.param((9, 8, 10), marks=pytest.mark.slow)]
)
def test_energy_decays_by_enstrophy_and_drag(shape):
    r"""$dE/dt = -2\nu Z - 2\mu E$: what a flow carries along makes none."""
    grid = pde.Grid(shape, 0.0, [TURN, 5.0, 4.0][: len(shape)])
    vorticity = len(shape) == 2
    kind = pde.NavierStokesVorticity if vorticity else pde.NavierStokesVelocity
    channels = 1 if vorticity else 3
    low = pde.FourierBasis(grid).dealiased()
    state = low.ifft(low.fft(random(channels, *shape)))
    state = state - jnp.mean(state, range(1, len(shape) + 1), keepdims=True)
    if channels == 3:
        z = low.fft(state)
        spread = sum(low.derivative(i) * z[i] for i in range(3))
        state = state - low.ifft(low.gradient(low.inverse_laplacian(spread)))
    flow = pde.Evolution(kind(0.03, drag=0.2), state, grid)

    @jax.jit
    def found(u):
        rate = flow.terms().vf(0.0, u, flow)
        energy, change = jax.jvp(lambda u: pde.energy(flow, u), (u,), (rate,))
        back = jnp.sum(jax.grad(lambda u: pde.energy(flow, u))(u) * rate)
        return change, back, 2 * 0.03 * pde.enstrophy(flow, u) + 2 * 0.2 * energy

    change, back, lost = found(state)
    np.testing.assert_allclose(change, -lost, rtol=1e-12)
    np.testing.assert_allclose(back, change, rtol=1e-12)


def test_velocity_and_vorticity_are_inverse_of_each_other():
    grid = pde.Grid((9, 8), 0.0, (TURN, 3.0))
    low = pde.FourierBasis(grid).dealiased()
    state = low.ifft(low.fft(random(2, 1, 9, 8)))
    state = state - jnp.mean(state, (-2, -1), keepdims=True)
    flow = pde.Evolution(pde.NavierStokesVorticity(0.1), state[0], grid)
    u = pde.velocity(flow, state)
    assert u.shape == (2, 2, 9, 8)
    z = low.fft(u)
    x, y = low.derivative(0), low.derivative(1)
    np.testing.assert_allclose(
        low.ifft(x * z[:, 1] - y * z[:, 0]), state[:, 0], atol=1e-13
    )
    np.testing.assert_allclose(low.ifft(x * z[:, 0] + y * z[:, 1]), 0, atol=1e-13)
    np.testing.assert_array_equal(pde.vorticity(flow, state), state[:, 0])


def test_vorticity_of_beltrami_flow_equals_velocity():
    """Arnold's, Beltrami's and Childress's."""
    grid = pde.Grid((8, 6, 10), 0.0, TURN)
    x, y, z = grid.centers
    state = jnp.stack(
        [
            jnp.sin(z) + 0.7 * jnp.cos(y),
            0.3 * jnp.sin(x) + jnp.cos(z),
            0.7 * jnp.sin(y) + 0.3 * jnp.cos(x),
        ]
    )
    flow = pde.Evolution(pde.NavierStokesVelocity(0.1), state, grid)
    np.testing.assert_allclose(pde.vorticity(flow, state), state, atol=1e-13)
    np.testing.assert_array_equal(pde.velocity(flow, state), state)
    np.testing.assert_allclose(
        pde.enstrophy(flow, state), pde.energy(flow, state), rtol=1e-13
    )


@pytest.mark.parametrize("deep", [False, True])
def test_vorticity_between_walls_is_exact_for_parabolas(deep):
    shape = (5, 4, 3) if deep else (5, 4)
    grid = pde.Grid(shape, 0.0, (1.0, 1.5, 0.8)[: len(shape)])
    x, y = grid.centers[:2]
    parts = [x * y + 2 * y**2, x**2 - x * y, x * y][: len(shape)]
    state = jnp.stack(parts)
    walls = ((pde.Inflow(1.0), pde.Outflow()), *[pde.NoSlip()] * (len(shape) - 1))
    flow = pde.IncompressibleFlow(0.1, grid, walls)
    around = 2 * x - y - x - 4 * y
    exact = [x, -y, around] if deep else around
    found = pde.vorticity(flow, jnp.stack([state, 2 * state]))
    np.testing.assert_allclose(found[0], exact, atol=1e-13)
    np.testing.assert_allclose(found[1], 2 * np.asarray(exact), atol=1e-13)


@pytest.mark.parametrize("shape", [(9,), (8, 7), (6, 5, 4)])
def test_spectrum_sums_to_mean_square(shape):
    grid = pde.Grid(shape, 0.0, (1.0, 7.0, 2.0)[: len(shape)])
    u = random(3, 2, *shape)
    k, power = pde.spectrum(u, grid)
    assert power.shape == (3, 2, *k.shape)
    inside = tuple(range(2, u.ndim))
    np.testing.assert_allclose(power.sum(-1), np.mean(u**2, inside), rtol=1e-12)
    mean = np.mean(u, inside) ** 2
    if len(shape) == 1:
        np.testing.assert_allclose(power[..., 0], mean, rtol=1e-12)


def test_spectrum_of_a_wave_is_in_its_shell():
    """Of wavenumber 5 along a diagonal, 3 and 4, in a box of sides 2π."""
    grid = pde.Grid((16, 16), 0.0, TURN)
    x, y = grid.centers
    k, power = pde.spectrum(jnp.cos(3 * x + 4 * y) + 0.5, grid)
    np.testing.assert_allclose(k, np.arange(12))
    expected = np.zeros(12)
    expected[[0, 5]] = 0.25, 0.5
    np.testing.assert_allclose(power, expected, atol=1e-15)


def test_half_the_spectrum_of_velocity_is_the_energy_spectrum():
    grid = pde.Grid((8, 8), 0.0, TURN)
    start = random(1, 8, 8) - jnp.mean(random(1, 8, 8))
    flow = pde.Evolution(pde.NavierStokesVorticity(0.1), start, grid)
    _, power = pde.spectrum(pde.velocity(flow, start), grid)
    area = TURN**2
    np.testing.assert_allclose(
        area * power.sum() / 2, pde.energy(flow, start), rtol=1e-12
    )


def test_single_precision_stays_single():
    grid = pde.Grid((8, 6), 0.0, TURN)
    u, single = random(1, 8, 6), random(1, 8, 6).astype(jnp.float32)
    flow = pde.Evolution(pde.NavierStokesVorticity(0.1), u, grid)
    for function in (
        lambda u: pde.integral(u, grid),
        lambda u: pde.energy(flow, u),
        lambda u: pde.enstrophy(flow, u),
        lambda u: pde.vorticity(flow, u),
        lambda u: pde.spectrum(u, grid)[0],
        lambda u: pde.spectrum(u, grid)[1],
    ):
        assert function(single).dtype == jnp.float32
        np.testing.assert_allclose(function(single), function(u), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_batched_observables_match_single_ones():
    grid = pde.Grid((8, 6), 0.0, TURN)
    u = random(3, 1, 8, 6)
    flow = pde.Evolution(pde.NavierStokesVorticity(0.1), u[0], grid)
    for function in (
        lambda u: pde.energy(flow, u),
        lambda u: pde.enstrophy(flow, u),
        lambda u: pde.spectrum(u, grid)[1],
    ):
        whole, each = function(u), jnp.stack([function(a) for a in u])
        np.testing.assert_allclose(whole, each, rtol=1e-13)
        np.testing.assert_allclose(jax.vmap(function)(u), each, rtol=1e-13)
        gradient = jax.jit(jax.grad(lambda a, f=function: jnp.sum(jnp.sin(f(a)))))
        np.testing.assert_allclose(
            gradient(u), jax.vmap(gradient)(u), rtol=1e-12, atol=1e-14
        )


def stream(t, x):
    return jnp.stack([(x[1] - 0.1) * (1 - x[1]) * 4, 0.1 + 0 * x[1]])


def channel():
    """A body in the stream of a channel, far from what leaves it."""
    grid = pde.Grid((14, 9), (0.0, 0.1), (2.0, 1.0))
    walls = ((pde.Inflow(stream), pde.Outflow()), (pde.NoSlip(), pde.FreeSlip()))
    body = pde.Obstacle(
        pde.Ball((0.8, 0.5), 0.2),
        velocity=(0.1, -0.05),
        penalization_time=0.05,
        mask_width=0.04,
    )
    return pde.IncompressibleFlow(
        0.03,
        grid,
        walls,
        forcing=(0.2, -0.1),
        obstacle=body,
        initial=lambda x: jnp.stack([1 + jnp.sin(3 * x[1]), jnp.cos(4 * x[0])]),
    )


@pytest.mark.slow
def test_force_on_obstacle_closes_momentum_balance_of_a_channel():
    """From velocities and pressure: what flows through the sides of the outermost
    control volumes, is pressed and rubbed there, and what drives."""
    flow = channel()
    (dx, dy), nu = flow.grid.spacing, 0.03

    @jax.jit
    def seen(y):
        shown = flow.velocities(0.0, y), flow.pressure(0.0, y), flow.force(0.0, y)
        return *shown, flow.terms().vf(0.0, y, flow)

    (u, v), p, force, (du, dv) = seen(flow.initial_state())

    # Along x: faces 1 to n − 1, between the centers of the first and the last column.
    first_last = np.array([0, -1])
    ends = (u[:-1] + u[1:])[first_last] / 2
    pressed = ends**2 + p[first_last] - nu * np.diff(u, axis=0)[first_last] / dx
    # The slope of the parabola through the wall and two values.
    rubbed = nu * (3 * u[1:-1, 0] - u[1:-1, 1] / 3) / dy
    gained = np.sum(pressed[0] - pressed[1]) * dy - np.sum(rubbed) * dx
    driven = 0.2 * u[1:-1].size * dx * dy
    kept = np.sum(du[:-1]) * dx * dy
    # What χ is at the outlet: e^−50.
    np.testing.assert_allclose(force[0], gained + driven - kept, rtol=1e-11)

    # Along y: faces 1 to m − 1, from the inlet to the outlet.
    inner = v[:, 1:-1]
    inlet = stream(0.0, flow.grid.faces(1)[:, 0, 1:-1])[0]
    outlet = (u[-1, :-1] + u[-1, 1:]) / 2
    # Beyond the outlet v is what it is before it.
    carried = inlet * 0.1 - outlet * inner[-1]
    slopes = -nu * (inner[0] - 0.1) * 2 / dx
    ends = (v[:, :-1] + v[:, 1:])[:, first_last] / 2
    pressed = ends**2 + p[:, first_last]
    pressed = pressed - nu * np.diff(v, axis=1)[:, first_last] / dy
    gained = np.sum(pressed[:, 0] - pressed[:, 1]) * dx + np.sum(carried + slopes) * dy
    driven = -0.1 * inner.size * dx * dy
    kept = np.sum(dv) * dx * dy
    np.testing.assert_allclose(force[1], gained + driven - kept, rtol=1e-11)


def test_force_is_integral_of_penalization():
    """∫ χ/η (u − u_b) on the faces, along the stream where that is the faster one."""
    flow = channel()
    y = eqx.filter_jit(flow.initial_state)()
    force, volume = jax.jit(flow.force)(0.0, y), np.prod(flow.grid.spacing)
    for i, (a, own) in enumerate(zip(y, (0.1, -0.05), strict=True)):
        cut = (slice(1, None), slice(None)) if i == 0 else (slice(None), slice(1, -1))
        x = np.asarray(flow.grid.faces(i))[(slice(None), *cut)]
        far = np.sum((x - np.array([0.8, 0.5])[:, None, None]) ** 2, axis=0)
        inside = (1 - np.tanh((far - 0.04) / 0.4 / 0.04)) / 2
        exact = np.sum(inside / 0.05 * (np.asarray(a) - own)) * volume
        np.testing.assert_allclose(force[i], exact, rtol=1e-12)
    assert force[0] > 0


def test_integer_and_boolean_fields_are_converted():
    grid = pde.Grid((4, 6), upper=(2.0, 3.0))
    u = jnp.arange(24).reshape(4, 6)
    for f in (pde.integral, pde.spectrum):
        jax.tree.map(np.testing.assert_array_equal, f(u, grid), f(1.0 * u, grid))
    np.testing.assert_allclose(pde.integral(u > 11, grid), grid.volume * 12)
    place, domain = [[0.7, 1.1]], pde.Domain(grid)
    np.testing.assert_array_equal(
        pde.probe(u, place, domain), pde.probe(1.0 * u, place, domain)
    )


def test_shells_of_a_long_box_are_centered_on_their_wavenumber():
    """Waves along the long side are half, one and a half, ... of the shells'."""
    grid = pde.Grid((8, 16), 0.0, (1.0, 2.0))
    y = grid.centers[1]
    for m, shell in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 3)):
        power = pde.spectrum(jnp.cos(jnp.pi * m * y), grid)[1]
        assert int(jnp.argmax(power)) == shell


def test_energies_of_gas_and_water_match_closed_forms():
    gas, line, one = pde.Euler(1.4), pde.Grid(16), jnp.ones(16)
    tube = pde.Evolution(gas, gas.state(2.0 * one, 3.0, 0.8), line)
    np.testing.assert_allclose(pde.energy(tube, tube.initial), 2 + 9, rtol=1e-6)
    lake = pde.Evolution(pde.ShallowWater(10.0, 0.5), jnp.ones((2, 16)) * 2, line)
    np.testing.assert_allclose(pde.energy(lake, lake.initial), 31.0, rtol=1e-6)


def test_periodic_gas_conserves_energy():
    gas, line = pde.Euler(1.4), pde.Grid(16)
    steps = ds.Method(SSPRK3(), 0.001)
    rho = 1 + 0.2 * jnp.sin(2 * jnp.pi * line.centers[0])
    tube = pde.Evolution(gas, gas.state(rho, 1.0, 1.0), line)
    last = ds.simulate(tube, 0.01, steps).states
    energies = pde.energy(tube, tube.initial), pde.energy(tube, last)
    np.testing.assert_allclose(*energies, rtol=1e-12)
