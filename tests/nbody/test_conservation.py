"""Conserved quantities of gravity, against REBOUND and closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody
from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.problems import outer_solar_system
from diffsim.simulations import Method, simulate
from diffsim.verify import relative_drift


def cluster(bodies, softening):
    """Random bodies, and test particles of no weight, off centre and in motion."""
    random = np.random.default_rng(0)
    x, v = random.normal(size=(2, bodies, 3)) + 1
    test_particles = nbody.TestParticles(*random.normal(size=(2, 2, 3)))
    masses = random.uniform(0.5, 1.5, bodies) / bodies
    gravity = nbody.Gravity(1.5, softening)
    return nbody.NBody(
        nbody.Bodies(masses, x, v), gravity, test_particles=test_particles
    )


@pytest.mark.slow
@pytest.mark.parametrize("bodies", [4, 80])
def test_momentum_and_angular_momentum_are_conserved_to_machine_precision(bodies):
    system = cluster(bodies, 0.1)
    trajectory = simulate(system, 0.05 * np.arange(21), Method(Yoshida4(), 0.05))
    for quantity in (nbody.momentum, nbody.angular_momentum):
        worst = jnp.max(relative_drift(lambda s, q=quantity: q(system, s), trajectory))
        assert worst < 1e-14


@pytest.mark.slow
def test_energy_error_falls_as_step_squared():
    system = cluster(4, 0.3)
    errors = []
    for step in (0.02, 0.01):
        trajectory = simulate(system, 0.02 * np.arange(51), Method(Leapfrog(), step))
        errors.append(
            jnp.max(relative_drift(lambda s: nbody.energy(system, s), trajectory))
        )
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_energy_is_kinetic_plus_potential():
    masses, softening, G = np.array([2.0, 3.0]), 0.5, 1.7
    x = np.array([[0.0, 0, 0], [3, 4, 0]])
    v = np.array([[1.0, 0, 0], [0, 2, 0]])
    system = nbody.NBody(nbody.Bodies(masses, x, v), nbody.Gravity(G, softening))
    state = nbody.State(jnp.asarray(x), jnp.asarray(v))
    expected = 0.5 * 2 * 1 + 0.5 * 3 * 4 - G * 6 / np.sqrt(25 + 0.25)
    assert float(nbody.energy(system, state)) == pytest.approx(expected, rel=1e-15)
    np.testing.assert_allclose(nbody.momentum(system, state), [2, 6, 0], rtol=1e-15)
    spin = 3 * np.cross(x[1], v[1])
    np.testing.assert_allclose(nbody.angular_momentum(system, state), spin, rtol=1e-15)
    np.testing.assert_allclose(nbody.distances(state), [[0, 5], [5, 0]], rtol=1e-15)


def test_force_is_minus_the_gradient_of_the_energy():
    system = cluster(5, 0.2)
    x, v = system.initial_state()

    def potential(positions):
        state = nbody.State(positions, jnp.zeros_like(positions))
        return nbody.energy(system, state)

    gradient = jax.jit(jax.grad(potential))(x.T)
    _, acceleration = jax.jit(lambda y: system.terms().vf(0.0, y, system))((x, v))
    force = system.bodies.masses[:, None] * acceleration.T[:5]
    np.testing.assert_allclose(force, -gradient[:5], rtol=1e-12, atol=1e-14)


def test_observables_take_one_state_or_many():
    system = outer_solar_system()
    state = system.observe(0.0, system.initial_state())
    states = jax.tree.map(lambda a: jnp.stack([a, 2 * a, 3 * a]), state)
    shapes = {
        nbody.energy: (3,),
        nbody.momentum: (3, 3),
        nbody.angular_momentum: (3, 3),
    }
    for observable, shape in shapes.items():
        observable = eqx.filter_jit(observable)
        many = observable(system, states)
        assert many.shape == shape
        last = jax.tree.map(lambda a: a[-1], states)
        np.testing.assert_allclose(observable(system, last), many[-1], rtol=1e-14)
    assert nbody.distances(states).shape == (3, 5, 5)


@pytest.mark.slow
def test_virial_is_the_potential_energy():
    # Clausius: the sum of x·a m over bodies is the potential energy, for ε = 0.
    system = cluster(6, 0.0)
    x, _ = system.initial_state()
    _, acceleration = system.terms().vf(0.0, (x, x), system)
    m = system.bodies.masses
    virial = jnp.sum(m * jnp.sum(x * acceleration, 0)[:6])
    state = nbody.State(x.T, jnp.zeros_like(x.T))
    assert float(virial) == pytest.approx(float(nbody.energy(system, state)), rel=1e-13)


@pytest.mark.parametrize(
    "measure", [nbody.energy, nbody.angular_momentum, nbody.momentum]
)
def test_state_with_another_number_of_bodies_raises_value_error(measure):
    test_particles = nbody.TestParticles([[2.0, 0, 0]], [[0, 0.7, 0]])
    system = nbody.NBody(nbody.Bodies([1.0, 1e-3], np.eye(3)[:2], np.eye(3)[:2]))
    with_tracer = nbody.NBody(system.bodies, test_particles=test_particles)

    def states(n):
        return nbody.State(jnp.eye(4, 3)[:n], jnp.ones((n, 3)))

    for n in (1, 3):
        with pytest.raises(ValueError, match="of the 2 bodies and 0 test particles"):
            measure(system, states(n))
    with pytest.raises(ValueError, match="of the 2 bodies and 1 test particles"):
        measure(with_tracer, states(4))
    alone, both = (measure(with_tracer, states(n)) for n in (2, 3))
    np.testing.assert_array_equal(alone, both)
