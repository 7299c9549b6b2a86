"""Orbits by every habit, against REBOUND, a grid of habits, and their derivatives."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rebound
from rows import first_plain

from diffsim import nbody
from diffsim.verify import taylor_test


#: What users call who do not check annotations.
Orbit: Any = nbody.Orbit
GM, EPOCH = 1.7, 0.4
A, E, INC, NODE, OMEGA, F = 1.3, 0.3, 0.4, 0.7, -1.1, 0.9


def rebound_state(**given):
    simulation = rebound.Simulation()
    simulation.G, simulation.t = GM, EPOCH
    simulation.add(m=1.0)
    simulation.add(**given)
    p = simulation.particles[1]
    return np.array([p.xyz, p.vxyz]), p.orbit()


EXACT, ORBIT = rebound_state(a=A, e=E, inc=INC, Omega=NODE, omega=OMEGA, f=F)
POMEGA = NODE + OMEGA
SIZES = ({"semi_major_axis": A}, {"period": ORBIT.P})
SHAPES = (
    {"eccentricity": E, "argument_of_pericenter": OMEGA},
    {"eccentricity": E, "longitude_of_pericenter": POMEGA},
    {"e_cos_omega": E * np.cos(OMEGA), "e_sin_omega": E * np.sin(OMEGA)},
    {
        "sqrt_e_cos_omega": E**0.5 * np.cos(OMEGA),
        "sqrt_e_sin_omega": E**0.5 * np.sin(OMEGA),
    },
    {"k": E * np.cos(POMEGA), "h": E * np.sin(POMEGA)},
)
TILTS = (
    {"inclination": INC, "longitude_of_ascending_node": NODE},
    {
        "ix": 2 * np.sin(INC / 2) * np.cos(NODE),
        "iy": 2 * np.sin(INC / 2) * np.sin(NODE),
    },
    {
        # Winn 2010 (arXiv:1001.2010), equation 7; the star's ω is half a turn on
        "impact_parameter": A
        / 0.1
        * np.cos(INC)
        * (1 - E**2)
        / (1 - E * np.sin(OMEGA)),
        "star_radius": 0.1,
        "longitude_of_ascending_node": NODE,
    },
)


def passage(f):
    """The time since pericenter at the true anomaly f, by textbook formulas."""
    anomaly = 2 * np.arctan(np.sqrt((1 - E) / (1 + E)) * np.tan(f / 2))
    return (anomaly - E * np.sin(anomaly)) / ORBIT.n


PLACES = (
    {"true_anomaly": F},
    {"mean_anomaly": ORBIT.M},
    {"eccentric_anomaly": ORBIT.E},
    {"mean_longitude": ORBIT.l},
    {"time_of_pericenter": ORBIT.T},
    {"time_of_transit": ORBIT.T + passage(-np.pi / 2 - OMEGA) - 3 * ORBIT.P},
)


#: Each place, size, shape and tilt.
EACH = [(PLACES[i], SIZES[i % 2], SHAPES[i % 5], TILTS[i // 2]) for i in range(6)]
#: With these, every pair of them.
OTHERS = [
    (PLACES[i], SIZES[n % 2], SHAPES[k], TILTS[(k if n % 2 else n) % 3])
    for n, (i, k) in enumerate(np.ndindex(len(PLACES), len(SHAPES)))
]
HABITS = [*EACH, *(row for row in OTHERS if row not in EACH)]


def pairs(rows):
    return {pair for row in rows for pair in itertools.combinations(map(str, row), 2)}


def test_habits_are_tried_in_every_pair():
    assert pairs(HABITS) == pairs(itertools.product(PLACES, SIZES, SHAPES, TILTS))


@pytest.mark.parametrize("row", first_plain([(row,) for row in HABITS], 6), ids=str)
def test_habits_give_the_state_of_rebound(row):
    place, size, shape, tilt = row
    orbit = Orbit(**size, **shape, **tilt, **place, epoch=EPOCH)
    # three periods lose a few roundings
    np.testing.assert_allclose(orbit.state(GM), EXACT, atol=1e-12, err_msg=str(orbit))
    found = orbit.elements(GM)
    np.testing.assert_allclose(found.state(), EXACT, atol=1e-12, err_msg=str(orbit))
    np.testing.assert_allclose(found.period(), ORBIT.P, rtol=1e-13)


def test_star_pericenter_is_half_a_turn_from_the_planets():
    orbits = []
    for shape in SHAPES:
        turned = {
            name: value if name == "eccentricity" else -value
            for name, value in shape.items()
        }
        for name in ("argument_of_pericenter", "longitude_of_pericenter"):
            if name in shape:
                turned[name] = shape[name] - np.pi
        place = {"omega_of": "star", "epoch": EPOCH, **TILTS[0], **PLACES[5]}
        orbits.append(Orbit(period=ORBIT.P, **turned, **place))
    states = jax.jit(lambda orbits: [orbit.state(GM) for orbit in orbits])(orbits)
    np.testing.assert_allclose(states, [EXACT] * len(SHAPES), atol=1e-12)


@pytest.mark.slow
def test_planet_stands_in_front_of_its_star_at_the_time_of_transit():
    orbit = Orbit(
        period=[3.0, 5.0],
        e_cos_omega=[0.1, 0.0],
        e_sin_omega=[-0.3, 0.0],
        inclination=np.pi / 2,
        time_of_transit=[1.0, 2.0],
    )
    for i, time in enumerate([1.0, 2.0]):
        x, v = orbit.state(GM)
        x, _ = nbody.kepler_step(x, v, time, GM)
        # edge-on along z, with the node along x: behind is z > 0
        np.testing.assert_allclose(x[i, :2], 0, atol=1e-14)
        assert x[i, 2] < 0


@pytest.mark.parametrize(
    "place", [{"mean_anomaly": 2.0}, {"eccentric_anomaly": 0.8}, {"true_anomaly": 0.9}]
)
def test_hyperbolas_agree_with_rebound(place):
    short = {"mean_anomaly": "M", "eccentric_anomaly": "E", "true_anomaly": "f"}
    ((name, value),) = place.items()
    exact, _ = rebound_state(a=-A, e=1.5, omega=OMEGA, **{short[name]: value})
    orbit = Orbit(
        semi_major_axis=-A, eccentricity=1.5, argument_of_pericenter=OMEGA, **place
    )
    np.testing.assert_allclose(orbit.state(GM), exact, atol=1e-12)


CIRCLES = (
    {"e_cos_omega": 0.0, "e_sin_omega": 0.0, "inclination": 0.0, "mean_longitude": 0.3},
    {"h": 0.0, "k": 0.0, "ix": 0.0, "iy": 0.0, "mean_longitude": 0.3},
    {"h": 0.0, "k": 0.0, "inclination": np.pi / 2, "time_of_transit": 0.3},
    {
        "e_cos_omega": 0.0,
        "e_sin_omega": 0.0,
        "inclination": 1.0,
        "time_of_transit": 0.3,
    },
    {"eccentricity": 0.0, "argument_of_pericenter": 0.2, "mean_longitude": 0.0},
    {"eccentricity": 0.0, "inclination": 0.0, "mean_anomaly": 0.0},
)


@pytest.mark.parametrize(
    "circle",
    [
        pytest.param(circle, id="-".join(circle), marks=[pytest.mark.slow] * (i != 2))
        for i, circle in enumerate(CIRCLES)
    ],
)
def test_derivatives_are_right_at_circles_in_both_modes(circle):
    orbit = Orbit(period=2.0, **circle)
    state = jax.jit(lambda orbit, gm: orbit.state(gm))
    if "eccentricity" not in circle:
        found = taylor_test(state, orbit, jnp.asarray(GM), scale=0.05)
        assert found.passed, found
        assert found.disagreement < 1e-10
    second = jax.jit(jax.hessian(lambda orbit: jnp.sum(jnp.sin(state(orbit, GM)[0]))))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(second(orbit)))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids="-".join)
def test_taylor_remainders_fall_with_slope_two_for_every_shape(shape):
    orbit = Orbit(period=ORBIT.P, **shape, **TILTS[0], **PLACES[5], epoch=EPOCH)
    state = jax.jit(lambda orbit, gm: orbit.state(gm))
    found = taylor_test(state, orbit, jnp.asarray(GM), scale=0.05)
    assert found.passed, found
    assert found.disagreement < 1e-10


def test_square_root_forms_have_no_slope_at_a_circle():
    orbit = Orbit(
        period=2.0, sqrt_e_cos_omega=0.0, sqrt_e_sin_omega=0.0, mean_longitude=0.3
    )
    circle = Orbit(period=2.0, mean_longitude=0.3).state(GM)
    np.testing.assert_allclose(orbit.state(GM), circle, atol=1e-15)
    slope = jax.jit(jax.jacfwd(lambda orbit: orbit.state(GM)))(orbit)
    for name in ("sqrt_e_cos_omega", "sqrt_e_sin_omega"):
        np.testing.assert_array_equal([getattr(s, name) for s in slope], 0)


def test_anomalies_beside_vectors_are_finite_at_a_circle():
    orbits = [
        Orbit(period=2.0, e_cos_omega=0.0, e_sin_omega=0.0, **place)
        for place in PLACES[:3] + PLACES[4:5]
    ]

    def total(orbits):
        return sum(jnp.sum(jnp.sin(orbit.state(GM)[0])) for orbit in orbits)

    slopes = jax.jit(jax.grad(total))(orbits)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))


def test_single_precision_keeps_its_type_and_digits():
    given = {**SHAPES[2], **TILTS[0], **PLACES[5], "period": ORBIT.P}
    single = {k: jnp.asarray(v, jnp.float32) for k, v in given.items()}
    orbit = Orbit(**single, epoch=EPOCH)
    x, v = orbit.state(jnp.float32(GM))
    assert x.dtype == v.dtype == jnp.float32
    # three periods of eight roundings each
    np.testing.assert_allclose([x, v], EXACT, atol=1e-5)


def test_orbits_keep_what_they_are_given_as_leaves_and_batch():
    orbits = Orbit(period=[1.0, 2.0, 3.0], inclination=0.1, mean_longitude=0.2)
    assert orbits.shape == (3,)
    assert sorted(leaf.shape for leaf in jax.tree.leaves(orbits)) == [(), (), (3,)]
    periods = jnp.array([1.0, 2.0, 3.0])
    many = jax.vmap(
        lambda P: Orbit(period=P, inclination=0.1, mean_longitude=0.2).state(GM)[0]
    )(periods)
    np.testing.assert_allclose(many, orbits.state(GM)[0], atol=1e-15)


def test_traced_impossible_orbits_are_nan():
    def state(**given):
        return Orbit(mean_longitude=0.0, **given).state(1.0)

    for given in (
        {"period": -1.0, "h": 0.1},
        {"period": -1.0, "eccentricity": 0.1},
        {"period": 1.0, "h": 1.1},
        {"period": 1.0, "eccentricity": 1.1},
        {"period": 1.0, "h": 0.1, "ix": 2.0, "iy": 1.0},
    ):
        assert np.all(np.isnan(jax.jit(state)(**given)))
