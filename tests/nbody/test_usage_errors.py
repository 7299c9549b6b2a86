"""Common mistakes of users, and the errors they raise."""

import os
import warnings

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import nbody
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


class Quantity(np.ndarray):
    """As Astropy has it: an array that knows its unit, and loses it silently."""

    unit = "km"

    def to_value(self, unit):
        return np.asarray(self)


class Magnitude:
    """As Pint has it."""

    units = "kilometer"

    def m_as(self, unit):
        return np.ones(3)

    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


def quantity(values):
    return np.asarray(values, float).view(Quantity)


_X, _V = np.eye(3)[:2], np.eye(3)[1:]
_BODIES = nbody.Bodies([1.0, 1e-3], _X, _V, names=["a", "b"])
_SYSTEM = nbody.NBody(_BODIES)
_METHOD = Method(Leapfrog(), 0.1)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("masses", lambda: nbody.Bodies(quantity([1, 2]), _X, _V)),
        ("positions", lambda: nbody.Bodies([1.0, 2.0], quantity(_X), _V)),
        ("velocities", lambda: nbody.Bodies([1.0, 2.0], _X, quantity(_V))),
        ("positions", lambda: nbody.TestParticles([quantity(x) for x in _X], _V)),
        ("G", lambda: nbody.Gravity(quantity(1.0))),
        ("softening", lambda: nbody.Gravity(1.0, quantity(1.0))),
        ("c", lambda: nbody.PostNewtonian(quantity(1.0))),
        ("t0", lambda: nbody.NBody(_BODIES, t0=quantity(1.0))),
        ("times", lambda: simulate(_SYSTEM, quantity([1.0]), _METHOD)),
        ("times", lambda: simulate(_SYSTEM, [quantity(1.0)], _METHOD)),
        ("semi_major_axis", lambda: nbody.Elements(semi_major_axis=quantity(1.0))),
        ("mean_anomaly", lambda: nbody.Elements.from_mean_anomaly(quantity(1.0))),
        ("x", lambda: nbody.elements(quantity(_X), _V, 1.0)),
        ("gm", lambda: nbody.kepler_step(_X, _V, 1.0, gm=quantity(1.0))),
        ("mean_anomaly", lambda: nbody.eccentric_anomaly(quantity(1.0), 0.1)),
        (
            "X",
            lambda: nbody.Bodies.from_table(
                {k: quantity([0.0]) for k in ("X", "Y", "Z", "VX", "VY", "VZ")}
                | {"mass": [1.0]}
            ),
        ),
    ],
)
def test_quantities_raise_value_error_and_lose_no_units(name, call):
    sentence = rf"{name} must be plain numbers .* in km; take {name}\.to_value\(unit\)"
    with pytest.raises(ValueError, match=sentence):
        call()


def test_quantities_of_pint_are_refused():
    with pytest.raises(ValueError, match=r"masses\.m_as\(unit\)"):
        nbody.Bodies([Magnitude(), Magnitude()], _X, _V)


@pytest.mark.parametrize(
    ("inclination", "sentence"),
    [
        (30.0, r"radians, got 30; if it is in degrees, take numpy\.deg2rad\(30\)"),
        ([0.1, 7.0], "got 7; if it is in degrees"),
        (-0.1, "got -0.1; turn longitude_of_ascending_node by pi instead"),
        (-30.0, "if it is in degrees"),
    ],
)
def test_inclinations_beyond_pi_raise_value_error(inclination, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.Elements(semi_major_axis=1.0, inclination=inclination)
    with pytest.raises(ValueError, match=sentence):
        nbody.Elements.from_mean_anomaly(
            1.0, semi_major_axis=1.0, inclination=inclination
        )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_inclination_of_pi_is_allowed(dtype):
    nbody.Elements(semi_major_axis=1.0, inclination=jnp.asarray(np.pi, dtype))
    nbody.elements([1.0, 0, 0], [0, -1.0, 0], 1.0)


def test_julian_dates_in_single_precision_warn():
    system = nbody.NBody(_BODIES, t0=2459000.0)
    method = Method(Leapfrog(), 0.125)
    dates = np.array([2459000.5, 2459001.0], np.float32)
    with pytest.warns(UserWarning, match=r"times near 2459001 are float32, .* 0\.25"):
        simulate(system, dates, method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(system, dates.astype(float), method)
        simulate(nbody.NBody(_BODIES), np.array([0.5, 1.0], np.float32), method)


@pytest.mark.parametrize(
    "angles",
    [
        {"longitude_of_ascending_node": 48.3, "argument_of_pericenter": 29.1},
        {"true_anomaly": [174.8, 50.1]},
        {"mean_anomaly": 174.8, "argument_of_pericenter": 29.1},
    ],
)
def test_angles_that_all_exceed_a_turn_warn(angles):
    make = nbody.Elements
    if "mean_anomaly" in angles:
        make = nbody.Elements.from_mean_anomaly
    with pytest.warns(UserWarning, match=r"all beyond 2 pi .* take numpy\.deg2rad"):
        make(semi_major_axis=1.0, **angles)


def test_some_angles_beyond_a_turn_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nbody.Elements(
            semi_major_axis=1.0, true_anomaly=[100.0, 0.3], argument_of_pericenter=9.0
        )
        nbody.Elements.from_mean_anomaly(
            50.0, semi_major_axis=1.0, argument_of_pericenter=1.0
        )
        jax.jit(lambda f: nbody.Elements(semi_major_axis=1.0, true_anomaly=f))(100.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"a": 1.0}, "a is semi_major_axis"),
        ({"a": 1.0, "e": 0.1, "inc": 0.2}, "e is eccentricity, inc is inclination"),
        ({"P": 1.0}, r"P is semi_major_axis=\(gm \* P\*\*2"),
        ({"M": 1.0}, r"M is Elements\.from_mean_anomaly"),
        ({"colour": 1.0}, "colour is no element"),
    ],
)
def test_short_names_of_elements_raise_type_error_naming_the_long_ones(given, sentence):
    for kind in (nbody.Elements, nbody.NonsingularElements):
        with pytest.raises(TypeError, match=sentence):
            kind(semi_major_axis=1.0, **given)


@pytest.mark.parametrize("kind", [nbody.Elements, nbody.NonsingularElements])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"a": 1.0}, "a is semi_major_axis"),
        ({"P": 1.0, "e": 0.1}, "P is semi_major_axis=.*, e is eccentricity"),
        ({}, "need semi_major_axis"),
    ],
)
def test_missing_semi_major_axis_raises_type_error(kind, given, sentence):
    with pytest.raises(TypeError, match=sentence):
        kind(**given)


@pytest.mark.parametrize(
    ("units", "sentence"),
    [
        ("AU, Msun, days", "did you mean 'au, Msun, day'.*'pc, Msun, km/s'"),
        ("si", "did you mean 'SI'"),
        ("furlong", r"G is not known in 'furlong': There are 'natural'"),
    ],
)
def test_unknown_units_raise_key_error_with_suggestions(units, sentence):
    with pytest.raises(KeyError, match=sentence):
        nbody.G[units]
    assert "au, Msun, day" in nbody.G
    assert nbody.G.get("furlong") is None


def test_a_trajectory_has_the_states_of_a_body_by_name():
    test_particles = nbody.TestParticles([[3.0, 0, 0]], [[0, 0.5, 0]], names=["rock"])
    system = nbody.NBody(_BODIES, test_particles=test_particles)
    trajectory = simulate(system, [0.1, 0.5], _METHOD)
    for row, name in enumerate(("a", "b", "rock")):
        found = trajectory[name]
        assert isinstance(found, nbody.State)
        np.testing.assert_array_equal(
            found.positions, trajectory.states.positions[:, row]
        )
        np.testing.assert_array_equal(
            found.velocities, trajectory.states.velocities[:, row]
        )
    assert simulate(system, 0.1, _METHOD)["b"].positions.shape == (3,)
    many = eqx.filter_vmap(
        lambda t0: simulate(
            nbody.NBody(_BODIES, t0=t0), 0.5, Method(Leapfrog(), 0.1, max_steps=9)
        )
    )(jnp.zeros(4))
    assert many["b"].positions.shape == (4, 3)


@pytest.mark.parametrize("name", ["c", 0, "states"])
def test_unknown_body_raises_key_error_listing_the_known_ones(name):
    trajectory = simulate(_SYSTEM, [0.1], _METHOD)
    with pytest.raises(KeyError, match="trajectory has a, b, got"):
        trajectory[name]
    nameless = simulate(nbody.NBody(nbody.Bodies([1.0, 0.1], _X, _V)), [0.1], _METHOD)
    with pytest.raises(KeyError, match="trajectory has no names, got 'a'"):
        nameless["a"]
    other = simulate(_SYSTEM, [0.1], _METHOD, observe=lambda t, y: y[0][0])
    with pytest.raises(KeyError, match="trajectory has state, got 'a'"):
        other["a"]


def test_names_of_a_trajectory_are_saved_with_it(tmp_path):
    trajectory = simulate(_SYSTEM, [0.1], _METHOD)
    ds.save(tmp_path / "x.eqx", trajectory)
    found = ds.load(tmp_path / "x.eqx")["b"]
    np.testing.assert_array_equal(found.positions, trajectory["b"].positions)


@pytest.mark.parametrize(
    "observable", [nbody.energy, nbody.momentum, nbody.angular_momentum]
)
def test_swapped_arguments_of_observables_raise_value_error(observable):
    state = nbody.State(jnp.asarray(_X), jnp.asarray(_V))
    sentence = rf"got a State; write nbody\.{observable.__name__}\(system, trajectory"
    with pytest.raises(ValueError, match=sentence):
        observable(state, _SYSTEM)


def _none(t, state):
    return None


@pytest.mark.parametrize(
    ("force", "sentence"),
    [
        (_none, "the acceleration by _none must be real numbers.*got None"),
        (lambda state: 0 * state.positions, r"must take \(t, state\), got a function"),
        (lambda s, t: 0 * s.positions, r"reads .positions of the time.*force\(t, sta"),
    ],
)
def test_force_with_invalid_signature_or_result_raises_value_error(force, sentence):
    with pytest.raises(ValueError, match=sentence):
        simulate(nbody.NBody(_BODIES, (nbody.Gravity(), force)), 1.0, _METHOD)


# Where annotations are checked, they object first.
@pytest.mark.slow
@pytest.mark.skipif("DIFFSIM_UNCHECKED" not in os.environ, reason="types are checked")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_steps": 10.0}, "max_steps must be an int, got 10.0"),
        ({"max_steps": True}, "max_steps must be an int, got True"),
        ({"rtol": "a"}, "rtol must be real numbers"),
        ({"throw": "no"}, "throw must be .*True, False or None, got 'no'"),
    ],
)
def test_option_of_wrong_type_raises_value_error(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        simulate(_SYSTEM, 1.0, **options)


def test_system_without_bodies_raises_value_error():
    nothing = np.zeros((0, 3))
    with pytest.raises(ValueError, match="bodies must hold at least one"):
        nbody.NBody(nbody.Bodies([], nothing, nothing))


def _star_and_comet():
    orbits = nbody.Elements(semi_major_axis=[1.0, 2.0], eccentricity=[0.0, 0.9])
    both = nbody.Bodies.from_elements([1.0, 1e-3, 0.0], orbits)
    bodies = nbody.Bodies([1.0, 1e-3], both.positions[:2], both.velocities[:2])
    return bodies, nbody.TestParticles(both.positions[2:], both.velocities[2:])


@pytest.mark.parametrize(
    "solver",
    [Leapfrog(), nbody.IAS15(), diffrax.Tsit5()],
    ids=lambda s: type(s).__name__,
)
def test_a_step_that_follows_no_orbit_warns_with_one_that_does(solver):
    bodies, light = _star_and_comet()
    planet, comet = nbody.NBody(bodies), nbody.NBody(bodies, test_particles=light)
    with pytest.warns(UserWarning, match=r"half of 6.28, .* body 1 .* 0.31, 1/20"):
        simulate(planet, 0.0, Method(solver, step=3.2))
    with pytest.warns(UserWarning, match="body 2 turns about the center where"):
        simulate(comet, 0.0, Method(solver, step=0.4))
    simulate(planet, 0.0, Method(solver, step=0.4))


def test_no_step_is_too_long_where_no_orbits_are_known():
    bodies, _ = _star_and_comet()
    pair = nbody.Bodies([1.0, 0.5], bodies.positions, bodies.velocities)
    systems = [
        nbody.NBody(bodies, nbody.Gravity(softening=0.1)),
        nbody.NBody(bodies, gravity=False, forces=lambda t, s: -s.positions),
        nbody.NBody(pair),
    ]
    method = Method(Leapfrog(), step=4.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for system in systems:
            simulate(system, 0.0, method)
        eqx.filter_jit(lambda x: simulate(x, 0.0, method))(nbody.NBody(bodies))
    assert not said
