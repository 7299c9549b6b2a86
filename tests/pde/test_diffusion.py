"""Diffusion: exact for its discrete operator, of order two for the continuous one."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import pde
from diffsim.verify import check_simulation


EXPLICIT = ds.Method(diffrax.Heun(), step=5e-4)


def test_a_wave_decays_at_the_rate_of_the_discrete_operator():
    """μ = 2 D (cos k Δx − 1)/Δx², and its derivative by D."""
    n, k, t = 32, 3, 0.4
    grid = pde.Grid(n, 0.0, 2 * np.pi)
    wave = jnp.sin(k * grid.centers[0])

    def decayed(D):
        ring = pde.Evolution(pde.Diffusion(D), wave, grid)
        method = ds.Method(diffrax.Dopri8(), step=0.02)
        return ds.simulate(ring, t, method).states[0]

    D, dx = 0.3, 2 * np.pi / n
    rate = 2 * (np.cos(k * dx) - 1) / dx**2
    amplitude = np.exp(D * rate * t)
    np.testing.assert_allclose(decayed(D), amplitude * wave, rtol=1e-10, atol=1e-10)
    slope = t * rate * amplitude * wave
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(derivative(decayed)(D), slope, atol=1e-10)


def moving(p, t, x):
    """A solution that is made up: p (2 + sin(x + t) + cos 2x / 3)."""
    return p * (2 + jnp.sin(x + t) + jnp.cos(2 * x) / 3)


def made_up(p, kind, n):
    """The error at the end, where D = 0.1 + 0.05 u and the walls move with time."""

    def D(t, x, u):
        return 0.1 + 0.05 * u

    def rate(t, x):
        u = lambda x: moving(p, t, x)  # noqa: E731
        flux = lambda x: D(t, x, u(x)) * jax.grad(u)(x)  # noqa: E731
        return jax.grad(flux)(x)

    def source(t, x, u):
        change = jax.jvp(lambda t: moving(p, t, x[0]), (t,), (jnp.ones_like(t),))[1]
        return change - jax.vmap(lambda x: rate(t, x))(x[0])

    def slope(t, x):
        return jax.jvp(lambda x: moving(p, t, x), (x,), (jnp.ones_like(x),))[1]

    walls = {
        "Dirichlet": [pde.Dirichlet(lambda t, x: moving(p, t, x)) for _ in (0, 1)],
        "Neumann": [pde.Neumann(lambda t, x, s=s: s * slope(t, x)) for s in (-1, 1)],
        "Robin": [
            pde.Robin(
                1.0, 0.3, lambda t, x, s=s: moving(p, t, x) + 0.3 * s * slope(t, x)
            )
            for s in (-1, 1)
        ],
    }[kind]
    grid = pde.Grid(n, 0.2, 1.7)
    x = grid.centers
    start = moving(p, 0.0, x)
    line = pde.Evolution(pde.Diffusion(D, source), start, grid, (tuple(walls),))
    found = ds.simulate(line, 0.2, EXPLICIT).states
    return found - moving(p, 0.2, x)


@pytest.mark.parametrize("kind", ["Dirichlet", "Neumann", "Robin"])
def test_solutions_and_their_derivatives_are_of_order_two(kind):
    def norms(n):
        both = jax.jit(lambda p: jax.jvp(lambda p: made_up(p, kind, n), (p,), (1.0,)))
        return [f(np.asarray(e)) for e in both(1.0) for f in (_rms, _most)]

    orders = np.log2(np.divide(norms(32), norms(64)))
    np.testing.assert_allclose(orders, 2, atol=0.1)


def _rms(a):
    return np.sqrt(np.mean(a**2))


def _most(a):
    return np.max(np.abs(a))


def plate():
    grid = pde.Grid((4, 3), (0.0, 0.1), (1.0, 0.9))
    x, y = grid.centers
    walls = (
        (pde.Dirichlet(0.3), pde.Neumann(0.2)),
        (pde.Robin(1.0, 0.4, 0.1), pde.Outflow()),
    )
    equation = pde.Diffusion(0.1 + 0.05 * x, source=jnp.asarray(0.2))
    return pde.Evolution(equation, jnp.sin(3 * x) + y, grid, walls)


def rod():
    walls = ((pde.Dirichlet(0.3), pde.Robin(1.0, 0.4, 0.1)),)
    equation = pde.Diffusion(jnp.array([0.1, 0.12, 0.2, 0.3]), source=jnp.asarray(0.2))
    return pde.Evolution(equation, jnp.arange(4.0) ** 2, pde.Grid(4, 0.1, 0.8), walls)


HEUN = ds.Method(diffrax.Heun(), step=0.02)


@pytest.mark.slow
def test_every_number_of_a_body_is_live():
    check_simulation(rod(), [0.04, 0.1], HEUN).raise_if_failed()


def test_what_a_diffusion_does_by_default_agrees_with_small_steps():
    exact = ds.simulate(plate(), 0.3, EXPLICIT)
    found = ds.simulate(plate(), 0.3)
    np.testing.assert_allclose(found.states, exact.states, rtol=1e-6)


def test_fields_and_coefficients_that_do_not_fit_are_named():
    grid = pde.Grid((4, 5))
    with pytest.raises(ValueError, match=r"initial must have shape \(1, 4, 5\)"):
        pde.Evolution(pde.Diffusion(1.0), jnp.zeros((2, 4, 5)), grid)
    with pytest.raises(ValueError, match=r"diffusivity must be positive, got -0\.1"):
        pde.Diffusion(-0.1)
