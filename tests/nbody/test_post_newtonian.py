"""The post-Newtonian accelerations, against the published formula term by term."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody


def einstein_infeld_hoffmann(x, v, mu, c):
    """Equation 27 of Park et al. (2021), 10.3847/1538-3881/abd414, in loops.

    β = γ = 1; Newtonian accelerations inside, and without the Newtonian part outside.
    """
    n = len(mu)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    r = {(i, j): np.linalg.norm(x[j] - x[i]) for i, j in pairs}
    newton, phi, found = np.zeros((n, 3)), np.zeros(n), np.zeros((n, 3))
    for i, j in pairs:
        newton[i] += mu[j] * (x[j] - x[i]) / r[i, j] ** 3
        phi[i] += mu[j] / r[i, j]
    for i, j in pairs:
        bracket = (
            -4 * phi[i]
            - phi[j]
            + v[i] @ v[i]
            + 2 * v[j] @ v[j]
            - 4 * v[i] @ v[j]
            - 1.5 * ((x[i] - x[j]) @ v[j] / r[i, j]) ** 2
            + 0.5 * (x[j] - x[i]) @ newton[j]
        )
        found[i] += mu[j] * (x[j] - x[i]) / r[i, j] ** 3 * bracket
        along = (x[i] - x[j]) @ (4 * v[i] - 3 * v[j])
        found[i] += mu[j] / r[i, j] ** 3 * along * (v[i] - v[j])
        found[i] += 3.5 * mu[j] * newton[j] / r[i, j]
    return found / c**2


@eqx.filter_jit
def acceleration(force, x, v, mu):
    return force.acceleration(jnp.zeros(()), jnp.asarray(x.T), jnp.asarray(v.T), mu).T


@pytest.fixture(scope="module")
def system():
    random = np.random.default_rng(0)
    x, v = random.normal(size=(2, 5, 3))
    return x, v, random.uniform(0.5, 1.5, 5)


def test_all_pairs_accelerations_are_einstein_infeld_hoffmann(system):
    x, v, mu = system
    found = acceleration(nbody.PostNewtonian(7.0), x, v, jnp.asarray(mu))
    expected = einstein_infeld_hoffmann(x, v, mu, 7.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_test_particles_accelerate_as_massless_bodies(system):
    x, v, mu = system
    for force in (nbody.PostNewtonian(7.0), nbody.PostNewtonian(7.0, primary=1)):
        test_particles = acceleration(force, x, v, jnp.asarray(mu[:3]))
        massless = acceleration(force, x, v, jnp.asarray([*mu[:3], 0.0, 0.0]))
        np.testing.assert_allclose(test_particles, massless, rtol=1e-13)


def test_central_term_equals_all_pairs_for_test_particles(system):
    x, v, mu = system
    x, v = x - x[0], np.where(np.arange(5)[:, None] == 0, 0, v)
    masses = jnp.asarray([mu[0], 0, 0, 0, 0])
    central = acceleration(nbody.PostNewtonian(7.0, primary=0), x, v, masses)
    pairs = acceleration(nbody.PostNewtonian(7.0), x, v, masses)
    np.testing.assert_allclose(central[1:], pairs[1:], rtol=1e-13)


def test_central_term_conserves_momentum(system):
    x, v, mu = system
    force = nbody.PostNewtonian(7.0, primary=2)
    total = mu @ np.asarray(acceleration(force, x, v, jnp.asarray(mu)))
    np.testing.assert_allclose(total, np.zeros(3), atol=1e-15)


@pytest.mark.parametrize("primary", [None, 0])
def test_derivatives_in_both_modes_agree_and_are_finite(system, primary):
    x, v, mu = map(jnp.asarray, system)

    def of(at):
        x, v, mu, c = at
        force = nbody.PostNewtonian(c, primary=primary)
        return jnp.sum(jnp.sin(force.acceleration(0.0, x.T, v.T, mu)))

    at = x, v, mu.at[1].set(0.0), jnp.asarray(7.0)
    modes = jax.jit(lambda at: (jax.jacfwd(of)(at), jax.jacrev(of)(at)))(at)
    for a, b in zip(*map(jax.tree.leaves, modes), strict=True):
        assert np.all(np.isfinite(a)) and np.any(a != 0)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_the_correction_falls_as_the_inverse_square_of_c(system):
    x, v, mu = system
    one, three = (
        acceleration(nbody.PostNewtonian(c), x, v, jnp.asarray(mu)) for c in (1.0, 3.0)
    )
    np.testing.assert_allclose(one, 9 * three, rtol=1e-14)
