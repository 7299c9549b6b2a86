"""Velocities along the line of sight, and positions on the sky."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import nbody


RADVEL = pathlib.Path(__file__).parents[2] / "tools/peers/radvel.json"
PROBLEMS = json.loads(RADVEL.read_text(encoding="utf-8"))["problems"]
NAMES = ("star", "b", "c")


def two_planets():
    orbits = nbody.Elements(
        semi_major_axis=[1.0, 1.7],
        inclination=[0.4, 1.2],
        longitude_of_ascending_node=[0.3, 2.0],
        true_anomaly=[1.0, 4.0],
    )
    return nbody.NBody(
        nbody.Bodies.from_elements([1.0, 1e-3, 2e-3], orbits, names=NAMES)
    )


def state_of(system):
    return system.observe(0.0, system.initial_state())


@pytest.mark.parametrize("name", ["circular", "eccentric"])
def test_velocities_of_a_star_with_one_planet_equal_those_of_radvel(name):
    given = PROBLEMS[name]
    period, e, k = (given[x] for x in ("period", "eccentricity", "semi_amplitude"))
    mass, a = 1e-3, ((1 + 1e-3) * period**2 / (4 * np.pi**2)) ** (1 / 3)
    orbit = nbody.Elements.from_mean_anomaly(
        [-2 * np.pi * given["time_of_pericenter"] / period],
        semi_major_axis=[a],
        eccentricity=[e],
        inclination=[np.pi / 2],
        argument_of_pericenter=[
            given["argument_of_pericenter_of_the_star"] - np.pi,
        ],
    )
    bodies = nbody.Bodies.from_elements([1.0, mass], orbit, names=["star", "b"])
    system = nbody.NBody(bodies)
    states = ds.simulate(system, np.asarray(given["times"])).states
    own = 2 * np.pi * a / (period * np.sqrt(1 - e**2)) * mass / (1 + mass)
    found = nbody.radial_velocity(system, states, "star") * (k / own)
    np.testing.assert_allclose(found, given["velocities"], atol=1e-10 * k)


def test_velocity_is_positive_away_from_the_observer():
    system = two_planets()
    state = state_of(system)
    for n in ((0, 0, -1), (0.0, 3.0, 4.0)):
        unit = np.asarray(n) / np.linalg.norm(n)
        found = nbody.radial_velocity(system, state, "c", observer=n)
        np.testing.assert_allclose(found, -(state.velocities[2] @ unit), rtol=1e-14)
    # From the origin the distance of an observer far away grows with that velocity.
    x, v, far = state.positions[2], state.velocities[2], 1e6 * unit
    slope = jax.jvp(lambda x: jnp.linalg.norm(x - far), (x,), (v,))[1]
    np.testing.assert_allclose(found, slope, rtol=1e-5)


def test_bodies_are_meant_by_name_and_by_number_on_any_leading_axes():
    system = two_planets()
    states = jax.tree.map(
        lambda a: jnp.broadcast_to(a, (4, 5, *a.shape)), state_of(system)
    )
    first, second, third = (
        nbody.radial_velocity(system, states, body) for body in (1, "b", -2)
    )
    assert first.shape == (4, 5)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_sky_positions_are_north_and_east_of_the_node():
    """Seen from below the sky is the plane of x and y: Ω is a position angle there."""
    system = two_planets()
    found = nbody.sky_positions(system, state_of(system))
    orbit, f = 0.3, 1.0
    north = np.cos(orbit) * np.cos(f) - np.sin(orbit) * np.sin(f) * np.cos(0.4)
    east = np.sin(orbit) * np.cos(f) + np.cos(orbit) * np.sin(f) * np.cos(0.4)
    np.testing.assert_allclose(found[1], [north, east], rtol=1e-14)
    np.testing.assert_array_equal(found[0], [0, 0])


def test_sky_separations_are_the_lengths_of_positions_from_any_side():
    system = two_planets()
    state, n = state_of(system), (1.0, -2.0, 0.5)
    functions = nbody.sky_positions, nbody.sky_separations
    both = jax.jit(
        lambda at: [f(system, at, observer=n, distance=1e5) for f in functions]
    )
    positions, found = both(state)
    np.testing.assert_allclose(found, np.linalg.norm(positions, axis=-1), rtol=1e-13)

    def total(x):
        moved = nbody.State(x, state.velocities)
        return jnp.sum(nbody.sky_separations(system, moved, observer=n))

    assert np.all(np.isfinite(jax.jit(jax.grad(total))(state.positions)))
