"""Positivity: strong shocks, near vacua and dry beds, and their derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


SCHEMES = [pde.MUSCL(), pde.WENO5()]
NAMES = ["MUSCL", "WENO5"]

#: Cells, γ and end of the grid; left and right (ρ, v, p), their border, the time.
TUBES = {
    "Toro 2": ((100, 1.4, 1.0), ((1.0, -2.0, 0.4), (1.0, 2.0, 0.4)), 0.5, 0.15),
    "near vacuum": ((100, 1.4, 1.0), ((1.0, -4.0, 0.4), (1.0, 4.0, 0.4)), 0.5, 0.05),
    "LeBlanc": (
        (100, 5 / 3, 9.0),
        ((1.0, 0.0, 0.2 / 3), (1e-3, 0.0, 2e-10 / 3)),
        3.0,
        6.0,
    ),
    "pressures 1e5": ((100, 1.4, 1.0), ((1.0, 0.0, 1e5), (1.0, 0.0, 1.0)), 0.5, 7e-4),
    "cold streams": (
        (100, 1.4, 1.0),
        ((1.0, 20.0, 1e-4), (1.0, -20.0, 1e-4)),
        0.5,
        0.02,
    ),
}
#: Where densities of 6400 cells are largest, by minmod without `positivity_limiter`.
PEAKS = 0.6476, 0.7759
GRAVITY = 9.81


def gas(n, width, boundary, start, gamma=1.4, **options):
    grid, law = pde.Grid(n, 0.0, width), pde.Euler(gamma, **options)
    rho, v, p = start(grid.centers[0])
    return pde.Evolution(law, law.state(rho, v, p), grid, boundary)


def blast_waves(n, **options):
    """Woodward and Colella (1984), 10.1016/0021-9991(84)90142-6, to t = 0.038."""

    def start(x):
        p = jnp.where(x < 0.1, 1000.0, jnp.where(x < 0.9, 0.01, 100.0))
        return jnp.ones(n), jnp.zeros((1, n)), p

    return gas(n, 1.0, pde.ReflectingWall(), start, **options)


def smallest(run, state):
    return min(float(jnp.min(field)) for field in run.equation.positive(state))


def peaks(run):
    """Where the density is largest on either side of x = 0.7."""
    x = run.grid.centers[0]
    end = ds.simulate(run, 0.038)
    rho = end.states[0]
    assert smallest(run, end.states) > 0
    np.testing.assert_allclose(jnp.mean(rho), 1.0, rtol=1e-12)
    left, right = (jnp.argmax(jnp.where(part, rho, 0)) for part in (x < 0.7, x > 0.7))
    return np.asarray([x[left], x[right]])


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
def test_blast_waves_have_the_peaks_of_a_fine_grid(scheme):
    """6400 cells with minmod, which needs no limiter, have them at PEAKS."""
    found = peaks(blast_waves(400, scheme=scheme))
    np.testing.assert_allclose(found, PEAKS, rtol=0.02)


def test_blast_waves_are_lost_without_the_limiter():
    run = blast_waves(100, positivity_limiter=False)
    with pytest.raises(Exception, match="positivity_limiter=True keeps it"):
        ds.simulate(run, 0.038)


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
@pytest.mark.parametrize("name", first_plain(TUBES))
def test_gases_stay_positive(name, scheme):
    (n, gamma, width), sides, border, t = TUBES[name]

    def start(x):
        rho, v, p = (jnp.where(x < border, *pair) for pair in zip(*sides, strict=True))
        return rho, v[None], p

    tube = gas(n, width, pde.Outflow(), start, gamma, scheme=scheme)
    assert smallest(tube, ds.simulate(tube, t).states) > 0


def test_two_rarefactions_are_those_of_the_closed_form():
    """Toro (2009), table 4.1, test 2: fans from (1, ∓2, 0.4), equation 4.56."""
    run = gas(
        400,
        1.0,
        pde.Outflow(),
        lambda x: (
            jnp.ones(400),
            jnp.where(x < 0.5, -2.0, 2.0)[None],
            jnp.full(400, 0.4),
        ),
    )
    x = np.abs(np.asarray(run.grid.centers[0]) - 0.5) / 0.15
    sound = np.sqrt(1.4 * 0.4)
    fan = np.clip((sound - 0.2 * (2 - x)) / 1.2 / sound, 0, 1)
    exact = np.where(x > 2 + sound, 1.0, np.maximum(fan**5, 0.02185))
    found = ds.simulate(run, 0.15).states[0]
    assert np.mean(np.abs(found - exact)) <= 0.01 * np.mean(exact)


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
def test_derivatives_are_finite_behind_blast_waves(scheme):
    method = ds.Method(integrators.SSPRK3(), step=2e-5)

    def after(p):
        def start(x):
            return jnp.ones(50), jnp.zeros((1, 50)), jnp.where(x < 0.1, p, 0.01)

        run = gas(50, 1.0, pde.ReflectingWall(), start, scheme=scheme)
        return jnp.sum(ds.simulate(run, 0.01, method).states[0] ** 2)

    slope = jax.grad(after)(1000.0)
    np.testing.assert_allclose(jax.jvp(after, (1000.0,), (1.0,))[1], slope, rtol=1e-10)
    by_differences = (after(1000.1) - after(999.9)) / 0.2
    np.testing.assert_allclose(slope, by_differences, rtol=1e-3)


def pool(n, depth, bottom: Any = 0.0, width=1.0, boundary=None, **options):
    grid = pde.Grid(n, -width, width)
    law = pde.ShallowWater(GRAVITY, bottom, **options)
    h = depth(grid.centers[0])
    start = jnp.stack([h, 0 * h])
    return pde.Evolution(law, start, grid, boundary or pde.ReflectingWall())


def dam(n, **options):
    return pool(n, lambda x: jnp.where(x < 0, 1.0, 0.0), **options)


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
def test_dam_breaks_onto_a_dry_bed_as_ritter_has_it(scheme):
    """h = (2c − x/t)²/9g between −c and 2c, Ritter (1892); order 1 at the front."""
    t, c = 0.1, np.sqrt(GRAVITY)
    errors = []
    for n in (100, 200):
        run = dam(n, scheme=scheme, boundary=pde.Outflow())
        x = np.asarray(run.grid.centers[0]) / t
        exact = np.clip(2 * c - x, 0, 3 * c) ** 2 / (9 * GRAVITY)
        h = ds.simulate(run, t).states[0]
        assert jnp.min(h) >= 0
        errors.append(np.mean(np.abs(h - exact)))
    assert errors[1] <= 0.6 * errors[0] <= 0.004


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
def test_a_lake_with_an_island_stays_at_rest(scheme):
    """Over a slope, a wall and land above the level, to rounding."""

    def bottom(t, x):
        hill = 1.5 * jnp.exp(-40 * x[0] ** 2)
        return hill + jnp.where(x[0] > 0.7, 0.6, 0.0) + jnp.where(x[0] < -0.8, 2.0, 0.0)

    def depth(x):
        return jnp.maximum(1 - bottom(0.0, x[None]), 0)

    run = pool(60, depth, bottom, scheme=scheme)
    end = ds.simulate(run, 1.0).states
    np.testing.assert_allclose(end, run.initial_field, atol=1e-12)
    assert jnp.min(end[0]) >= 0


def test_water_sloshes_in_a_parabola_as_thacker_has_it():
    """A plane surface that swings with ω = √(2 g h₀), 10.1017/S0022112081001882."""
    h0, omega = 0.1, np.sqrt(2 * GRAVITY * 0.1)

    def depth(x):  # from rest, at the turn
        return jnp.maximum(h0 - omega**2 / 8 / GRAVITY + omega**2 / 2 / GRAVITY * x
                           - h0 * x**2, 0)  # fmt: skip

    errors = []
    for n in (50, 100):
        run = pool(n, depth, lambda t, x: h0 * x[0] ** 2, width=2.0)
        end = ds.simulate(run, 2 * np.pi / omega).states[0]
        start = run.initial_field[0]
        assert jnp.min(end) >= 0
        np.testing.assert_allclose(jnp.sum(end), jnp.sum(start), rtol=1e-12)
        errors.append(float(jnp.sum(jnp.abs(end - start)) / jnp.sum(start)))
    assert errors[1] <= 0.5 * errors[0]
    assert errors[1] <= 0.05


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
def test_derivatives_of_a_dry_bed_are_right(scheme):
    method = ds.Method(integrators.SSPRK3(), step=1e-3)

    def after(height):
        run = pool(50, lambda x: jnp.where(x < 0, height, 0.0), scheme=scheme)
        states = ds.simulate(run, 0.1, method).states
        return jnp.sum(states[0] ** 2 * run.grid.centers[0]) + jnp.sum(states[1])

    slope = jax.grad(after)(1.0)
    np.testing.assert_allclose(jax.jvp(after, (1.0,), (1.0,))[1], slope, rtol=1e-10)
    by_differences = (after(1 + 1e-5) - after(1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, by_differences, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:step=:UserWarning")
def test_depths_below_zero_end_the_run():
    run = dam(40)
    with pytest.raises(Exception, match="lost positivity of depth"):
        ds.simulate(run, 1.0, ds.Method(integrators.SSPRK3(), step=0.05))


def test_laws_may_name_positive_fields_without_channels():
    class Named(pde.Burgers):
        positive_fields = ("speed",)

        def positive(self, u):
            return (u[0],)

    law: Any = Named
    sides = pde.Inflow(1.0), pde.Outflow()
    run = pde.Evolution(law(), jnp.ones(16), pde.Grid(16), sides)
    np.testing.assert_allclose(ds.simulate(run, 0.1).states, 1.0, rtol=1e-12)


@pytest.mark.parametrize("depth", [0.0, -1.0])
def test_dry_depths_that_are_not_positive_are_refused(depth):
    with pytest.raises(ValueError, match="dry_depth must be positive"):
        pde.ShallowWater(dry_depth=depth)
