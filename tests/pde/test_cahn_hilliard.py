"""Cahn–Hilliard: growth rates, interfaces and energy in closed form."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.integrators import ETDRK4


CIRCLE = pde.Grid(32, 0.0, 2 * np.pi)


def after(equation, start, grid, t, step, solver=None):
    method = ds.Method(ETDRK4() if solver is None else solver, step)
    return ds.simulate(pde.Evolution(equation, start, grid), t, method).states


@pytest.mark.parametrize(
    ("mean", "about", "step"),
    first_plain([(0.4, 0.4, 0.5), (0.6, 0.0, 0.01), (0.0, 0.0, 0.5)], 2),
)
def test_small_waves_grow_at_linear_rate(mean, about, step):
    """About the mean they do at any step, elsewhere to the order of the solver."""
    equation = pde.CahnHilliard(0.7, 0.3, linearized_about=about)
    for k in (1, 3):
        wave = 1e-10 * jnp.cos(k * CIRCLE.centers[0])
        found = after(equation, mean + wave, CIRCLE, 0.5, step)[0] - mean
        growth = np.exp(0.5 * 0.7 * k**2 * (1 - 3 * mean**2 - 0.3**2 * k**2))
        # The rounding of the mean is 1e-16 of it, 1e-6 of the wave.
        atol = (1e-8 if mean == 0 else 1e-5) * 1e-10
        np.testing.assert_allclose(found, growth * wave, atol=atol)


def free_energy(u, grid, width):
    modes = pde.FourierBasis(grid)
    slopes = modes.ifft(modes.gradient(modes.fft(u)))
    density = (u**2 - 1) ** 2 / 4 + width**2 * jnp.sum(slopes**2, axis=0) / 2
    return jnp.sum(density) * grid.volume


@pytest.mark.parametrize("about", first_plain([0.0, 1.0]))
def test_mean_is_conserved_and_energy_decreases(about):
    grid = pde.Grid((32, 24), 0.0, (1.6, 1.2))
    rng = np.random.default_rng(0)
    start = jnp.asarray(0.2 + 0.1 * rng.normal(size=grid.shape))
    times = 0.1 * np.arange(11)
    equation = pde.CahnHilliard(1.0, 0.1, linearized_about=about)
    u = after(equation, start, grid, times, 0.005)[:, 0]
    mean = jnp.mean(u, axis=(1, 2))
    # 200 steps of rounding.
    np.testing.assert_allclose(mean, jnp.mean(start), rtol=1e-14)
    energy = jax.jit(jax.vmap(lambda a: free_energy(a, grid, 0.1)))(u)
    assert np.all(np.diff(energy) < 0)
    # It has come apart.
    assert jnp.max(u[-1]) > 0.8
    assert jnp.min(u[-1]) < -0.8


def test_flat_interfaces_are_stationary():
    """tanh(x/√2ε), two of them thirty widths apart, which do not feel each other."""
    grid = pde.Grid(384, -15.0, 45.0)
    x = grid.centers[0]
    walls = jnp.where(
        x < 15, jnp.tanh(x / np.sqrt(2)), -jnp.tanh((x - 30) / np.sqrt(2))
    )
    found = after(
        pde.CahnHilliard(1.0, 1.0, linearized_about=1.0), walls, grid, 10.0, 0.5
    )[0]
    # exp(-15 √2) where the halves meet.
    np.testing.assert_allclose(found, walls, atol=2e-9)


@pytest.mark.slow
def test_etdrk4_steps_have_order_four():
    """Of waves that are not stiff, in the value and in its derivative by the width."""
    grid = pde.Grid(14, 0.0, 2 * np.pi)
    x = grid.centers[0]
    start = 0.3 * jnp.sin(x) + 0.2 * jnp.cos(2 * x)

    def end(width, step):
        return after(
            pde.CahnHilliard(0.2, width, linearized_about=0.5), start, grid, 0.8, step
        )

    steps = (0.1, 0.05, 0.025)
    both = [jax.jvp(lambda w, h=h: end(w, h), (0.5,), (1.0,)) for h in steps]
    changes = [
        [jnp.max(jnp.abs(a - b)) for a, b in zip(one, two, strict=True)]
        for one, two in itertools.pairwise(both)
    ]
    np.testing.assert_allclose(np.log2(np.divide(*changes)), 4, atol=0.2)
