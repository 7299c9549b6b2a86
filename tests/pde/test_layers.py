"""Coefficients that jump from cell to cell conduct as layers do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde
from diffsim.pde import _finite_volume
from diffsim.verify import taylor_test


#: Cells that are worse or better conductors than the others.
LAYERS = {
    "one": [4],
    "two": [4, 5],
    "two apart": [2, 7],
    "at the wall": [0],
    "behind that at the wall": [1],
    "half": [5, 6, 7, 8, 9],
}


def conducted(k, grid, **options):
    """What passes a bar between 1 and 0, in the steady state."""
    bar = pde.Domain(grid, (pde.Dirichlet(1.0), pde.Dirichlet(0.0)))
    u = pde.poisson(jnp.zeros(grid.shape), bar, coefficient=k, **options)
    spacing = grid.spacing[0]
    on_wall = k[0][0] if isinstance(k, tuple) else k[0]
    return on_wall * (1 - u[0]) / (spacing / 2)


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_conducts_as_it_does_one_behind_the_other(layer):
    grid = pde.Grid(10)

    @jax.jit
    @jax.vmap
    def passing(inside):
        return conducted(jnp.ones(10).at[jnp.array(LAYERS[layer])].set(inside), grid)

    inside = 10.0 ** np.arange(-9, 3)
    part = len(LAYERS[layer]) / 10
    exact = 1 / (1 - part + part / inside)
    np.testing.assert_allclose(passing(inside), exact, rtol=1e-5)


@pytest.mark.parametrize(
    "solver", [pde.Multigrid(), pde.PreconditionedKrylov(), pde.FastDiagonalization()]
)
def test_layer_in_a_plane_conducts_with_every_solver(solver):
    plane = pde.Grid((32, 32))
    walls = (pde.Dirichlet(1.0), pde.Dirichlet(0.0)), pde.Neumann()
    k = jnp.ones((32, 32)).at[10].set(1e-3)
    if isinstance(solver, pde.FastDiagonalization):
        solver = pde.PreconditionedKrylov(solver)
    u = pde.poisson(
        jnp.zeros((32, 32)), pde.Domain(plane, walls), coefficient=k, solver=solver
    )
    exact = 1 / (31 / 32 + 1 / 32 / 1e-3)
    np.testing.assert_allclose((1 - u[0]) * 64, exact, rtol=1e-8)


def test_diffusion_and_advection_diffusion_see_the_layer():
    """In time, to the steady state; with a function that does not read u as well."""
    line = pde.Grid(10)
    k = jnp.ones(10).at[4].set(1e-2)
    given = [k, lambda t, x, u: jnp.where(jnp.abs(x[0] - 0.45) < 0.05, 1e-2, 1.0)]
    laws = pde.Diffusion(given[0]), pde.AdvectionDiffusion(given[1], 0.0)
    walls = (pde.Dirichlet(1.0), pde.Dirichlet(0.0))
    for law in laws:
        u = pde.steady_state(pde.Evolution(law, jnp.zeros(10), line, walls))[0]
        exact = 1 / (0.9 + 0.1 / 1e-2)
        np.testing.assert_allclose((1 - u[0]) * 20, exact, rtol=1e-8)


def test_wave_returns_from_a_layer_by_its_impedance():
    """(Z₁ − Z₂)/(Z₁ + Z₂) with Z = c, for u'' = ∇·c²∇u."""
    line = pde.Grid(1000, 0.0, 10.0)
    speed = lambda x: jnp.where(x[0] < 5, 1.0, 3.0)  # noqa: E731

    def pulse(x):
        u = jnp.exp(-(((x[0] - 3.5) / 0.25) ** 2))
        slope = -2 * (x[0] - 3.5) / 0.25**2 * u
        return jnp.stack([u, -slope])  # towards the right

    run = pde.Evolution(pde.Wave(speed), pulse, line, pde.Outflow())
    method = ds.Method(integrators.Leapfrog(), 0.003)
    u = ds.simulate(run, 2.5, method)["u"]
    np.testing.assert_allclose(jnp.min(u[:500]), (1 - 3) / (1 + 3), rtol=3e-3)
    np.testing.assert_allclose(jnp.max(u[500:]), 2 / (1 + 3), rtol=3e-3)


@pytest.mark.parametrize("mean", ["harmonic", "arithmetic"])
def test_smooth_coefficients_keep_order_two(mean):
    """u = sin x between walls, k = 2 + cos 3x, which varies at both of them."""

    def error(n):
        grid = pde.Grid(n, 0.3, 2.6)
        x = grid.centers[0]
        ends = np.sin([0.3, 2.6])
        bar = pde.Domain(grid, tuple(map(pde.Dirichlet, ends)))
        k = 2 + jnp.cos(3 * x)
        f = 3 * jnp.sin(3 * x) * jnp.cos(x) + k * jnp.sin(x)
        u = pde.poisson(f, bar, coefficient=k, face_mean=mean)
        return jnp.max(jnp.abs(u - jnp.sin(x)))

    rates = np.log2(error(64) / error(128)), np.log2(error(128) / error(256))
    np.testing.assert_allclose(rates, 2, atol=0.1)


def test_front_of_a_porous_medium_moves():
    """Barenblatt's solution of ∂u/∂t = ∇·(u ∇u), which a harmonic mean would stop."""

    def exact(t, x):
        return jnp.maximum(1 - x**2 / (6 * t ** (2 / 3)), 0) / t ** (1 / 3)

    line = pde.Grid(200, -6.0, 6.0)
    x = line.centers[0]
    law = pde.Diffusion(lambda t, x, u: jnp.maximum(u, 1e-6))
    run = pde.Evolution(law, exact(1.0, x), line, pde.Neumann())
    u = ds.simulate(run, 2.0, ds.Method(integrators.SSPRK3(), 0.001)).states[0]
    np.testing.assert_allclose(u, exact(3.0, x), atol=0.02)


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_derivatives_by_uniform_and_linear_coefficients(slope):
    """Where an inverse problem begins: no mean onto walls may have a kink there."""
    bar = pde.Grid(6)
    walls = pde.Domain(bar, (pde.Dirichlet(0.3), pde.Neumann(0.5)))

    def heated(k):
        return pde.diffusion(jnp.sin(3 * bar.centers[0]), k, walls)

    found = taylor_test(heated, 0.3 + slope * bar.centers[0])
    assert found.passed, found


def test_coefficients_on_faces_are_taken_as_they_are():
    grid, rng = pde.Grid((6, 5)), np.random.default_rng(0)
    walls = pde.Domain(grid, (pde.Periodic(), pde.Dirichlet(0.5)))
    k = jnp.asarray(rng.uniform(0.5, 2.0, (6, 5)))
    faces = tuple(_finite_volume.values_on_faces(k, walls, k.dtype))
    u = jnp.asarray(rng.normal(size=(6, 5)))
    np.testing.assert_allclose(
        pde.diffusion(u, faces, walls), pde.diffusion(u, k, walls), rtol=1e-13
    )
    np.testing.assert_allclose(
        pde.poisson(u, walls, coefficient=faces),
        pde.poisson(u, walls, coefficient=k),
        rtol=1e-9,
    )
    both = [
        ds.simulate(pde.Evolution(law, u, grid, walls.boundary), 0.01).states
        for law in (pde.Diffusion(faces), pde.Diffusion(k))
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-9, atol=1e-12)


#: Pairs of cells: alike, apart, of no conduction, of both signs.
PAIRS = [(1.0, 2.0), (1e-9, 1.0), (0.0, 2.0), (-1.0, -3.0), (-1.0, 2.0), (0.0, 0.0)]


@pytest.mark.parametrize("pair", PAIRS)
def test_derivative_through_the_mean_is_right(pair):
    ring = pde.Domain(pde.Grid(2))

    def on_face(k):
        return _finite_volume.values_on_faces(k, ring, k.dtype)[0][1]

    a, b = pair
    k = jnp.array(pair)
    exact = 2 * a * b / (a + b) if a * b > 0 else (0 if a * b == 0 else (a + b) / 2)
    np.testing.assert_allclose(on_face(k), exact, rtol=1e-15)
    forward, reverse = jax.jacfwd(on_face)(k), jax.jacrev(on_face)(k)
    np.testing.assert_allclose(forward, reverse, rtol=1e-15)
    slopes = [2 * (b / (a + b)) ** 2, 2 * (a / (a + b)) ** 2] if a + b else [0.5, 0.5]
    if a * b < 0:
        slopes = [0.5, 0.5]
    np.testing.assert_allclose(reverse, slopes, rtol=1e-14)
