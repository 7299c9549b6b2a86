"""Coincident, massless and single bodies: finite, with finite derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import nbody
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_METHOD = Method(Leapfrog(), 0.1)


def run(masses, positions, velocities, softening):
    bodies = nbody.Bodies(masses, positions, velocities)
    system = nbody.NBody(bodies, nbody.Gravity(softening=softening))
    trajectory = simulate(system, 0.3, _METHOD, throw=False)
    states = trajectory.states
    return jnp.sum(states.positions**2) + jnp.sum(states.velocities**3), system, states


def finite(tree):
    return all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(tree))


_APART = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]
_TOGETHER = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.5]]
_MOVING = [[0.0, 0.1, 0.0], [0.0, 0.1, 0.0], [0.3, 0.0, 0.0]]


@pytest.fixture(scope="module")
def derivatives():
    """Value, gradient in both modes and Hessian, by all of the arguments."""

    def of(arguments):
        return run(*arguments)[0]

    @jax.jit
    def found(at):
        return of(at), jax.grad(of)(at), jax.jacfwd(of)(at), jax.hessian(of)(at)

    return lambda *at: found(tuple(jnp.asarray(a, float) for a in at))


@pytest.mark.parametrize(
    ("masses", "positions", "softening"),
    [
        ([1.0, 0.5, 0.1], _TOGETHER, 0.2),
        ([1.0, 0.0, 0.0], _APART, 0.0),
        ([0.0, 0.0, 0.0], _APART, 0.0),
        ([1.0, 0.0, 0.0], _TOGETHER, 0.2),
    ],
    ids=["coincident", "massless", "all massless", "coincident and massless"],
)
def test_values_and_derivatives_are_finite(derivatives, masses, positions, softening):
    value, reverse, forward, hessian = derivatives(
        masses, positions, _MOVING, softening
    )
    assert finite((value, reverse, forward, hessian))
    for a, b in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(hessian))


def test_coincident_bodies_in_blocks_have_finite_derivatives():
    masses, positions = np.ones(70) / 70, np.zeros((70, 3))
    positions[35:] = np.random.default_rng(0).normal(size=(35, 3))

    def of(masses, positions):
        return run(masses, positions, np.zeros((70, 3)), jnp.asarray(0.3))[0]

    at = jnp.asarray(masses), jnp.asarray(positions)
    gradient = jax.grad(of, (0, 1))
    assert finite(jax.jit(lambda *at: jax.jvp(gradient, at, at))(*at))


def test_coincident_bodies_without_softening_give_the_result_non_finite():
    bodies = nbody.Bodies(np.ones(3), _TOGETHER, _MOVING)
    trajectory = simulate(nbody.NBody(bodies), 0.3, _METHOD, throw=False)
    assert trajectory.result == ds.RESULTS.non_finite


@pytest.mark.slow
def test_velocities_of_singular_orbits_have_finite_derivatives():
    """Circles, at pericenter, face-on, of massless, equal and unbound bodies."""

    def velocity(masses, e, i, m):
        orbits = nbody.Elements.from_mean_anomaly(
            m,
            semi_major_axis=jnp.where(e < 1, 1.0, -1.0),
            eccentricity=e,
            inclination=i,
        )
        bodies = nbody.Bodies.from_elements(masses, orbits, coordinates="jacobi")
        state = nbody.State(bodies.positions, bodies.velocities)
        seen = nbody.radial_velocity(nbody.NBody(bodies), state, observer=[1, 2, 2])
        return jnp.sin(seen)

    which = 0, 1, 2, 3

    def slopes(*at):
        return 2 * (jax.grad(velocity, which)(*at),)

    derivatives = jax.jit(jax.jacfwd(slopes, which, has_aux=True))
    zero = jnp.zeros(2)
    for masses in ([1.0, 0.0, 0.0], [1.0, 1.0, 1.0]):
        for e in (zero, jnp.array([0.5, 1.5])):
            assert finite(derivatives(jnp.asarray(masses), e, zero, zero))


_CROSSING = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_softened_bodies_and_test_particles_may_begin_in_one_place():
    moving = [[0, 0, 0.0], [0, 1.0, 0], [0, 0, 1.0]]
    bodies = nbody.Bodies([1.0, 1e-3, 1e-3], _CROSSING, moving)
    simulate(nbody.NBody(bodies, nbody.Gravity(softening=0.1)), 0.3, _METHOD)
    star = nbody.Bodies([1.0], [[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]])
    light = nbody.TestParticles(_CROSSING[1:], moving[1:])
    simulate(nbody.NBody(star, test_particles=light), 0.3, _METHOD)


def test_single_body_moves_in_a_straight_line():
    bodies = nbody.Bodies([2.0], [[1.0, 2, 3]], [[0.1, 0.2, 0.3]])
    system = nbody.NBody(bodies)
    states = simulate(system, 0.3, _METHOD).states
    np.testing.assert_allclose(states.positions, [[1.03, 2.06, 3.09]], rtol=1e-14)
    assert nbody.energy(system, states) == pytest.approx(0.14)


def test_observables_of_coincident_bodies_have_finite_derivatives():
    bodies = nbody.Bodies(np.ones(3), _TOGETHER, _MOVING)
    system = nbody.NBody(bodies, nbody.Gravity(softening=0.2))

    def state(positions):
        return nbody.State(positions, jnp.asarray(_MOVING))

    def energy(positions):
        return nbody.energy(system, state(positions))

    def distances(positions):
        return jnp.sum(nbody.distances(state(positions)))

    together, apart = jnp.asarray(_TOGETHER), jnp.asarray(_APART)

    # Of coincident bodies a distance has no derivative; of a body to itself it is 0.
    @jax.jit
    def derivatives(together, apart):
        return [
            (jax.grad(f)(x), jax.hessian(f)(x))
            for f, x in ((energy, together), (distances, apart))
        ]

    assert finite(derivatives(together, apart))
