"""Waves: exact for discrete leapfrog, of order two for the equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.pde._equations._wave import _mean_decay
from diffsim.verify import check_simulation


def after(equation, start, grid, t, step, boundary=None, solver=None):
    run = pde.Evolution(equation, start, grid, boundary)
    solver = Leapfrog() if solver is None else solver
    return ds.simulate(run, t, ds.Method(solver, step)).states


def test_standing_waves_obey_leapfrog_dispersion():
    """cos ωh = 1 − 2 (ch/Δx)² sin²(kΔx/2), and its derivative by c."""
    n, k, h, steps = 32, 3, 0.1, 40
    grid = pde.Grid(n, 0.0, 2 * np.pi)
    wave = jnp.cos(k * grid.centers[0])

    def end(c):
        start = jnp.stack([wave, 0 * wave])
        return after(pde.Wave(c), start, grid, steps * h, h)[0]

    def exact(c):
        dx = 2 * np.pi / n
        squared = (2 * c / dx * np.sin(k * dx / 2)) ** 2
        return jnp.cos(steps * jnp.arccos(1 - h**2 * squared / 2)) * wave

    derivatives = jax.jit(lambda c: (*jax.jvp(end, (c,), (1.0,)), jax.jacrev(end)(c)))
    found, *both = derivatives(1.3)
    np.testing.assert_allclose(found, exact(1.3), atol=1e-12)
    np.testing.assert_allclose(both, 2 * [jax.jacfwd(exact)(1.3)], atol=1e-10)


def uneven(x):
    return 1 + 0.4 * jnp.sin(3 * x[0]) * jnp.cos(x[1])


@pytest.mark.slow
def test_energy_error_is_bounded():
    grid = pde.Grid((16, 12), 0.0, (1.6, 1.2))
    walls = (pde.Dirichlet(), (pde.Neumann(), pde.Robin(1.0, 0.5)))
    x, y = grid.centers
    start = jnp.stack([jnp.exp(-20 * ((x - 0.7) ** 2 + (y - 0.5) ** 2)), 0 * x])
    # 0.9 of the longest stable step.
    step = 0.9 * 0.1 / np.sqrt(2) / 1.4
    times = step * 5 * np.arange(601)
    drum = pde.Evolution(pde.Wave(uneven), start, grid, walls)
    states = ds.simulate(drum, times, ds.Method(Leapfrog(), step)).states
    energy = np.asarray(pde.energy(drum, states))
    assert np.ptp(energy) < 0.2 * energy[0]
    early, late = energy[:301], energy[300:]
    # It goes up and down, and nowhere.
    np.testing.assert_allclose(np.mean(late), np.mean(early), rtol=1e-2)
    assert np.ptp(late) < 1.05 * np.ptp(early)


def test_energy_is_kinetic_gradient_and_boundary_energy():
    """At a wall half a cell is stretched; a spring of Robin's is beside it."""
    n, c, k = 6, 1.3, 0.7
    x = pde.Grid(n).centers[0]
    state = jnp.stack([jnp.sin(3 * x) + x, jnp.cos(2 * x)])
    walls = (pde.Dirichlet(), pde.Robin(k, 1.0))
    string = pde.Evolution(pde.Wave(c), state, pde.Grid(n), walls)
    u, v = np.asarray(state)
    # By the line through the last cell that obeys u' = -ku at the wall.
    end = u[-1] / (1 + k / (2 * n))
    stretched = 2 * n * u[0] ** 2 + n * np.sum(np.diff(u) ** 2)
    stretched += 2 * n * (u[-1] - end) ** 2 + k * end**2
    exact = np.sum(v**2) / (2 * n) + c**2 / 2 * stretched
    np.testing.assert_allclose(pde.energy(string, state), exact, rtol=1e-13)


@pytest.mark.parametrize("n", first_plain([8, 64]))
def test_energy_of_straight_lines_is_half_their_squared_slope(n):
    """Of a line differences are exact; pulls add −c² g u and springs c² k u²/2."""
    grid, c = pde.Grid(n), 1.5
    x = grid.centers[0]
    level = pde.Dirichlet(3.0)
    rising = pde.Dirichlet(lambda t, x: x[0])
    cases = [
        (3 + 0 * x, level, 0.0),
        (x, rising, c**2 / 2),
        (x, (pde.Dirichlet(0.0), pde.Dirichlet(1.0)), c**2 / 2),
        # A slope of one, pulled at its end, where u = 1.
        (x, (pde.Dirichlet(0.0), pde.Neumann(1.0)), c**2 / 2 - c**2),
        # u + u' / 2 = 3/2, a spring of k = 2 at 3/2.
        (x, (pde.Dirichlet(0.0), pde.Robin(1.0, 0.5, 1.5)), c**2 / 2 + c**2 - 3 * c**2),
        (x, (pde.Robin(1.0, 0.0, 0.0), pde.Robin(2.0, 0.0, 2.0)), c**2 / 2),
        # Ghosts are a whole cell away.
        (3 + 0 * x, (pde.Inflow(3.0), pde.Outflow()), 0.0),
        (3 + 0 * x, pde.ReflectingWall(), 0.0),
    ]
    for u, walls, exact in cases:
        string = pde.Evolution(pde.Wave(c), jnp.stack([u, 0 * u]), grid, walls)
        found = pde.energy(string, string.initial)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.slow
def test_energy_of_a_level_membrane_is_zero():
    grid = pde.Grid((5, 6), 0.0, (1.0, 2.0))
    level = 0 * grid.centers[0] + 2.0
    walls = (pde.Dirichlet(2.0), pde.Dirichlet(lambda t, x: 2 + 0 * x[0]))
    drum = pde.Evolution(pde.Wave(uneven), jnp.stack([level, 0 * level]), grid, walls)
    np.testing.assert_allclose(pde.energy(drum, drum.initial), 0, atol=1e-12)


WALLS = {
    "held": pde.Dirichlet(0.4),
    "pulled": (pde.Neumann(0.3), pde.Robin(1.0, 0.5, 2.0)),
    "ring": pde.Periodic(),
}


@pytest.mark.parametrize("name", first_plain(WALLS, 2))
def test_rate_conserves_energy_for_every_boundary(name):
    grid = pde.Grid((6, 5), 0.0, (1.6, 1.2))
    state = jnp.asarray(np.random.default_rng(3).normal(size=(2, 6, 5)))
    drum = pde.Evolution(pde.Wave(uneven), state, grid, (WALLS[name], pde.Neumann()))

    @jax.jit
    def change(state):
        u, v = state
        pull = pde.diffusion(u[None], uneven(grid.centers) ** 2, drum.domain)[0]
        rate = jnp.stack([v, pull])
        work = jax.jvp(lambda u: pde.energy(drum, u), (state,), (rate,))[1]
        back = jnp.sum(jax.grad(lambda u: pde.energy(drum, u))(state) * rate)
        return work, back, jnp.sum(jnp.abs(v * pull)) * grid.volume

    work, back, size = change(state)
    assert abs(work) < 1e-14 * size
    assert abs(back) < 1e-14 * size


def running(c, t, x):
    return jnp.sin(2 * (x - c * t)) + jnp.cos(3 * (x + c * t)) / 2


def slope(c, t, x):
    return jax.jvp(lambda x: running(c, t, x), (x,), (jnp.ones_like(x),))[1]


def walls_of(kind, c):
    if kind == "Dirichlet":
        return [pde.Dirichlet(lambda t, x: running(c, t, x)) for _ in (0, 1)]
    if kind == "Neumann":
        return [pde.Neumann(lambda t, x, s=s: s * slope(c, t, x)) for s in (-1, 1)]

    def value(t, x, s):
        return running(c, t, x) + 0.3 * s * slope(c, t, x)

    return [pde.Robin(1.0, 0.3, lambda t, x, s=s: value(t, x, s)) for s in (-1, 1)]


@pytest.mark.parametrize(
    ("kind", "order"),
    first_plain([("Robin", 2), ("Dirichlet", 1.5), ("Neumann", 2)]),
)
def test_waves_have_order_two_with_derivatives(kind, order):
    """Fixed walls send out ripples of a cell's length, dx^2.5 of them.

    Their phase turns by ct/dx, so that the derivative by c loses one order of theirs.
    """

    def error(c, n):
        grid = pde.Grid(n, 0.2, 1.7)
        x = grid.centers[0]

        def there(t):
            time, one = jnp.asarray(t), jnp.ones(())
            return jnp.stack(jax.jvp(lambda t: running(c, t, x), (time,), (one,)))

        walls = (tuple(walls_of(kind, c)),)
        found = after(pde.Wave(c), there(0.0), grid, 0.96, 0.96 / n, walls)
        return (found - there(0.96))[0]

    def norms(n):
        both = jax.jit(lambda c: jax.jvp(lambda c: error(c, n), (c,), (1.0,)))(1.1)
        return [np.std(both[0]), np.max(np.abs(both[0])), np.std(both[1])]

    orders = np.log2(np.divide(norms(48), norms(96)))
    np.testing.assert_allclose(orders, [2, 2, order], atol=0.1)


def packet(grid, center, width, length, speed=1.0):
    """Of waves of one length under a Gaussian, to the right."""
    x = grid.centers[0]

    def shape(t):
        z = x - center - speed * t
        wave = 1.0 if length is None else jnp.cos(2 * np.pi * z / length)
        return jnp.exp(-((z / width) ** 2) / 2) * wave

    return jnp.stack(jax.jit(lambda t: jax.jvp(shape, (t,), (1.0,)))(0.0))


@pytest.mark.slow
def test_interface_reflection_coefficient():
    grid = pde.Grid(600, 0.0, 600.0)
    speed = jnp.where(grid.centers[0] < 300, 1.0, 2.0)
    start = packet(grid, 150.0, 15.0, None)
    found = after(pde.Wave(speed), start, grid, 260.0, 0.4)[0]
    reflected, passed = found[:300], found[300:]
    back = reflected[np.argmax(np.abs(reflected))]
    # (c₁ − c₂)/(c₁ + c₂), and one more of it passes.
    np.testing.assert_allclose(back, -1 / 3, rtol=0.01)
    np.testing.assert_allclose(np.max(passed), 2 / 3, rtol=0.01)


def test_absorbing_layer_of_twenty_cells_absorbs_waves_of_eight():
    grid = pde.Grid(240, 0.0, 240.0)
    layer = pde.absorbing_layer(grid, 20.0, 2.0)
    start = packet(grid, 120.0, 16.0, 8.0)
    found = after(pde.Wave(1.0, layer), start, grid, 220.0, 0.5, pde.Dirichlet())
    assert jnp.max(jnp.abs(found[0])) < 1e-3


def test_damping_of_uniform_fields_is_exact():
    grid = pde.Grid(4)
    start = jnp.stack([jnp.ones(4), jnp.zeros(4)])
    for damping in (1e-9, 0.03, 4.0):
        # Far beyond what an explicit step of damping could take, at last.
        equation = pde.Wave(1e-3, damping, source=0.7)
        found = after(equation, start, grid, 3.0, 1.0)[1]
        expected = -0.7 * np.expm1(-3 * damping) / damping
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "order"),
    [(Leapfrog(), 2), (Yoshida4(), 4)],
)
def test_damped_leapfrog_keeps_its_order(solver, order):
    run = small()

    def end(step):
        return ds.simulate(run, 0.4, ds.Method(solver, step)).states

    best = ds.simulate(run, 0.4).states
    errors = [np.max(np.abs(end(h) - best)) for h in (0.025, 0.0125)]
    np.testing.assert_allclose(np.log2(np.divide(*errors)), order, atol=0.2)


def small(damping=True):
    grid = pde.Grid((4, 5), 0.0, (0.8, 1.1))
    x, y = grid.centers
    start = jnp.stack([jnp.sin(3 * x) + y**2, jnp.cos(x * y)])
    walls = ((pde.Dirichlet(0.3), pde.Neumann(0.2)), pde.Robin(1.0, 0.4, 0.1))
    layer = pde.absorbing_layer(grid, 0.5, 3.0) if damping else None
    equation = pde.Wave(1 + 0.3 * x, layer, source=lambda t, x, u: jnp.sin(t) * x[0])
    return pde.Evolution(equation, start, grid, walls)


def test_mean_decay_has_correct_derivatives_everywhere():
    """Its series and its quotient meet where either has all digits."""
    z = jnp.array([-30.0, -0.5, -0.0101, -0.0099, -1e-5, 0.0, 1e-5, 0.0099, 2.0])
    wide = np.asarray(z, np.longdouble)
    total, slopes, term = wide * 0, wide * 0, wide * 0 + 1
    for j in range(200):
        total = total + term / (j + 1)
        slopes = slopes + term * (j + 1) / ((j + 1) * (j + 2))
        term = term * wide / (j + 1)
    close = np.abs(wide) < 3
    both = jax.jit(lambda z: jax.jvp(_mean_decay, (z,), (jnp.ones_like(z),)))
    found, slope = map(np.asarray, both(z))
    np.testing.assert_allclose(found[close], total[close].astype(float), rtol=1e-14)
    np.testing.assert_allclose(slope[close], slopes[close].astype(float), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_gradients_are_correct_for_every_parameter():
    method = ds.Method(Leapfrog(), 0.02)
    check_simulation(small(damping=False), [0.04, 0.08], method).raise_if_failed()


def test_single_precision_stays_single():
    grid = pde.Grid(8)
    start = jnp.ones((2, 8), jnp.float32)
    run = pde.Evolution(pde.Wave(1.0, 0.5), start, grid, pde.Dirichlet())
    method = ds.Method(Leapfrog(), 0.05)
    found = jax.eval_shape(lambda: ds.simulate(run, 0.2, method).states)
    assert found.dtype == jnp.float32
    assert found.shape == (2, 8)
