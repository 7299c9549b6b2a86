"""Operators: order at every kind of boundary, and conservation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import pde


def exact(x):
    """A field without symmetry, of coordinates (axis, ...)."""
    return jnp.sin(2 * x[0] + 0.3) * jnp.exp(x[1]) + x[0] * x[1] ** 2


def along(axis):
    """Its derivative along an axis."""

    def slope(x):
        step = jnp.zeros_like(x).at[axis].set(1.0)
        return jax.jvp(exact, (x,), (step,))[1]

    return slope


def boundary(kind):
    def pair(axis):
        out = along(axis)
        if kind == "Dirichlet":
            return pde.Dirichlet(lambda t, x: exact(x)[None])
        if kind == "Neumann":
            return tuple(
                pde.Neumann(lambda t, x, s=s: s * out(x)[None]) for s in (-1, 1)
            )
        return tuple(
            pde.Robin(1.0, 0.5, lambda t, x, s=s: (exact(x) + s * out(x) / 2)[None])
            for s in (-1, 1)
        )

    return pair(0), pair(1)


def errors(kind, order, n):
    """Of the Laplacian inside, at the walls, and of the gradient everywhere."""
    grid = pde.Grid((n, n + 4), (0.0, 0.2), (1.0, 1.5))
    domain, x = pde.Domain(grid, boundary(kind)), grid.centers

    def trace(point):
        return jnp.trace(jax.hessian(exact)(point))

    u = exact(x)[None]
    true = jax.vmap(jax.vmap(trace))(jnp.moveaxis(x, 0, -1))
    laplacian = jnp.abs(pde.laplacian(u, domain, order=order)[0] - true)
    gradient = pde.gradient(u, domain, order=order)[:, 0]
    true = jnp.stack([along(0)(x), along(1)(x)])
    return jnp.stack(
        [
            jnp.max(laplacian[3:-3, 3:-3]),
            jnp.max(laplacian),
            jnp.max(jnp.abs(gradient - true)),
        ]
    )


@pytest.mark.parametrize("order", first_plain([4, 2]))
@pytest.mark.parametrize("kind", first_plain(["Robin", "Dirichlet", "Neumann"]))
def test_operators_have_their_order(kind, order):
    coarse, fine = (jax.jit(lambda n=n: errors(kind, order, n))() for n in (32, 64))
    inside, walls, gradient = np.log2(coarse / fine)
    assert abs(inside - order) < 0.12
    assert abs(gradient - order) < 0.12
    # Two orders less at a wall, or one, which solutions do not notice.
    assert walls > order - 2.1


def test_diffusion_conserves_mass_in_a_closed_box():
    grid = pde.Grid((7, 9), 0.0, (1.0, 2.0))
    x, y = grid.centers
    closed = pde.Domain(grid, (pde.Periodic(), pde.Neumann()))
    u = jnp.sin(5 * x) * y**2
    rate = pde.diffusion(u, 1 + x * y, closed)
    assert abs(jnp.sum(rate)) < 1e-11 * jnp.sum(jnp.abs(rate))
    lit = pde.Domain(grid, (pde.Periodic(), (pde.Neumann(), pde.Neumann(0.5))))
    gained = jnp.sum(pde.diffusion(u, 2.0, lit)) * grid.volume
    np.testing.assert_allclose(gained, 2.0 * 0.5 * 1.0, rtol=1e-11)


def test_arithmetic_face_coefficients_of_any_sign_are_means_of_both_cells():
    """Beside a wall the last cell's, or half of it where the line would turn."""
    u = jnp.asarray(np.random.default_rng(0).normal(size=(4, 5)))
    domain = pde.Domain(pde.Grid((4, 5)), pde.Neumann())
    found = pde.diffusion(u, -jnp.ones((4, 5)), domain)
    np.testing.assert_allclose(found, -pde.laplacian(u, domain), rtol=1e-12)
    line = pde.Domain(pde.Grid(3), pde.Dirichlet(0.0))
    u, dx = np.array([1.0, 3.0, 2.0]), 1 / 3
    for k, at in (
        ([-1.0, 0.5, 2.0], [-1.75, -0.25, 1.25, 2.75]),
        ([1.0, 3.5, 2.0], [0.5, 2.25, 2.75, 1.25]),
    ):
        fluxes = np.array(at) * np.array([2.0, 2.0, -1.0, -4.0]) / dx
        k = jnp.asarray(k)
        found = pde.diffusion(jnp.asarray(u), k, line, face_mean="arithmetic")
        np.testing.assert_allclose(found, np.diff(fluxes) / dx, rtol=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e-25])
def test_no_flux_through_boundary_beside_zero_diffusivity(size):
    """At any scale."""
    k = jnp.array([0.0, 1.0, 1.0, 1.0, 0.0], jnp.float32) * size
    walls = pde.Domain(pde.Grid(5), pde.Dirichlet(0.0))
    rate = pde.diffusion(jnp.ones(5, jnp.float32), k, walls)
    np.testing.assert_array_equal(rate, jnp.zeros(5))
    # The last cell's, where that is small.
    rate = pde.diffusion(jnp.ones(5, jnp.float32), k.at[0].set(0.1 * size), walls)
    np.testing.assert_allclose(rate / size, [-0.2 * 25, 0, 0, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("operator", [pde.laplacian, pde.gradient])
def test_integer_fields_are_converted(operator):
    line, u = pde.Domain(pde.Grid(6), pde.Dirichlet(2.0)), jnp.arange(6)
    np.testing.assert_array_equal(operator(u, line), operator(u.astype(float), line))


@pytest.mark.parametrize("kind", [pde.Dirichlet(), pde.Neumann(), pde.Periodic()])
def test_diffusion_is_symmetric(kind):
    grid = pde.Grid((5, 4))
    domain, (x, y) = pde.Domain(grid, kind), grid.centers

    def rate(u):
        return pde.diffusion(u, 1 + x + y**2, domain)

    matrix = jax.jit(jax.jacfwd(rate))(jnp.zeros(grid.shape)).reshape(20, 20)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12)


def test_pair_of_boundaries_serves_one_axis():
    pair = pde.Dirichlet(0.3), pde.Neumann(0.2)
    assert pde.Domain(pde.Grid(4), pair).boundary == (pair,)


def test_coordinates_of_centers_and_faces():
    grid = pde.Grid((2, 4), (0.0, 1.0), (1.0, 2.0))
    np.testing.assert_allclose(grid.spacing, [0.5, 0.25])
    np.testing.assert_allclose(grid.centers[0, :, 0], [0.25, 0.75])
    np.testing.assert_allclose(grid.faces(1)[1, 0], [1.0, 1.25, 1.5, 1.75, 2.0])
    np.testing.assert_allclose(grid.wall(0, 1)[:, 0, 0], [1.0, 1.125])
    np.testing.assert_allclose(grid.volume, 0.125)
