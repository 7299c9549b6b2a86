"""Gases under their weight: equilibria, what is kept, derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


GAMMA = 1.4
STEPS = ds.Method(integrators.SSPRK3(), step=2e-3)


def isothermal(height):
    return jnp.exp(-height), jnp.exp(-height)


def polytropic(height):
    """Of one entropy, T = 1 − (γ − 1)/γ φ."""
    warmth = 1 - (GAMMA - 1) / GAMMA * height
    return warmth ** (1 / (GAMMA - 1)), warmth ** (GAMMA / (GAMMA - 1))


def atmosphere(n, profile=isothermal, walls=None, gravity: Any = -1.0, **options):
    grid = pde.Grid(n)
    gas = pde.Euler(GAMMA, gravity=gravity, **options)
    rho, p = profile(grid.centers[0])
    start = gas.state(rho, jnp.zeros((1, n)), p)
    return pde.Evolution(gas, start, grid, walls or pde.ReflectingWall())


@pytest.mark.parametrize("walls", first_plain([pde.ReflectingWall(), pde.Outflow()]))
@pytest.mark.parametrize("scheme", first_plain([pde.MUSCL(), pde.WENO5()]))
def test_isothermal_atmospheres_are_at_rest(scheme, walls):
    air = atmosphere(64, walls=walls, scheme=scheme)
    end = ds.simulate(air, 5.0).states
    np.testing.assert_allclose(end, air.initial_field, atol=1e-12)


@pytest.mark.slow
def test_an_atmosphere_is_at_rest_for_a_thousand_units_of_time():
    air = atmosphere(64)
    end = ds.simulate(air, 1000.0, max_steps=10**6).states
    np.testing.assert_allclose(end, air.initial_field, atol=1e-12)


def test_an_atmosphere_in_any_potential_is_at_rest():
    """exp(−φ) between walls and around a ring, in two dimensions."""

    def potential(t, x):
        return 0.5 * x[1] ** 2 + 0.3 * jnp.cos(2 * np.pi * x[0])

    grid = pde.Grid((12, 10))
    gas = pde.Euler(GAMMA, gravity=potential)
    rho, p = isothermal(potential(0.0, grid.centers))
    start = gas.state(rho, jnp.zeros((2, 12, 10)), p)
    sides = pde.Periodic(), pde.ReflectingWall()
    air = pde.Evolution(gas, start, grid, sides)
    end = ds.simulate(air, 1.0).states
    np.testing.assert_allclose(end, start, atol=1e-12)


def test_other_atmospheres_are_at_rest_to_order_2():
    errors = []
    for n in (32, 64):
        air = atmosphere(n, polytropic)
        gas: Any = air.equation
        rate = gas.rate(0.0, air.initial_field, air.domain)
        errors.append(float(jnp.mean(jnp.abs(rate))))
    assert errors[0] <= 1e-5
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


def bubble(n, g: Any, weight: Any = None):
    """A light bubble that rises from rest."""
    grid = pde.Grid(n)
    x = grid.centers[0]
    gas = pde.Euler(GAMMA, gravity=g, source=weight)
    rho, p = isothermal(x)
    rho = rho * (1 - 0.3 * jnp.exp(-50 * (x - 0.4) ** 2))
    start = gas.state(rho, jnp.zeros((1, n)), p)
    return pde.Evolution(gas, start, grid, pde.ReflectingWall())


def test_mass_and_energy_with_height_are_constant():
    run = bubble(40, -1.0)
    end = ds.simulate(run, 1.0).states

    gas: Any = run.equation

    def totals(u):
        return jnp.sum(u[0]), jnp.sum(gas.energy(0.0, u, run.domain))

    np.testing.assert_allclose(totals(end), totals(run.initial_field), rtol=1e-13)


def test_weight_is_that_of_a_source_to_order_2():
    def weight(t, x, u):
        return -jnp.stack([0 * u[0], u[0], u[1]])

    apart = []
    for n in (50, 100):
        ends = [
            ds.simulate(run, 0.2, STEPS).states
            for run in (bubble(n, -1.0), bubble(n, None, weight=weight))
        ]
        apart.append(float(jnp.mean(jnp.abs(ends[0] - ends[1]))))
    assert apart[0] <= 2e-3
    assert apart[1] <= 0.35 * apart[0]


@pytest.mark.parametrize("pressure", [1e-2, 1e-8])
def test_cold_gas_falls_by_its_weight(pressure):
    """v = −t, where scale heights are shorter than a cell."""

    def profile(x):
        return jnp.ones_like(x), jnp.full_like(x, pressure)

    run = atmosphere(50, profile, walls=pde.Outflow())
    rho, momentum, _ = ds.simulate(run, 0.1).states[:, 20:30]
    np.testing.assert_allclose(momentum / rho, -0.1, rtol=1e-12)


def test_derivative_by_gravity_is_that_of_differences():
    """Of air that falls: at rest a limiter has no derivative, see `MUSCL`."""

    def profile(x):
        return jnp.exp(-0.7 * x) + 0.1 * jnp.sin(9 * x), jnp.exp(-0.5 * x)

    def after(g):
        run = atmosphere(20, profile, gravity=g)
        return jnp.sum(ds.simulate(run, 0.2, STEPS).states[1] ** 2)

    slope = jax.grad(after)(-1.0)
    np.testing.assert_allclose(jax.jvp(after, (-1.0,), (1.0,))[1], slope, rtol=1e-10)
    by_differences = (after(-1 + 1e-5) - after(-1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, by_differences, rtol=1e-7)


@pytest.mark.parametrize(
    ("gravity", "walls", "words"),
    [
        ((0.0, -1.0), pde.ReflectingWall(), r"one number an axis, shape \(1,\)"),
        (-1.0, pde.Periodic(), "gravity must be 0 along a periodic axis"),
    ],
)
def test_gravity_that_does_not_fit_is_refused(gravity: Any, walls, words):
    gas = pde.Euler(gravity=gravity)
    start = gas.state(jnp.ones(8), 0.0, 1.0)
    with pytest.raises(ValueError, match=words):
        pde.Evolution(gas, start, pde.Grid(8), walls)
