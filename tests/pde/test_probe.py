"""Fields at any points: exact for polynomials, walls and corners among them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import pde


TURN = 2 * np.pi


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def cubic(x):
    """Of degree three along every axis at once."""
    first, *others = (1 + a - 2 * a**2 + (1 + i) * a**3 for i, a in enumerate(x))
    return math.prod(others, start=first)


def slope(axis, sign, t, x):
    """Of `cubic` along the outward normal."""
    along = jnp.zeros_like(x).at[axis].set(1.0)
    return sign * jax.jvp(cubic, (x,), (along,))[1]


def conditions(ndim):
    """One of each kind, with the value of `cubic`."""
    kinds = [
        (pde.Dirichlet(lambda t, x: cubic(x)), pde.Outflow()),
        (
            pde.Neumann(lambda t, x: slope(1, -1, t, x)),
            pde.Robin(2.0, 0.5, lambda t, x: 2 * cubic(x) + 0.5 * slope(1, 1, t, x)),
        ),
        (pde.Inflow(1.0), pde.Dirichlet(lambda t, x: cubic(x))),
    ]
    return tuple(kinds[:ndim])


@pytest.mark.parametrize("ndim", first_plain([3, 1, 2]))
def test_probes_are_exact_for_cubic_polynomials_up_to_the_corners(ndim):
    lower, upper = np.array([0.1, 0.2, -0.3])[:ndim], np.array([1.3, 1.1, 0.5])[:ndim]
    grid = pde.Grid((5, 6, 4)[:ndim], lower, upper)
    domain = pde.Domain(grid, conditions(ndim))
    inside = np.random.default_rng(0).uniform(lower, upper, (20, ndim))
    ends = np.stack(np.meshgrid(*zip(lower, upper, strict=True)), -1)
    points = np.concatenate([inside, ends.reshape(-1, ndim)])
    found = jax.jit(lambda u: pde.probe(u, points, domain))(cubic(grid.centers))
    np.testing.assert_allclose(found, cubic(points.T), rtol=1e-12)


def test_linear_probes_are_exact_for_planes():
    grid = pde.Grid((3, 4))
    plane = lambda x: 1 + 2 * x[0] - x[1]  # noqa: E731
    domain = pde.Domain(grid, pde.Dirichlet(lambda t, x: plane(x)))
    points = np.random.default_rng(1).uniform(size=(3, 5, 2))
    found = pde.probe(plane(grid.centers), points, domain, order=2)
    np.testing.assert_allclose(found, plane(np.moveaxis(points, -1, 0)), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 4])
def test_probes_and_derivatives_have_their_order(order):
    points = np.random.default_rng(2).uniform(size=(200, 2))
    points[:20, 0] = 0.0

    def field(x):
        return jnp.sin(3 * x[0]) * jnp.exp(jnp.cos(TURN * x[1]))

    def errors(n):
        grid = pde.Grid((n, n))
        wall = pde.Dirichlet(lambda t, x: field(x))
        domain = pde.Domain(grid, (wall, pde.Periodic()))

        def probed(x):
            return pde.probe(field(grid.centers), x, domain, order=order)

        found = jax.jit(jax.vmap(jax.value_and_grad(probed)))(jnp.asarray(points))
        exact = jax.vmap(jax.value_and_grad(field))(jnp.asarray(points))
        pairs = zip(found, exact, strict=True)
        return [np.sqrt(np.mean((a - b) ** 2)) for a, b in pairs]

    # A slope at the wall or anywhere else has one order less.
    falls = np.log2(np.divide(errors(64), errors(128)))
    np.testing.assert_allclose(falls, [order, order - 1], atol=0.15)


def test_probe_at_boundary_returns_prescribed_value():
    """Of any field, even one that has nothing to do with it."""
    grid = pde.Grid((5, 4))
    heat = pde.Dirichlet(lambda t, x: t * (1 + x[1]))
    domain = pde.Domain(grid, ((heat, pde.Neumann()), pde.Periodic()))
    points, times = [[0.0, 0.4], [0.0, 0.99]], jnp.asarray([1.0, 2.0, 3.0])
    u = random(3, 1, 5, 4)
    found = pde.probe(u, points, domain, times)
    assert found.shape == (3, 1, 2)
    # The wall's own value is interpolated along it, periodically: exact in its cells.
    centers = [[0.0, 0.375], [0.0, 0.875]]
    found = pde.probe(u, centers, domain, times)
    exact = np.outer(times, [1.375, 1.875])[:, None]
    np.testing.assert_allclose(found, exact, rtol=1e-13)
    each = [pde.probe(a, points, domain, t) for a, t in zip(u, times, strict=True)]
    np.testing.assert_allclose(pde.probe(u, points, domain, times), each, rtol=1e-14)


def test_probes_wrap_at_periodic_sides():
    grid = pde.Grid((6, 5), 0.5, (1.5, 2.0))
    domain, u = pde.Domain(grid), random(6, 5)
    x = np.array([0.7, 0.6])
    around = [x, x + [1.0, 0.0], x - [3.0, 1.5]]
    np.testing.assert_allclose(
        pde.probe(u, around, domain), 3 * [pde.probe(u, x, domain)], rtol=1e-13
    )
    centers = np.moveaxis(grid.centers, 0, -1)
    np.testing.assert_allclose(pde.probe(u, centers, domain), u, atol=1e-14)


def test_probes_of_a_flow_fulfil_its_boundary_conditions():
    grid = pde.Grid((6, 5))
    lid = pde.NoSlip((0.7, 0.0))
    flow = pde.IncompressibleFlow(0.1, grid, (pde.FreeSlip(), (pde.NoSlip(), lid)))
    points = [[0.4, 0.0], [0.4, 1.0], [0.0, 0.5]]
    u = random(2, 6, 5)
    found = pde.probe(u, points, flow.domain)
    np.testing.assert_allclose(found[:, :2], [[0, 0.7], [0, 0]], atol=1e-14)
    np.testing.assert_allclose(found[0, 2], 0, atol=1e-14)
    # Along a free wall the velocity is even in it.
    step = 1e-4
    beside = pde.probe(u, [[step, 0.5], [2 * step, 0.5]], flow.domain)[1]
    np.testing.assert_allclose(beside - found[1, 2], [step**2, 4 * step**2], atol=1e-5)


def test_derivatives_of_probes_are_correct_in_both_modes():
    points = jnp.asarray([[0.31, 0.42], [0.05, 0.97]])

    def value(given):
        u, points, wall, upper = given
        walls = (pde.Dirichlet(wall), pde.Robin(1.0, wall, 0.3))
        domain = pde.Domain(pde.Grid((5, 4), 0.0, upper), walls)
        return jnp.sum(jnp.sin(pde.probe(u, points, domain)))

    given = random(5, 4), points, jnp.asarray(0.7), jnp.asarray([1.1, 1.2])
    along = jax.tree.map(lambda a: random(*a.shape, seed=3), given)
    slope = jax.jit(lambda g: jax.jvp(value, (g,), (along,))[1])(given)
    bars = jax.jit(jax.grad(value))(given)
    back = sum(jnp.vdot(a, b) for a, b in zip(bars, along, strict=True))
    np.testing.assert_allclose(back, slope, rtol=1e-12)
    moved = [
        jax.jit(value)(jax.tree.map(lambda a, b, s=s: a + s * 1e-5 * b, given, along))
        for s in (1, -1)
    ]
    # What is left of a central difference is its third derivative and rounding.
    np.testing.assert_allclose((moved[0] - moved[1]) / 2e-5, slope, rtol=1e-7)


def test_traced_probe_beyond_boundary_is_nan():
    grid = pde.Grid((5, 5))
    domain = pde.Domain(grid, (pde.Periodic(), pde.Neumann()))
    points = jnp.asarray([[2.2, 0.5], [0.5, 1.01], [0.5, jnp.nan]])
    found = jax.jit(lambda x: pde.probe(random(5, 5), x, domain))(points)
    np.testing.assert_array_equal(np.isnan(found), [False, True, True])
    for given in (points[:2], np.asarray(points[:2]).tolist()):
        with pytest.raises(ValueError, match=r"lie within the domain.* 1\.01"):
            jax.jit(lambda u, x=given: pde.probe(u, x, domain))(random(5, 5))


@pytest.mark.slow
def test_batched_probes_match_single_ones_and_keep_float32():
    domain = pde.Domain(pde.Grid((5, 4)), (pde.Robin(1.0, 2.0, 0.3), pde.Periodic()))
    u = random(3, 1, 5, 4)

    def probed(u):
        return pde.probe(u, [[0.1, 0.2], [0.9, 0.8]], domain)

    each = jnp.stack([probed(a) for a in u])
    np.testing.assert_allclose(probed(u), each, rtol=1e-14)
    np.testing.assert_allclose(jax.vmap(probed)(u), each, rtol=1e-14)
    single = probed(u.astype(jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, each, atol=1e-6)
