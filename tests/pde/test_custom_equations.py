"""Equations of users, beside closed forms."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import integrators, pde


class SwiftHohenberg(pde.AbstractSpectralEquation):
    """∂u/∂t = r u − (1 + ∇²)² u − u³: rolls of wave number one."""

    r: jax.Array

    def channels(self, ndim):
        return 1

    @property
    def nonlinearity_degree(self):
        return 3

    def symbol(self, modes):
        return self.r - (1 - modes.wavenumber_squared) ** 2

    def nonlinear(self, t, z, modes):
        return -modes.fft(modes.ifft(z) ** 3)


def test_swift_hohenberg_rolls_grow_at_linear_rate_with_derivative():
    """r − (1 − k²)², and t times what has grown by r."""
    grid = pde.Grid((32, 24), 0.0, 4 * np.pi)
    x, y = grid.centers
    for k, m in ((1.0, 0.0), (0.5, 1.0), (1.5, 0.5)):
        seed = 1e-9 * jnp.cos(k * x) * jnp.cos(m * y)

        def end(r, seed=seed):
            rolls = pde.Evolution(SwiftHohenberg(r), seed, grid)
            method = ds.Method(integrators.ETDRK4(), 0.1)
            return ds.simulate(rolls, 2.0, method).states[0]

        found, slope = jax.jvp(end, (0.3,), (1.0,))
        exact = np.exp(2 * (0.3 - (1 - k**2 - m**2) ** 2)) * seed
        np.testing.assert_allclose(found, exact, atol=1e-8 * 1e-9)
        np.testing.assert_allclose(slope, 2 * exact, atol=1e-8 * 1e-9)


class Porous(eqx.Module):
    """D = m u^{m−1}, which vanishes where nothing is."""

    m: float = eqx.field(static=True)

    def __call__(self, t, x, u):
        return self.m * jnp.maximum(u, 0) ** (self.m - 1)


def barenblatt(mass, m, t, x):
    """The spreading of a point, which has an edge (Barenblatt 1952)."""
    a = 1 / (m + 1)
    inside = mass - a * (m - 1) / (2 * m) * x**2 * t ** (-2 * a)
    return t**-a * jnp.maximum(inside, 0) ** (1 / (m - 1))


@pytest.mark.slow
def test_porous_medium_equation_matches_barenblatt():
    def errors(n):
        grid = pde.Grid(n, -5.0, 5.0)
        (x,) = grid.centers

        def end(mass):
            start = barenblatt(mass, 2, 1.0, x)
            law = pde.Diffusion(Porous(2))
            body = pde.Evolution(law, start, grid, pde.Neumann(), t0=1.0)
            method = ds.Method(diffrax.Heun(), 10 / n**2)
            return ds.simulate(body, 2.0, method).states[0]

        found = jax.jit(lambda mass: jax.jvp(end, (mass,), (1.0,)))(0.8)
        exact = jax.jvp(lambda mass: barenblatt(mass, 2, 2.0, x), (0.8,), (1.0,))
        edge = np.sqrt(0.8 * 12) * 2 ** (1 / 3)
        dry = jnp.abs(x) > edge + 2 * grid.spacing[0]
        assert jnp.max(jnp.abs(found[0]) * dry) < 1e-10
        start = jnp.sum(barenblatt(0.8, 2, 1.0, x))
        np.testing.assert_allclose(jnp.sum(found[0]), start, rtol=1e-13)
        return [jnp.mean(jnp.abs(a - b)) for a, b in zip(found, exact, strict=True)]

    value, slope = np.log2(np.divide(errors(64), errors(128)))
    # It has a kink at its edge, where its derivative jumps.
    assert value > 1.4
    assert slope > 0.4


class Forgetful(SwiftHohenberg):
    """Whose products are left on the grid."""

    def nonlinear(self, t, z, modes):
        return modes.ifft(z) ** 3


def test_invalid_custom_equations_raise():
    grid = pde.Grid(16)
    with pytest.raises(ValueError, match=r"Forgetful must return a transform, complex"):
        ds.simulate(pde.Evolution(Forgetful(0.3), jnp.ones(16), grid), 0.1)


class Cooling(pde.Diffusion):
    """Reads the field of its parent."""

    def reaction(self, t, x, u):
        return -self.diffusivity * u


class Seeping(pde.AbstractFiniteVolumeEquation):
    """Names a field of its own as equations of this library do."""

    diffusivity: jax.Array

    def channels(self, ndim):
        return 1

    def rate(self, t, u, domain):
        return self.diffusivity * pde.laplacian(u, domain) - self.diffusivity * u

    def default_method(self, domain):
        return ds.Method(diffrax.Tsit5())


@pytest.mark.parametrize("law", [Cooling, Seeping])
def test_fields_of_own_equations_stay_what_they_are(law):
    """exp(−D (λ + 1) t), with the λ of the discrete equation."""
    line, D = pde.Grid(16), 0.1
    start = jnp.sin(np.pi * line.centers[0])
    run = pde.Evolution(law(jnp.full(16, D)), start, line, pde.Dirichlet())
    found = ds.simulate(run, 0.5, rtol=1e-9).states[0]
    wave = 4 * 16**2 * np.sin(np.pi / 32) ** 2
    np.testing.assert_allclose(found, np.exp(-D * (wave + 1) * 0.5) * start, rtol=1e-6)
