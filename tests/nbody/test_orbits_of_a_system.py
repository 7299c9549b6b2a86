"""Groups of bodies on orbits, frames, and elements of trajectories, against REBOUND."""

from typing import Any

import jax
import numpy as np
import pytest
import rebound

import diffsim as ds
from diffsim import nbody
from diffsim.integrators import Leapfrog


MASSES = (1.0, 0.1, 0.02)
THEIRS = {
    "semi_major_axis": "a",
    "eccentricity": "e",
    "inclination": "inc",
    "longitude_of_ascending_node": "Omega",
    "argument_of_pericenter": "omega",
    "true_anomaly": "f",
    "mean_longitude": "l",
    "eccentric_anomaly": "E",
}


def three_bodies():
    """REBOUND's system: two bodies and a massless one, inclined."""
    simulation = rebound.Simulation()
    simulation.G = 1.7
    simulation.add(m=1.0, name="star")
    simulation.add(m=0.1, a=1.0, e=0.2, inc=0.1, Omega=0.3, omega=0.5, f=0.3, name="b")
    simulation.add(m=0.02, a=2.5, e=0.1, inc=0.3, omega=1.0, f=1.0, name="c")
    simulation.add(a=6.0, e=0.3, inc=0.2, Omega=2.0, omega=-0.9, f=2.0, name="rock")
    simulation.N_active = 3
    simulation.move_to_com()
    return simulation


def primary_of(simulation, i, coordinates):
    """What REBOUND takes for primary; its mass and the body's are what attracts."""
    particles = simulation.particles
    if coordinates == "jacobi":
        return None
    if coordinates == "heliocentric":
        return particles[0]
    center = simulation.com()
    center.m -= particles[i].m
    return center


def same(found, orbit):
    bound = orbit.e < 1  # others have an E of another sign and no period
    for ours, theirs in THEIRS.items():
        if ours == "eccentric_anomaly" and not bound:
            continue
        a, b = float(getattr(found, ours)), getattr(orbit, theirs)
        if ours not in ("semi_major_axis", "eccentricity"):
            a, b = np.exp(1j * a), np.exp(1j * b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=ours)
    np.testing.assert_allclose(found.mean_motion(), abs(orbit.n), rtol=1e-12)
    if bound:
        np.testing.assert_allclose(found.period(), orbit.P, rtol=1e-12)


def orbit_of(elements, *index):
    return jax.tree.map(lambda leaf: leaf[index], elements)


@pytest.mark.parametrize("coordinates", ["heliocentric", "jacobi", "barycentric"])
def test_elements_of_a_system_are_those_of_rebound(coordinates):
    simulation = three_bodies()
    system = nbody.NBody.from_rebound(simulation)
    found = nbody.elements(system, coordinates=coordinates)
    assert found.semi_major_axis.shape == (3,)
    for i in (1, 2, 3):
        primary = primary_of(simulation, i, coordinates)
        same(orbit_of(found, i - 1), simulation.particles[i].orbit(primary=primary))


def test_elements_of_a_trajectory_have_a_row_for_each_time():
    simulation = three_bodies()
    system = nbody.NBody.from_rebound(simulation)
    times = [0.0, 0.25, 1.0]
    states = ds.simulate(system, times, ds.Method(Leapfrog(), 0.0625)).states
    found = nbody.elements(system, states, coordinates="jacobi")
    regular = nbody.nonsingular_elements(system, states, coordinates="jacobi")
    assert found.semi_major_axis.shape == regular.h.shape == (3, 3)
    simulation.integrator, simulation.dt = "leapfrog", 0.0625
    for row, time in enumerate(times):
        simulation.integrate(time)
        for i in (1, 2, 3):
            orbit = simulation.particles[i].orbit()
            same(orbit_of(found, row, i - 1), orbit)
            for ours, theirs in {"h": "pal_h", "k": "pal_k", "ix": "pal_ix"}.items():
                value = getattr(regular, ours)[row, i - 1]
                np.testing.assert_allclose(value, getattr(orbit, theirs), atol=1e-12)
    # the first passage of pericenter, by REBOUND's clock
    last = simulation.particles[1].orbit().T
    nearest = orbit_of(found, 2, 0).time_of_pericenter(time=1.0)
    period = simulation.particles[1].orbit().P
    assert np.cos(2 * np.pi * (float(nearest) - last) / period) == pytest.approx(1)


def test_orbit_about_a_named_body_is_that_of_rebound():
    simulation = three_bodies()
    system = nbody.NBody.from_rebound(simulation)
    particles = simulation.particles
    found = nbody.elements(system, body="c", primary="b")
    same(found, particles[2].orbit(primary=particles[1]))
    about = nbody.elements(system, primary=1)
    for row, i in enumerate((0, 2, 3)):
        same(orbit_of(about, row), particles[i].orbit(primary=particles[1]))


def test_derivatives_of_elements_of_a_system_are_right():
    system = nbody.NBody.from_rebound(three_bodies())
    found = jax.jit(lambda bodies: nbody.elements(nbody.NBody(bodies)).eccentricity)
    report = ds.verify.taylor_test(found, system.bodies)
    assert report.passed, report


@pytest.mark.parametrize("coordinates", ["heliocentric", "jacobi", "barycentric"])
def test_bodies_and_elements_are_inverse_in_all_coordinates(coordinates):
    orbits = nbody.Elements(
        semi_major_axis=[1.0, 2.5],
        eccentricity=[0.2, 0.1],
        inclination=[0.1, 0.3],
        true_anomaly=[0.3, 1.0],
    )
    bodies = nbody.Bodies.from_elements(
        MASSES, orbits, G=1.7, coordinates=coordinates, names="abc"
    )
    np.testing.assert_allclose(bodies.masses @ bodies.positions, 0, atol=1e-15)
    np.testing.assert_allclose(bodies.masses @ bodies.velocities, 0, atol=1e-15)
    system = nbody.NBody(bodies, nbody.Gravity(1.7))
    back = nbody.elements(system, coordinates=coordinates)
    for name in ("semi_major_axis", "eccentricity", "inclination", "true_anomaly"):
        np.testing.assert_allclose(
            getattr(back, name), getattr(orbits, name), rtol=1e-12, atol=1e-12
        )


def test_periods_are_resolved_by_the_mass_inside_as_in_rebound():
    simulation = rebound.Simulation()
    simulation.G = 1.7
    simulation.add(m=1.0)
    simulation.add(m=0.1, P=3.0, e=0.1, omega=0.4, M=0.3)
    simulation.add(m=0.02, P=11.0, e=0.2, omega=0.7, M=1.3)
    simulation.move_to_com()
    orbits = nbody.Orbit(
        period=[3.0, 11.0],
        eccentricity=[0.1, 0.2],
        argument_of_pericenter=[0.4, 0.7],
        mean_anomaly=[0.3, 1.3],
    )
    bodies = nbody.Bodies.from_elements(MASSES, orbits, G=1.7, jacobi=True)
    for i, particle in enumerate(simulation.particles):
        np.testing.assert_allclose(bodies.positions[i], particle.xyz, atol=1e-12)
        np.testing.assert_allclose(bodies.velocities[i], particle.vxyz, atol=1e-12)


def test_planets_about_a_binary_and_moons_about_a_planet_orbit_as_in_rebound():
    simulation = rebound.Simulation()
    simulation.add(m=1.0)
    simulation.add(m=0.5, a=1.0, e=0.3, omega=0.5)  # about the first
    simulation.add(m=1e-2, a=6.0, e=0.1)  # about both
    simulation.add(
        m=1e-3, a=0.1, e=0.2, omega=0.7, f=1.0, primary=simulation.particles[2]
    )
    pair = nbody.Bodies.from_elements(
        [1.0, 0.5],
        nbody.Elements(
            semi_major_axis=[1.0], eccentricity=0.3, argument_of_pericenter=0.5
        ),
        names=["A", "B"],
    )
    shape: dict[str, Any] = {"eccentricity": 0.2, "argument_of_pericenter": 0.7}
    moon = nbody.Orbit(semi_major_axis=[0.1], true_anomaly=1.0, **shape)
    planet = nbody.Bodies.from_elements([1e-2, 1e-3], moon, names=["p", "moon"])
    wide = nbody.Elements(semi_major_axis=[6.0], eccentricity=0.1)
    bodies = nbody.Bodies.from_elements([pair, planet], wide)
    assert bodies.names == ("A", "B", "p", "moon")
    p = simulation.particles
    system = nbody.NBody(bodies)
    same(nbody.elements(system, body="B"), p[1].orbit(primary=p[0]))
    same(nbody.elements(system, body="moon", primary="p"), p[3].orbit(primary=p[2]))
    # The orbit of one barycenter about the other, as REBOUND has it of particles.
    m, x, v = (
        np.asarray(a) for a in (bodies.masses, bodies.positions, bodies.velocities)
    )
    inner, outer = (
        rebound.Particle(
            m=m[rows].sum(),
            **dict(
                zip(("x", "y", "z"), m[rows] @ x[rows] / m[rows].sum(), strict=True)
            ),
            **dict(
                zip(("vx", "vy", "vz"), m[rows] @ v[rows] / m[rows].sum(), strict=True)
            ),
        )
        for rows in (slice(2), slice(2, 4))
    )
    orbit = outer.orbit(primary=inner, G=1.0)
    np.testing.assert_allclose((orbit.a, orbit.e), (6.0, 0.1), rtol=1e-12)
    with_planet = nbody.Bodies.from_elements([pair, 1e-2], wide, names=["p"])
    assert with_planet.names == ("A", "B", "p")


def test_frames_differ_by_a_shift_and_keep_names():
    system = nbody.NBody.from_rebound(three_bodies())
    bodies = system.bodies
    about = bodies.relative_to("b")
    assert about.names == bodies.names
    np.testing.assert_array_equal(about.positions[1], 0)
    np.testing.assert_array_equal(about.velocities[1], 0)
    back = about.barycentric()
    np.testing.assert_allclose(back.positions, bodies.positions, atol=1e-14)
    np.testing.assert_allclose(back.velocities, bodies.velocities, atol=1e-14)


def test_moons_join_the_planet_that_they_are_given_about():
    bodies = nbody.NBody.from_rebound(three_bodies()).bodies
    moon = nbody.Bodies([1e-5], [[0.01, 0, 0]], [[0, 0.1, 0]], names=["moon"])
    both = bodies.join(moon, about="b")
    assert both.names == ("star", "b", "c", "moon")
    np.testing.assert_allclose(both.positions[3] - both.positions[1], [0.01, 0, 0])
    np.testing.assert_allclose(both.velocities[3] - both.velocities[1], [0, 0.1, 0])
    there = bodies.join(moon)
    np.testing.assert_array_equal(there.positions[3], [0.01, 0, 0])


def test_group_replaces_its_barycenter():
    bodies = nbody.NBody.from_rebound(three_bodies()).bodies
    x, v = np.eye(3)[:2], np.eye(3)[1:]
    pair = nbody.Bodies([0.06, 0.04], x, v, names=["b1", "b2"])
    found = bodies.replace("b", pair)
    assert found.names == ("star", "b1", "b2", "c")
    for before, after in (
        (bodies.positions, found.positions),
        (bodies.velocities, found.velocities),
    ):
        center = (0.6 * after[1] + 0.4 * after[2], before[1])
        np.testing.assert_allclose(*center, atol=1e-14)
        np.testing.assert_array_equal(after[3], before[2])


def test_test_particles_orbit_a_body_or_the_barycenter():
    system = nbody.NBody.from_rebound(three_bodies())
    orbits = nbody.Elements(semi_major_axis=[0.1, 0.2], eccentricity=0.1)
    for primary in ("b", None):
        light = nbody.TestParticles.from_elements(
            system.bodies, orbits, G=1.7, primary=primary, names=["d", "e"]
        )
        whole = nbody.NBody(system.bodies, system.gravity, test_particles=light)
        about: dict[str, Any] = (
            {"coordinates": "barycentric"} if primary is None else {"primary": "b"}
        )
        found = nbody.elements(whole, **about)
        np.testing.assert_allclose(found.semi_major_axis[-2:], [0.1, 0.2], rtol=1e-12)


def test_periods_of_unbound_orbits_among_others_are_nan():
    orbits = nbody.Elements(
        semi_major_axis=[1.0, -1.0], eccentricity=[0.0, 2.0], gm=1.0
    )
    np.testing.assert_array_equal(np.isnan(orbits.period()), [False, True])
