"""`HybridWisdomHolman`: REBOUND's gates for its hybrids, and derivatives of IAS15."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rebound
from rows import first_plain

from diffsim import nbody, problems
from diffsim.simulations import Method, simulate


_YEAR = 2 * np.pi


def _energy_change(system, states):
    energies = np.asarray(nbody.energy(system, states))
    return np.max(np.abs(energies / energies[0] - 1))


def _from_rebound(*particles, fast=1.0):
    simulation = rebound.Simulation()
    sun = rebound.Particle(m=1.0)
    simulation.add(sun)
    for particle in particles:
        simulation.add(primary=sun, **particle)
    simulation.particles[-1].vy *= fast
    simulation.move_to_com()
    return nbody.NBody.from_rebound(simulation)


@pytest.mark.slow
def test_planets_that_do_not_meet_run_as_by_the_map():
    system, step = problems.outer_solar_system(), 11.86 * _YEAR / 1000
    method = Method(nbody.HybridWisdomHolman(), step=step)
    states = simulate(system, [0.0, 1000.0], method).states
    assert _energy_change(system, states) < 3e-10
    map = nbody.WisdomHolman(coordinates=method.solver.coordinates)
    known = simulate(system, [0.0, 1000.0], Method(map, step=step)).states
    np.testing.assert_allclose(states.positions, known.positions, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_body_thrown_out_by_another_keeps_energy():
    system = _from_rebound(
        {"m": 1e-4, "a": 0.5, "e": 0.1}, {"m": 1e-6, "a": 0.6}, fast=2.0
    )
    method = Method(nbody.HybridWisdomHolman(), step=0.01)
    states = simulate(system, np.linspace(0, 1, 5), method).states
    assert _energy_change(system, states) < 4e-6


@pytest.mark.slow
def test_a_polar_orbit_that_grazes_the_star_keeps_energy():
    system = _from_rebound(
        {"m": 9.55e-4, "a": 5.2},
        {"m": 2.857e-4, "a": 9.58, "e": 0.99, "inc": np.pi / 2},
    )
    method = Method(nbody.HybridWisdomHolman(), step=0.15 * _YEAR)
    states = simulate(system, [0.0, 294 * _YEAR], method).states
    assert _energy_change(system, states) < 1e-4


@pytest.mark.slow
def test_a_test_particle_exchanged_by_a_planet_keeps_the_jacobi_constant():
    mass, a = 0.01 / 0.99, 5.2
    speed, share = np.sqrt((1 + mass) / a), mass / (1 + mass)
    bodies = nbody.Bodies(
        [1.0, mass],
        [[-share * a, 0, 0], [a - share * a, 0, 0]],
        [[0, -share * speed, 0], [0, speed - share * speed, 0]],
    )
    light = nbody.TestParticles(
        [[4.42 - share * a, 0, 0]],
        [[0, 0.0072 * 365.25 / _YEAR - share * speed, 0]],
    )
    system = nbody.NBody(bodies, test_particles=light)
    solver = nbody.HybridWisdomHolman(corrector=3)
    states = simulate(
        system, [0.0, 2000.0], Method(solver, step=8 / 365 * _YEAR)
    ).states
    x, v = states.positions, states.velocities
    star, planet = (jnp.linalg.norm(x[:, 2] - x[:, i], axis=-1) for i in (0, 1))
    turning = np.sqrt((1 + mass) / a**3) * jnp.cross(x[:, 2], v[:, 2])[:, 2]
    constant = jnp.sum(v[:, 2] ** 2, -1) / 2 - 1 / star - mass / planet - turning
    assert abs(constant[1] / constant[0] - 1) < 1e-6


def meeting(moved=(0.0, 0.0, 0.0), ahead=0.25):
    """Two planets of which the inner one passes the other at 0.3 Hill radii."""
    dm, dx, dv = moved
    orbits = nbody.Elements(semi_major_axis=[1.0, 1.06], true_anomaly=[0.0, ahead])
    bodies = nbody.Bodies.from_elements([1.0, 1e-4, 1e-4], orbits)
    masses = bodies.masses.at[1].add(dm)
    x = bodies.positions.at[1, 0].add(dx)
    v = bodies.velocities.at[2, 1].add(dv)
    return nbody.NBody(nbody.Bodies(masses, x, v))


@pytest.mark.slow
@pytest.mark.parametrize("transform", [jax.jacfwd, jax.jacrev])
def test_derivatives_through_an_encounter_are_those_of_ias15(transform):
    def final(moved, method):
        return simulate(meeting(moved), 8.0, method).states.positions

    hybrid = Method(nbody.HybridWisdomHolman(corrector=17), step=0.005)
    exact = Method(nbody.IAS15())
    zero = jnp.zeros(3)
    known = jax.jacfwd(final)(zero, exact)
    found = transform(final)(zero, hybrid)
    assert np.max(np.abs(found - known)) < 1e-6 * np.max(np.abs(known))


def test_a_step_is_that_of_the_map_until_bodies_meet_and_then_that_of_ias15():
    solver, apart, close = nbody.HybridWisdomHolman(), meeting(), meeting(ahead=0.05)
    terms, known = apart.terms(), solver.constants(apart)

    @jax.jit
    def step(y):
        given = known, terms, jnp.zeros(()), jnp.asarray(0.1)
        z = solver.forth(*given, solver.enter(*given, y, apart), apart)
        return solver.leave(*given, z, apart)[0].T

    for system, integrator in ((apart, "whfast"), (close, "ias15")):
        peer = system.to_rebound()
        peer.integrator = integrator
        if integrator == "whfast":
            peer.integrator.coordinates, peer.dt = solver.coordinates, 0.1
            peer.steps(1)
        peer.integrate(0.1)
        exact = [p.xyz for p in peer.particles]
        found = step(system.initial_state())
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-13)


@pytest.mark.parametrize("corrector", first_plain([17, 0]))
def test_a_step_leaves_little_to_its_gradient_where_nobody_meets(corrector):
    """Room for as many steps by IAS15 as one may take made gradients cost 50 runs."""
    solver, system = nbody.HybridWisdomHolman(corrector=corrector), meeting()
    terms, known = system.terms(), solver.constants(system)
    time = jnp.zeros(()), jnp.asarray(0.1)

    def left(y):
        z = solver.enter(known, terms, *time, y, system)
        return jax.vjp(lambda z: solver.forth(known, terms, *time, z, system), z)[1]

    state = system.initial_state()
    kept = jax.tree.leaves(jax.eval_shape(left, state))
    assert sum(a.size for a in kept) < 20 * sum(a.size for a in state)


@pytest.mark.slow
def test_an_encounter_is_seen_whatever_the_corrector_makes_of_it():
    """Two planets that fall upon each other nearly head-on."""
    orbits = nbody.Elements(semi_major_axis=[1.0, 1.12], true_anomaly=[0.0, 0.6])
    system = nbody.NBody(nbody.Bodies.from_elements([1.0, 3e-4, 3e-4], orbits))
    method = Method(nbody.HybridWisdomHolman(corrector=17), step=0.1)
    # On the grid and off it, before, in and behind the encounter at 45.7.
    times = np.concatenate([[0.0], np.linspace(45.003, 46.503, 31), [60.0]])
    assert _energy_change(system, simulate(system, times, method).states) < 1e-5
