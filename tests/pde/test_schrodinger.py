"""Wave functions beside closed forms: packets, oscillators, solitons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.integrators import KahanLi6, Leapfrog, Yoshida4
from diffsim.simulations import Reversible
from diffsim.verify import check_simulation


LINE = pde.Grid(96, -12.0, 12.0)
X = LINE.centers[0]


def parts(psi):
    return jnp.stack([psi.real, psi.imag])


def after(equation, psi, t, step, solver=None, grid=LINE):
    run = pde.Evolution(equation, parts(psi), grid)
    solver = Yoshida4() if solver is None else solver
    return ds.simulate(run, t, ds.Method(solver, step)).states


def packet(t, mass, hbar=0.8, width=1.1, momentum=1.6):
    """A Gaussian that spreads and moves at p/m."""
    spread = 1 + 1j * hbar * t / (mass * width**2)
    bell = -((X - momentum * t / mass) ** 2) / (2 * width**2 * spread)
    phase = (momentum * X - momentum**2 * t / (2 * mass)) / hbar
    return jnp.exp(bell + 1j * phase) / jnp.sqrt(spread)


def test_free_packet_is_exact_at_any_step():
    def end(mass):
        equation = pde.Schrodinger(hbar=0.8, mass=mass)
        return after(equation, packet(0.0, mass), 1.0, 1.0, Leapfrog())

    def exact(mass):
        return parts(packet(1.0, mass))

    # What of the packet lies beyond the grid, 1e-13 where it is widest.
    derivatives = jax.jit(lambda m: (*jax.jvp(end, (m,), (1.0,)), jax.jacrev(end)(m)))
    found, *both = derivatives(1.3)
    np.testing.assert_allclose(found, exact(1.3), atol=1e-11)
    np.testing.assert_allclose(both, 2 * [jax.jacfwd(exact)(1.3)], atol=1e-10)


HBAR, MASS = 0.9, 1.2


def swinging(t, omega, start=1.5):
    """The coherent state of an oscillator, which follows the classical path."""
    q = start * jnp.cos(omega * t)
    p = -MASS * omega * start * jnp.sin(omega * t)
    bell = -MASS * omega * (X - q) ** 2 / (2 * HBAR)
    return jnp.exp(bell + 1j * (p * (X - q / 2) / HBAR - omega * t / 2))


@pytest.mark.parametrize(
    ("solver", "order", "step"),
    first_plain([(Yoshida4(), 4, 0.1), (Leapfrog(), 2, 0.1), (KahanLi6(), 6, 0.25)]),
)
def test_coherent_state_has_the_order_of_the_solver(solver, order, step):
    def end(omega, step):
        well = pde.Schrodinger(MASS * (omega * X) ** 2 / 2, hbar=HBAR, mass=MASS)
        return after(well, swinging(0.0, omega), 2.0, step, solver)

    exact = jax.jvp(lambda w: parts(swinging(2.0, w)), (1.4,), (1.0,))
    errors = [
        [np.max(np.abs(a - b)) for a, b in zip(found, exact, strict=True)]
        for found in (
            jax.jvp(lambda w, h=h: end(w, h), (1.4,), (1.0,)) for h in (step, step / 2)
        )
    ]
    # Of the value, and of its derivative by the frequency.
    np.testing.assert_allclose(np.log2(np.divide(*errors)), order, atol=0.3)


def test_energy_of_oscillator_and_soliton():
    """m(ωq)²/2 + ħω/2 of the coherent state, and av² − a³/3 of the soliton."""
    omega, a, v = 1.4, 1.2, 0.5

    def swing(omega):
        well = pde.Schrodinger(MASS * (omega * X) ** 2 / 2, hbar=HBAR, mass=MASS)
        psi = swinging(0.0, omega) * (MASS * omega / (np.pi * HBAR)) ** 0.25
        system = pde.Evolution(well, parts(psi), LINE)
        run = ds.simulate(system, [0.7, 2.0], ds.Method(KahanLi6(), 0.1))
        return pde.energy(system, run.states)

    found, slope = jax.jit(lambda w: jax.jvp(swing, (w,), (1.0,)))(omega)
    exact = MASS * (1.5 * omega) ** 2 / 2 + HBAR * omega / 2
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    np.testing.assert_allclose(slope, 1.5**2 * MASS * omega + HBAR / 2, rtol=1e-4)
    pulse = a / jnp.cosh(a * X) * jnp.exp(1j * v * X)
    fiber = pde.Evolution(pde.Schrodinger(nonlinearity=-1.0), parts(pulse), LINE)
    found = pde.energy(fiber, fiber.initial)
    np.testing.assert_allclose(found, a * v**2 - a**3 / 3, atol=1e-10)


def test_bright_solitons_keep_their_shape():
    grid = pde.Grid(192, -20.0, 20.0)
    x = grid.centers[0]

    def soliton(t, a=1.2, v=0.5):
        phase = v * x + (a**2 - v**2) * t / 2
        return a / jnp.cosh(a * (x - v * t)) * jnp.exp(1j * phase)

    errors = []
    for step in (0.02, 0.01):
        found = after(pde.Schrodinger(0.0, -1.0), soliton(0.0), 2.0, step, grid=grid)
        errors.append(np.max(np.abs(found - parts(soliton(2.0)))))
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 4, atol=0.2)
    assert errors[1] < 1e-5


def test_norm_is_conserved_over_a_thousand_steps():
    grid = pde.Grid((16, 12), -5.0, 5.0)
    x, y = grid.centers
    psi = jnp.exp(-(x**2) - y**2 / 2 + 1j * x)
    equation = pde.Schrodinger(lambda t, x: jnp.sin(t) * x[0] ** 2, 3.0)
    found = after(equation, psi, [0.0, 10.0], 0.01, Leapfrog(), grid)
    norm = jnp.sum(found**2, axis=(1, 2, 3))
    # Rounding of 4000 rotations, each of them unbiased.
    np.testing.assert_allclose(norm[1], norm[0], rtol=1e-12)


def moving(t, x):
    return jnp.cos(x[0] * 2 * np.pi / 5 - 3 * t)


def small(potential=moving):
    rng = np.random.default_rng(5)
    grid = pde.Grid(8, 0.0, 5.0)
    equation = pde.Schrodinger(potential, 0.6, hbar=0.9, mass=1.1)
    return pde.Evolution(equation, jnp.asarray(rng.normal(size=(2, 8))), grid)


def test_moving_potential_keeps_the_order_and_default_agrees():
    best = ds.simulate(small(), 1.0, ds.Method(KahanLi6(), 0.01)).states
    errors = [
        np.max(
            np.abs(ds.simulate(small(), 1.0, ds.Method(Yoshida4(), h)).states - best)
        )
        for h in (0.05, 0.025)
    ]
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 4, atol=0.2)
    np.testing.assert_allclose(ds.simulate(small(), 1.0).states, best, atol=1e-7)


@pytest.mark.slow
def test_reversible_adjoint_gives_derivative_by_potential():
    """Without a stored past, and it is that of finite differences."""
    field = moving(0.3, small().grid.centers)

    def cost(field, adjoint):
        method = ds.Method(Yoshida4(), 0.1, adjoint=adjoint)
        y = ds.simulate(small(field), 1.0, method).states
        return jnp.sum(y[0] ** 2 * jnp.arange(8))

    found, stored = jax.jit(
        lambda field: [jax.grad(cost)(field, kind) for kind in (Reversible(), None)]
    )(field)
    np.testing.assert_allclose(found, stored, rtol=1e-11)
    up, down = (cost(field.at[3].add(d), None) for d in (1e-5, -1e-5))
    np.testing.assert_allclose(stored[3], (up - down) / 2e-5, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_gradients_are_correct_for_every_parameter():
    method = ds.Method(Yoshida4(), 0.02)
    check_simulation(small(), [0.02, 0.04], method).raise_if_failed()


def test_single_precision_stays_single():
    grid = pde.Grid(8, 0.0, 5.0)
    run = pde.Evolution(pde.Schrodinger(0.5), jnp.ones((2, 8), jnp.float32), grid)
    method = ds.Method(Yoshida4(), 0.1)
    found = jax.eval_shape(lambda: ds.simulate(run, 0.2, method).states)
    assert found.dtype == jnp.float32
