"""Transits: times and derivatives of quadruple precision, REBOUND's, closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from rows import first_plain

import diffsim as ds
from diffsim import integrators, nbody
from diffsim.nbody._transits import length


#: Computed in quadruple precision by an independent Taylor integrator.
FIRST, FIFTIETH = 6.07918107965566060, 313.953762998026091
BY_MASSES = -156.727601416063990, -2.75310076709987761
ALONG_X = (1, 0, 0)


def coplanar(masses):
    orbits = nbody.Elements(
        semi_major_axis=[1.0, 1.757],
        eccentricity=[0.1, 0.0],
        argument_of_pericenter=[0.25, 0.0],
    )
    masses = jnp.concatenate([jnp.ones(1), masses])
    return nbody.NBody(nbody.Bodies.from_elements(masses, orbits, jacobi=True))


def inclined(mass=1e-3):
    orbits = nbody.Elements(
        semi_major_axis=[1.0, 1.6],
        eccentricity=[0.2, 0.1],
        inclination=[1.56, 1.54],
        longitude_of_ascending_node=[0.0, 0.3],
        argument_of_pericenter=[0.5, 2.0],
        true_anomaly=[1.0, 4.0],
    )
    names = ["star", "b", "c"]
    bodies = nbody.Bodies.from_elements([1.0, mass, mass], orbits, names=names)
    return nbody.NBody(bodies)


def pair(masses, *, inclination=np.pi / 2):
    """Two bodies on a circle, a = 1; the second passes the first at 3π/2, 7π/2, ..."""
    orbit = nbody.Elements(semi_major_axis=[1.0], inclination=[inclination])
    G = 1 / sum(masses)
    return nbody.NBody(nbody.Bodies.from_elements(masses, orbit, G=G), nbody.Gravity(G))


def fiftieth(masses):
    epochs = {1: [0, 49]}
    found = nbody.transit_times(coplanar(masses), epochs, until=320.0, observer=ALONG_X)
    return found.times[1]


MASSES = jnp.array([1e-5, 1e-5])


def test_times_and_their_derivatives_are_those_of_quadruple_precision():
    both = jax.jacfwd(lambda m: 2 * (fiftieth(m),), has_aux=True)
    slopes, times = jax.jit(both)(MASSES)
    np.testing.assert_allclose(times, [FIRST, FIFTIETH], rtol=1e-11)
    np.testing.assert_allclose(slopes[1], BY_MASSES, rtol=1e-8)


@pytest.mark.slow
def test_gradient_of_a_time_is_that_of_quadruple_precision():
    slopes = jax.jit(jax.grad(lambda m: fiftieth(m)[1]))(MASSES)
    np.testing.assert_allclose(slopes, BY_MASSES, rtol=1e-8)


@pytest.mark.slow
def test_second_derivative_of_a_time_is_the_difference_of_first_ones():
    def second(mass):
        system, epochs = inclined(mass), {"b": [1], "c": [0]}
        return nbody.transit_times(system, epochs, until=20.0).times["b"][0]

    @jax.jit
    def derivatives(mass):
        slope, by_reverse = jax.jvp(jax.grad(second), (mass,), (1.0,))
        return slope, by_reverse, jax.jacfwd(jax.jacfwd(second))(mass)

    step = 1e-6
    ahead, behind = (derivatives(1e-3 + h)[0] for h in (step, -step))
    for curvature in derivatives(1e-3)[1:]:
        np.testing.assert_allclose(curvature, (ahead - behind) / (2 * step), rtol=1e-5)


def rebound_times(system, planet, until, sign):
    """Least separations on the sky on one side of the star, by IAS15 and bisection."""
    simulation = system.to_rebound()
    simulation.integrator = "ias15"

    def sky(t):
        simulation.integrate(t)
        star, other = simulation.particles[0], simulation.particles[planet]
        d, w = (
            np.subtract(getattr(other, part), getattr(star, part))
            for part in ("xyz", "vxyz")
        )
        return d[:2] @ w[:2], sign * d[2], np.hypot(*d[:2])

    grid = np.arange(0.0, until, 0.05)
    values = np.array([sky(t) for t in grid])
    rises = (values[:-1, 0] < 0) & (values[1:, 0] >= 0) & (values[:-1, 1] < 0)
    times = [
        scipy.optimize.brentq(lambda t: sky(t)[0], grid[i], grid[i + 1], xtol=1e-14)
        for i in np.flatnonzero(rises)
    ]
    return np.array(times), np.array([sky(t)[2] for t in times])


@pytest.fixture(scope="module")
def every():
    return nbody.transit_times(inclined(), until=30.0)


@pytest.mark.parametrize("occultations", first_plain([False, True]))
def test_transits_of_inclined_planets_are_those_of_rebound(occultations, every):
    system, found = inclined(), every
    if occultations:
        found = nbody.transit_times(system, until=30.0, occultations=True)
    assert found.planets == ("b", "c")
    for planet, name in ((1, "b"), (2, "c")):
        times, separations = rebound_times(system, planet, 30.0, 1 - 2 * occultations)
        assert len(times) == len(found.times[name]) >= 2
        np.testing.assert_array_equal(found.epochs[name], np.arange(len(times)))
        np.testing.assert_allclose(found.times[name], times, rtol=1e-10)
        np.testing.assert_allclose(found.separations[name], separations, rtol=1e-9)


def test_epochs_of_the_data_are_those_among_all(every):
    epochs = {"c": [1], "b": [0, 2, 3]}
    some = nbody.transit_times(inclined(), epochs, until=30.0)
    for name, numbers in epochs.items():
        among = every.times[name][np.array(numbers)]
        np.testing.assert_allclose(some.times[name], among)
        np.testing.assert_array_equal(some.epochs[name], numbers)


@pytest.mark.slow
def test_eclipses_of_equal_stars_are_half_a_period_apart():
    system, first = pair([1.0, 1.0]), 1.5 * np.pi
    times = [
        nbody.transit_times(system, 1, until=13.0).times[1],
        nbody.transit_times(system, 0, star=1, until=13.0).times[0],
        nbody.transit_times(system, 1, until=13.0, occultations=True).times[1],
    ]
    np.testing.assert_allclose(times[0], [first, first + 2 * np.pi], rtol=1e-11)
    np.testing.assert_allclose(times[1], times[0] - np.pi, rtol=1e-11)
    np.testing.assert_allclose(times[2], times[0] - np.pi, rtol=1e-11)


def test_a_star_passes_behind_its_equal_where_that_transits():
    system, options = pair([1.0, 1.0]), {"star": 1, "occultations": True}
    found = nbody.transit_times(system, 0, until=13.0, **options).times[0]
    np.testing.assert_allclose(found, np.array([1.5, 3.5]) * np.pi, rtol=1e-11)


@pytest.mark.parametrize("radius", [0.05, 0.2])
def test_durations_and_impact_parameters_of_a_circle(radius):
    """On the sky the planet is at (sin θ, cos θ cos i), and crosses a disc."""
    inclination, planet = np.pi / 2 - 0.4 * radius, 0.1 * radius
    system = pair([1.0, 1e-3], inclination=inclination)
    found = nbody.transit_times(
        system, until=13.0, star_radius=radius, planet_radius={1: planet}
    )
    np.testing.assert_allclose(
        found.impact_parameters[1], np.cos(inclination) / radius, rtol=1e-9
    )
    chord = np.sqrt((radius + planet) ** 2 - np.cos(inclination) ** 2)
    duration = 2 * np.arcsin(chord / np.sin(inclination))
    np.testing.assert_allclose(found.durations[1], duration, rtol=1e-8)
    np.testing.assert_allclose(found.speeds[1], 1.0, rtol=1e-9)


def test_derivatives_of_durations_are_those_of_the_closed_form():
    def duration(radius):
        found = nbody.transit_times(
            pair([1.0, 1e-3], inclination=1.55),
            {1: [1]},
            until=13.0,
            star_radius=radius,
            method=ds.Method(integrators.KahanLi8(), step=0.1),
        )
        return found.durations[1][0]

    def exact(radius):
        chord = jnp.sqrt(radius**2 - np.cos(1.55) ** 2)
        return 2 * jnp.arcsin(chord / np.sin(1.55))

    have, want = (jax.jit(jax.value_and_grad(f))(0.1) for f in (duration, exact))
    np.testing.assert_allclose(have, want, rtol=1e-8)


def test_lengths_of_nothing_have_no_slope():
    nothing = jnp.zeros((2, 3))
    slope = jax.jit(jax.jacrev(length))
    np.testing.assert_array_equal(slope(nothing), np.zeros((2, 2, 3)))
    along = jax.jit(lambda x: jax.jvp(length, (x,), (x + 1,))[1])(nothing)
    np.testing.assert_array_equal(along, np.zeros(2))


@pytest.mark.slow
def test_derivatives_are_finite_for_central_transits_of_massless_circles():
    def seen(mass):
        orbit = nbody.Elements(semi_major_axis=[1.0])
        masses = jnp.stack([jnp.ones(()), mass])
        system = nbody.NBody(nbody.Bodies.from_elements(masses, orbit))
        found = nbody.transit_times(
            system, {1: [0]}, until=7.0, observer=(0, 1, 0), star_radius=0.1, c=1e3
        )
        return found.times[1], found.separations[1], found.durations[1]

    for derivative in (jax.jacfwd, jax.jacrev):
        slopes = jax.jit(derivative(seen))(jnp.zeros(()))
        assert np.all(np.isfinite(slopes))


@pytest.mark.parametrize("masses", [(1.0, 1e-3), (1.0, 1.0)])
def test_light_travel_time_is_that_of_the_retarded_equation(masses):
    """Both on circles: solved for the two times at which light left by SciPy."""
    c, total = 50.0, sum(masses)
    system = pair(list(masses), inclination=1.5)
    shares = masses[0] / total, -masses[1] / total

    def body(t, share, turn=0.0):
        x, y = share * np.cos(t + turn), share * np.sin(t + turn)
        return np.array([x, y * np.cos(1.5), y * np.sin(1.5)])

    def left(seen, share):
        return scipy.optimize.brentq(
            lambda t: t + body(t, share)[2] / c - seen, seen - 1, seen + 1, xtol=1e-15
        )

    def apparent(seen, share):
        t = left(seen, share)
        velocity = body(t, share, np.pi / 2)
        return body(t, share)[:2], velocity[:2] / (1 + velocity[2] / c)

    def rate(seen):
        planet, star = (apparent(seen, s) for s in shares)
        return (planet[0] - star[0]) @ (planet[1] - star[1])

    guess = 1.5 * np.pi - masses[0] / total / c
    expected = scipy.optimize.brentq(rate, guess - 0.2, guess + 0.2, xtol=1e-14)
    found = nbody.transit_times(system, {1: [0]}, until=7.0, c=c)
    np.testing.assert_allclose(found.times[1], expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        ds.Method(integrators.KahanLi8(), step=0.1),
        ds.Method(integrators.Yoshida6(), step=0.05),
    ],
)
def test_fixed_steps_give_the_same_times(method, every):
    epochs = {"b": [0, 3], "c": [1]}
    found = nbody.transit_times(inclined(), epochs, until=30.0, method=method)
    for name, numbers in epochs.items():
        other = every.times[name][np.array(numbers)]
        np.testing.assert_allclose(found.times[name], other, rtol=1e-8)


@pytest.mark.parametrize(
    "solver",
    first_plain([integrators.KahanLi8(), nbody.WisdomHolman()]),
    ids=lambda solver: type(solver).__name__,
)
def test_transits_at_the_end_of_a_step_are_found(solver):
    """Forty steps lead around."""
    method = ds.Method(solver, step=np.pi / 20)
    found = nbody.transit_times(pair([1.0, 1e-6]), until=26.0, method=method)
    exact = np.pi * np.array([1.5, 3.5, 5.5, 7.5])
    np.testing.assert_allclose(found.times[1], exact, rtol=1e-10)


def test_a_binary_of_equal_stars_is_bound():
    """At its pericenter, where one is faster than would do to escape a fixed star."""
    orbit = nbody.Elements(semi_major_axis=[1.0], eccentricity=[0.3])
    G = 1 / 2
    stars = nbody.Bodies.from_elements([1.0, 1.0], orbit, G=G)
    system = nbody.NBody(stars, nbody.Gravity(G))
    found = nbody.transit_times(system, 1, until=20.0, observer=ALONG_X).times[1]
    np.testing.assert_allclose(np.diff(found), 2 * np.pi, rtol=1e-9)


@pytest.mark.slow
def test_systems_of_a_batch_have_their_own_times():
    def times(mass):
        return nbody.transit_times(inclined(mass), {"b": [0, 2]}, until=20.0).times["b"]

    masses = jnp.array([1e-4, 1e-3, 2e-3])
    found = jax.jit(jax.vmap(times))(masses)
    np.testing.assert_allclose(found, [times(m) for m in masses], rtol=1e-12)


def test_times_count_from_the_epoch_of_the_system():
    system = pair([1.0, 1e-3])
    later = nbody.NBody(system.bodies, system.forces, t0=1000.0)
    found = nbody.transit_times(later, until=1013.0).times[1]
    own = np.array([1.5, 3.5]) * np.pi
    np.testing.assert_allclose(found - 1000.0, own, rtol=1e-11)


def single():
    return jax.tree.map(
        lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a,
        pair([1.0, 1e-3]),
    )


def test_single_precision_keeps_its_type():
    def seen(system):
        return nbody.transit_times(system, {1: [0]}, until=7.0, star_radius=0.1, c=1e3)

    found = eqx.filter_eval_shape(seen, single())
    assert found.times[1].dtype == found.durations[1].dtype == np.float32


@pytest.mark.slow
def test_single_precision_keeps_three_digits():
    found = nbody.transit_times(single(), until=7.0, star_radius=0.1, c=1e3)
    np.testing.assert_allclose(found.times[1], 1.5 * np.pi, rtol=1e-3)


def test_epoch_that_does_not_happen_fails():
    system, epochs = inclined(), {"b": [0, 40], "c": [0]}
    with pytest.raises(
        RuntimeError,
        match=r"b has 5 transits before until = 30, and epo.* comes within .* of it",
    ):
        nbody.transit_times(system, epochs, until=30.0)
    with ds.simulations.failures_as_nan():
        found = nbody.transit_times(system, epochs, until=30.0)
    assert found.result == ds.RESULTS.transit_missing
    assert np.all(np.isnan(found.times["c"]))


@pytest.mark.slow
def test_epoch_that_does_not_happen_fails_inside_jit():
    @eqx.filter_jit
    def inside(mass):
        return nbody.transit_times(inclined(mass), {"b": [40]}, until=30.0).times

    with pytest.raises(RuntimeError, match="does not happen before `until`"):
        jax.block_until_ready(inside(jnp.asarray(1e-3)))


def unbound():
    bodies = nbody.Bodies([1.0, 0.0], jnp.eye(2, 3), [[0, 0, 0], [0, 2.0, 0]])
    return nbody.NBody(bodies)


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ("d", {}, "planets must be a body, by its name .* 'star', 'b', 'c'"),
        (["b", "star"], {}, "planets must be one or several, which differ"),
        (["b", "b"], {}, "planets must be one or several, which differ"),
        ([], {}, "planets must be one or several"),
        ({"b": [2, 1]}, {}, "epochs of planet 'b' must be integers that ascend"),
        ({"b": [0.5]}, {}, "epochs of planet 'b' must be integers"),
        ({"b": [-1]}, {}, "epochs of planet 'b' must be integers that ascend from 0"),
        ("b", {"until": -1.0}, "until must lie after t0 = 0"),
        ("b", {"until": np.inf}, "until must be finite, got inf"),
        ("b", {"star_radius": 0.0}, "star_radius must be positive, got 0"),
        ("b", {"star_radius": 1.0, "planet_radius": -1.0}, "planet_radius must not be"),
        ("b", {"star_radius": 1e-4}, "b never transits: it passes 0.0.* of its radii"),
        ("b", {"c": 0.0}, "c must be positive"),
    ],
)
def test_invalid_arguments_of_transit_times_raise_value_error(given, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.transit_times(inclined(), given, **{"until": 10.0, **options})


def test_julian_dates_in_single_precision_warn():
    dated = eqx.tree_at(lambda s: s.t0, inclined(), 2459000.0)
    with (
        jax.enable_x64(False),
        pytest.warns(
            UserWarning,
            match=r"transits near 2459010 come back in float32, .* 0\.25 there",
        ),
        pytest.raises(ValueError, match="planets must be a body"),
    ):
        nbody.transit_times(dated, "d", until=2459010.0)


def test_what_has_no_transits_is_said():
    together = nbody.Bodies([1.0, 0.1], np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match="bodies 0 and 1, were 0 apart at t = 0"):
        nbody.transit_times(nbody.NBody(together), until=10.0)
    assert nbody.transit_times(unbound(), until=10.0).times[1].size == 0
    with pytest.raises(ValueError, match="must say which epochs where the system is"):
        jax.jit(lambda m: nbody.transit_times(inclined(m), until=9.0).times)(1e-3)


@pytest.mark.slow
def test_how_close_a_planet_comes_is_said_where_it_never_transits():
    seen_from_above = pair([1.0, 1e-3], inclination=0.0)
    with pytest.raises(RuntimeError, match=r"0 transits .* comes within 1 of it"):
        nbody.transit_times(seen_from_above, {1: [0]}, until=30.0)
