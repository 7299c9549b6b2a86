"""Boundary values that depend on u: radiation, Newton cooling, surface reactions."""

from functools import partial
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import diffsim as ds
from diffsim import RESULTS, integrators, pde


class Radiation(eqx.Module):
    """-∂u/∂n = ε (u⁴ - 1)."""

    emissivity: Array

    def __call__(self, t, x, u):
        return self.emissivity * (1 - u**4)


def bar(n, boundary, *, source=None, initial=1.5, diffusivity=1.0):
    law = pde.Diffusion(diffusivity, source=source)
    return pde.Evolution(law, jnp.full(n, initial), pde.Grid(n), boundary)


def radiating_slope(emissivity):
    """Slope of the line from 2 at x = 0 that radiates at x = 1."""
    found: Any = brentq(
        lambda s: s - emissivity * (1 - (2 + s) ** 4), -2, 0, xtol=1e-15
    )
    return float(found)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("shape", [(5,), (6, 5), (2, 5, 4)])
def test_linear_function_of_u_is_robin_boundary(shape, order):
    """g - h u = ∂u/∂n, with and without channels."""
    u = jnp.asarray(np.random.default_rng(0).normal(size=shape))
    grid = pde.Grid(shape[-2:])
    cooled = pde.Neumann(lambda t, x, u: x[0] + t - 2 * u)
    profile = pde.Robin(2.0, 1.0, lambda t, x: x[0] + t)
    pair = pde.Robin(0.5, 1.0, lambda t, x, u: x[0] + t - 1.5 * u), pde.Dirichlet()
    for nonlinear, linear in ((cooled, profile), (pair, (profile, pde.Dirichlet()))):
        one, other = (
            pde.laplacian(u, pde.Domain(grid, (side,) * grid.ndim), 0.3, order=order)
            for side in (nonlinear, linear)
        )
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(
    "n", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 9))]
)
def test_steady_bar_between_bath_and_radiation_is_a_line(n):
    ends = pde.Dirichlet(2.0), pde.Neumann(Radiation(jnp.asarray(1.0)))
    rod = bar(n, ends)
    exact = 2 + radiating_slope(1.0) * rod.grid.centers[0]
    np.testing.assert_allclose(pde.steady_state(rod)[0], exact, rtol=1e-11)


@pytest.mark.slow
def test_steady_heated_slab_between_radiating_walls_has_order_two():
    """u'' = -q: u = (1 + q/2)^¼ + q x (1 - x)/2."""
    errors = []
    for n in (8, 16):
        slab = bar(n, pde.Neumann(Radiation(jnp.asarray(1.0))), source=3.0)
        x = slab.grid.centers[0]
        exact = 2.5**0.25 + 1.5 * x * (1 - x)
        errors.append(np.max(np.abs(pde.steady_state(slab)[0] - exact)))
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.2


def test_stiff_radiation_is_stable_in_implicit_steps():
    """h = 1e4, steps of half a diffusion time, from a cold and from a hot bar."""
    ends = pde.Dirichlet(2.0), pde.Neumann(lambda t, x, u: 1e4 * (1 - u * abs(u) ** 3))
    rod = bar(16, ends, initial=2.0)
    exact = 2 + radiating_slope(1e4) * rod.grid.centers[0]
    for start in (0.1, 3.0):
        begun = eqx.tree_at(lambda r: r.initial, rod, jnp.full((1, 16), start))
        method = ds.Method(integrators.KenCarp5(), step=0.05)
        end = ds.simulate(begun, 2.0, method).states[0]
        np.testing.assert_allclose(end, exact, rtol=1e-8)


def test_explicit_steps_of_diffusion_bear_stiff_radiation():
    """The boundary is no stiffer than a Dirichlet, for which Δt = Δx²/3 is stable."""
    rod = bar(16, pde.Neumann(Radiation(jnp.asarray(1e4))), initial=2.0)
    end = ds.simulate(rod, 1.5, ds.Method(diffrax.Heun(), step=1 / 768)).states[0]
    np.testing.assert_allclose(end, 1.0, atol=1e-5)


def test_body_of_one_cell_cools_by_newtons_law():
    """A lump: u' = -2 h(w), w that of the surface half a cell away."""
    rod = bar(1, pde.Neumann(lambda t, x, u: -0.1 * jnp.sinh(u)), initial=2.0)

    def surface(u):
        return brentq(lambda w: w - u + 0.05 * np.sinh(w), -u, u, xtol=1e-14)

    def rate(t, u):
        return [-0.2 * np.sinh(surface(u[0]))]

    exact = solve_ivp(rate, (0, 3), [2.0], rtol=1e-10, atol=1e-12).y[0, -1]
    np.testing.assert_allclose(ds.simulate(rod, 3.0).states[0], exact, rtol=1e-6)


def manufactured(t, x):
    """u, ∂u/∂x, ∂u/∂t and ∂²u/∂x² of 2 + sin(2x - t)."""
    phase = 2 * x - t
    return 2 + jnp.sin(phase), 2 * jnp.cos(phase), -jnp.cos(phase), -4 * jnp.sin(phase)


def manufactured_sides(kind):
    def value(sign):
        def law(t, x, u):
            exact, slope, _, _ = manufactured(t, x[0])
            linear = 0.7 * exact + 0.4 * sign * slope if kind is pde.Robin else 0
            return exact**4 - u**4 + (linear if kind is pde.Robin else sign * slope)

        return law

    make = partial(pde.Robin, 0.7, 0.4) if kind is pde.Robin else pde.Neumann
    return make(value(-1)), make(value(1))


@pytest.mark.parametrize(
    "kind", [pde.Neumann, pytest.param(pde.Robin, marks=pytest.mark.slow)]
)
def test_time_dependent_radiation_has_order_two(kind):
    def source(t, x, u):
        _, _, rate, curvature = manufactured(t, x[0])
        return rate - 0.3 * curvature

    def error(n):
        grid = pde.Grid(n)
        x = grid.centers[0]
        law = pde.Diffusion(0.3, source=source)
        run = pde.Evolution(
            law, manufactured(0.0, x)[0], grid, manufactured_sides(kind)
        )
        return np.max(np.abs(ds.simulate(run, 0.5).states[0] - manufactured(0.5, x)[0]))

    assert abs(np.log2(error(12) / error(24)) - 2) < 0.2


def plane_error(n):
    """u = 2 + sin(x + y - t) between walls that radiate in x and cool in y."""
    grid = pde.Grid((n, n))
    x, y = grid.centers

    def sides(axis):
        def law(sign):
            def value(t, x, u):
                phase = x[0] + x[1] - t
                exact = 2 + jnp.sin(phase)
                power = 4 if axis == 0 else 2
                return exact**power - u**power + sign * jnp.cos(phase)

            return value

        return pde.Neumann(law(-1)), pde.Neumann(law(1))

    def source(t, x, u):
        phase = x[0] + x[1] - t
        return -jnp.cos(phase) + 2 * jnp.sin(phase)

    law = pde.AdvectionDiffusion(1.0, velocity=(0.0, 0.0), source=source)
    plate = pde.Evolution(law, 2 + jnp.sin(x + y), grid, (sides(0), sides(1)))
    return np.max(np.abs(ds.simulate(plate, 0.1).states[0] - 2 - jnp.sin(x + y - 0.1)))


@pytest.mark.slow
def test_radiation_has_order_two_in_two_dimensions():
    assert abs(np.log2(plane_error(8) / plane_error(16)) - 2) < 0.2


def heated_plate(shape=(6, 5)):
    def law(t, x, u):
        return (1 + x[0] * x[1]) * (1 - u**4)

    walls = pde.Neumann(law), pde.Robin(0.5, 1.0, law)
    return pde.Evolution(
        pde.Diffusion(0.5), jnp.full(shape, 2.0), pde.Grid(shape), walls
    )


@pytest.mark.slow
def test_implicit_and_explicit_steps_agree_on_a_plate():
    """Both integrate the same semi-discrete equation; by their tolerances."""
    method = ds.Method(diffrax.Tsit5(), step=1e-3)
    exact = ds.simulate(heated_plate(), 0.1, method)
    found = ds.simulate(heated_plate(), 0.1)
    np.testing.assert_allclose(found.states, exact.states, rtol=1e-6)


@pytest.mark.slow
def test_steady_plate_of_stiff_radiation_is_found():
    def law(t, x, u):
        return 1e4 * (1 + x[0]) * (1 - u * jnp.abs(u) ** 3)

    heated = pde.Diffusion(1.0, source=1.0)
    walls = pde.Neumann(law), pde.Neumann(law)
    plate = pde.Evolution(heated, jnp.ones((12, 10)), pde.Grid((12, 10)), walls)
    cold = pde.Domain(plate.grid, pde.Dirichlet(1.0))
    found = pde.steady_state(plate)[0]
    # The surface is 1e-4 hotter than its surroundings, at most.
    np.testing.assert_allclose(found, pde.poisson(jnp.ones((12, 10)), cold), atol=1e-4)


def test_surface_reaction_couples_channels():
    """A turns into B at the wall, 2 A → B: A + 2 B is kept."""

    class Pair(pde.AbstractReactionDiffusion):
        @property
        def nonlinearity_degree(self):
            return 1

        @property
        def diffusivities(self):
            return (1.0, 0.3)

        def reaction(self, t, x, u):
            return None

    def wall(t, x, u):
        rate = 5 * u[0] ** 2 / (1 + u[1])
        # The flux is D ∂u/∂n.
        return jnp.stack([-rate, rate / 2 / 0.3])

    ends = pde.Neumann(), pde.Neumann(wall)
    start = jnp.stack([jnp.ones(6), 0.1 * jnp.ones(6)])
    cell = pde.Evolution(Pair(), start, pde.Grid(6), ends)
    run = ds.simulate(cell, [0.3, 1.0])
    explicit = ds.simulate(cell, [0.3, 1.0], ds.Method(diffrax.Tsit5(), step=1e-3))
    np.testing.assert_allclose(run.states, explicit.states, rtol=1e-6)
    totals = jnp.mean(run.states, -1) @ jnp.array([1.0, 2.0])
    np.testing.assert_allclose(totals, 1.2, rtol=1e-10)
    assert np.max(run.states[-1, 0]) < 0.7


def end_of_bar(parameters, method):
    emissivity, air = parameters
    ends = (
        pde.Neumann(Radiation(emissivity)),
        pde.Robin(0.5, 1.0, lambda t, x, u: air**4 - u**4),
    )
    run = ds.simulate(bar(5, ends), 0.1, method)
    return jnp.sum(run.states[0] ** 2 * jnp.arange(1.0, 6.0))


EXPLICIT = ds.Method(diffrax.Heun(), step=0.01)
IMPLICIT = ds.Method(integrators.KenCarp5(), step=0.05)


@pytest.mark.parametrize("method", [EXPLICIT, IMPLICIT], ids=["explicit", "implicit"])
def test_derivatives_by_parameters_of_a_law_are_correct(method):
    """One float in a module, one array that a function closes over."""

    def value(p):
        return end_of_bar(p, method)

    p, v = jnp.array([0.8, 1.1]), jnp.array([0.3, -0.7])
    run = jax.jit(lambda p: (value(p), jax.grad(value)(p), jax.jacfwd(value)(p)))
    at, reverse, forward = run(p)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)
    left = [abs(run(p + h * v)[0] - at - h * reverse @ v) for h in (1e-2, 1e-3)]
    assert abs(np.log10(left[0] / left[1]) - 2) < 0.1


@pytest.mark.parametrize(
    "method",
    [EXPLICIT, pytest.param(IMPLICIT, marks=pytest.mark.slow)],
    ids=["explicit", "implicit"],
)
def test_runs_by_a_law_are_the_same_compiled_and_batched(method):
    def value(p):
        return end_of_bar(p, method)

    several = jnp.array([[0.8, 1.1], [0.9, 1.2]])
    alone = [value(p) for p in several]
    np.testing.assert_allclose(jax.jit(value)(several[0]), alone[0], rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(value)(several), alone, rtol=1e-10)


def test_third_derivative_of_boundary_is_correct():
    """The wall's u solves u + u⁴ q = p: its derivatives by p are those of the root."""

    def ghost(p):
        line = pde.Domain(pde.Grid(2), pde.Neumann(lambda t, x, u: -(u**4)))
        return pde.laplacian(p * jnp.ones(2), line)[0]

    derivative, p, h = jax.grad(jax.jacfwd(ghost)), 1.3, 1e-4
    slope = (derivative(p + h) - derivative(p - h)) / (2 * h)
    np.testing.assert_allclose(jax.jacfwd(derivative)(p), slope, rtol=1e-6)


@pytest.mark.slow
def test_steady_state_has_derivatives_by_parameters_of_a_law():
    def value(emissivity):
        ends = pde.Dirichlet(2.0), pde.Neumann(Radiation(emissivity))
        return pde.steady_state(bar(4, ends))[0, -1]

    slope, h = jax.jit(jax.grad(value))(0.7), 1e-5
    line = [(7 / 8) * radiating_slope(e) for e in (0.7 - h, 0.7 + h)]
    np.testing.assert_allclose(slope, (line[1] - line[0]) / (2 * h), rtol=1e-7)


def test_single_precision_stays_and_bears_stiff_radiation():
    grid = pde.Grid(16, np.float32(0), np.float32(1))
    law = pde.Neumann(lambda t, x, u: 1e4 * (1 - u**4))
    rod = pde.Evolution(pde.Diffusion(1.0), jnp.full(16, 2.0, np.float32), grid, law)
    end = ds.simulate(rod, 2.0).states
    assert end.dtype == jnp.float32
    np.testing.assert_allclose(end, 1, atol=1e-5)


def test_probe_fulfils_the_law_at_the_wall():
    rod = bar(8, (pde.Dirichlet(2.0), pde.Neumann(Radiation(jnp.asarray(1.0)))))
    u = 2 + radiating_slope(1.0) * rod.grid.centers
    np.testing.assert_allclose(
        pde.probe(u, [1.0], rod.domain), 2 + radiating_slope(1.0), rtol=1e-12
    )


def test_function_may_return_one_number_or_ignore_u():
    found = [
        pde.laplacian(jnp.ones((2, 4)), pde.Domain(pde.Grid(4), side))
        for side in (pde.Neumann(lambda t, x, u: 0.3), pde.Neumann(0.3))
    ]
    np.testing.assert_allclose(*found, rtol=1e-13)


def wall(law):
    return lambda: bar(4, pde.Neumann(law))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            wall(lambda t, x, u: jnp.ones(3)),
            r"lower side of axis 0 .* got shape \(3,\)",
        ),
        (wall(lambda t, x, u: jnp.sqrt(-u)), "must be finite"),
        (wall(lambda t: t), r"value must take \(t, x\), got a function of \(t\)"),
        (wall(lambda t, x, u, v: u), r"value must take \(t, x\)"),
        (
            lambda: pde.Dirichlet(lambda t, x, u: u),
            r"value must take \(t, x\), got a function of \(t, x, u\)",
        ),
        (
            lambda: pde.poisson(
                jnp.ones(4),
                pde.Domain(
                    pde.Grid(4), (pde.Dirichlet(), pde.Neumann(Radiation(jnp.ones(()))))
                ),
            ),
            r"do not depend on u.* got a function of \(t, x, u\); pde.steady_state",
        ),
    ],
)
def test_what_no_boundary_can_do_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_law_that_couples_places_fails_loudly():
    law = pde.Neumann(lambda t, x, u: -jnp.mean(u) * jnp.ones_like(u))
    plate = pde.Evolution(pde.Diffusion(1.0), jnp.ones((4, 5)), pde.Grid((4, 5)), law)
    method = ds.Method(diffrax.Heun(), step=1e-3)
    assert ds.simulate(plate, 0.01, method, throw=False).result != RESULTS.successful


def test_waves_reflect_from_a_nonlinear_spring():
    """∂u/∂n = -u³ in steps of Leapfrog: ½∫u'² + ½∫u_x² + u⁴/4 at the end is kept."""
    grid = pde.Grid(64)
    start = jnp.stack([jnp.sin(np.pi * grid.centers[0] / 2) ** 2, jnp.zeros(64)])
    ends = pde.Dirichlet(0.0), pde.Neumann(lambda t, x, u: -(u**3))
    string = pde.Evolution(pde.Wave(1.0), start, grid, ends)
    run = ds.simulate(string, [0.0, 0.7, 1.9], ds.Method(integrators.Leapfrog(), 0.005))
    u, v = run.states[:, 0], run.states[:, 1]
    end = pde.probe(u, [1.0], string.domain, run.times)
    slopes = jnp.diff(u, axis=-1, prepend=0 * u[:, :1]) * 64
    slopes = slopes.at[:, 0].multiply(2 * 0.5**0.5)
    total = jnp.mean(v**2 + slopes**2, -1) / 2 + end**4 / 4
    np.testing.assert_allclose(total, total[0], rtol=5e-3)
