"""Orbital elements and states, both ways, and nonsingular elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rebound

from diffsim import nbody
from diffsim.simulations import failures_as_nan
from diffsim.verify import taylor_test


GM = 1.7
NAMES = (
    "semi_major_axis",
    "eccentricity",
    "inclination",
    "longitude_of_ascending_node",
    "argument_of_pericenter",
    "true_anomaly",
)
#: REBOUND's names for them, and for Pál's.
THEIRS = ("a", "e", "inc", "Omega", "omega", "f")
PAL = {
    "semi_major_axis": "a",
    "h": "pal_h",
    "k": "pal_k",
    "ix": "pal_ix",
    "iy": "pal_iy",
    "mean_longitude": "l",
}


def orbits(count, *, open=False, seed=0):
    random = np.random.default_rng(seed)
    e = random.uniform(1.05, 3, count) if open else random.uniform(0.01, 0.95, count)
    widest = np.arccos(-1 / e) if open else np.full(count, np.pi)
    return {
        "semi_major_axis": random.uniform(0.5, 3, count) * (-1 if open else 1),
        "eccentricity": e,
        "inclination": random.uniform(0.01, 3.1, count),
        "longitude_of_ascending_node": random.uniform(-np.pi, np.pi, count),
        "argument_of_pericenter": random.uniform(-np.pi, np.pi, count),
        "true_anomaly": random.uniform(-0.9, 0.9, count) * widest,
    }


def theirs(x, v):
    """REBOUND's orbit of a massless particle about GM."""
    simulation = rebound.Simulation()
    simulation.G = GM
    simulation.add(m=1.0)
    simulation.add(
        **dict(zip(("x", "y", "z", "vx", "vy", "vz"), (*x, *v), strict=True))
    )
    return simulation.particles[1].orbit(primary=simulation.particles[0])


def same_angle(found, exact, atol):
    np.testing.assert_allclose(
        np.exp(1j * found), np.exp(1j * exact), rtol=0, atol=atol
    )


@pytest.mark.parametrize("open", [False, True])
def test_states_and_elements_agree_with_rebound(open):
    given = orbits(50, open=open)
    x, v = nbody.Elements(**given).state(GM)
    back = nbody.Elements.from_state(x, v, GM)
    for i in range(50):
        orbit = theirs(x[i], v[i])
        simulation = rebound.Simulation()
        simulation.G = GM
        simulation.add(m=1.0)
        simulation.add(**{b: given[a][i] for a, b in zip(NAMES, THEIRS, strict=True)})
        exact = simulation.particles[1]
        # ten roundings at pericenters of 1 − e = 0.05
        np.testing.assert_allclose(x[i], exact.xyz, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(v[i], exact.vxyz, rtol=1e-13, atol=1e-13)
        for ours, name in zip(NAMES, THEIRS, strict=True):
            found, exact = getattr(back, ours)[i], getattr(orbit, name)
            compare = np.testing.assert_allclose if name in "ae" else same_angle
            compare(found, exact, atol=1e-11)
        same_angle(back.mean_anomaly[i], orbit.M, 1e-11)


@pytest.mark.parametrize("open", [False, True])
def test_elements_to_state_to_elements_is_the_identity(open):
    given = orbits(50, open=open, seed=1)
    back = nbody.Elements.from_state(*nbody.Elements(**given).state(GM), GM)
    for name in NAMES:
        # ω is lost with e, Ω with sin i, a with 1 − e
        np.testing.assert_allclose(getattr(back, name), given[name], rtol=0, atol=1e-11)


@pytest.mark.parametrize("open", [False, True])
def test_mean_and_true_anomaly_are_inverse(open):
    given = orbits(50, open=open, seed=2)
    mean = nbody.Elements(**given).mean_anomaly
    del given["true_anomaly"]
    mean = mean if open else mean + 4 * np.pi
    there = nbody.Elements.from_mean_anomaly(mean, **given)
    np.testing.assert_allclose(there.mean_anomaly, mean, rtol=1e-13, atol=1e-13)
    if not open:  # turn for turn
        assert np.all(np.abs(there.true_anomaly - 4 * np.pi) <= np.pi)


def test_mean_anomaly_grows_linearly_in_time():
    for open in (False, True):
        given = orbits(50, open=open, seed=3)
        orbit = nbody.Elements(**given)
        x, v = nbody.kepler_step(*orbit.state(GM), 0.3, GM)
        later = nbody.Elements.from_state(x, v, GM)
        rate = np.sqrt(GM / np.abs(given["semi_major_axis"]) ** 3)
        grown = later.mean_anomaly - orbit.mean_anomaly
        # a = 3 and e = 0.95 lose a hundred roundings
        same_angle(grown, 0.3 * rate, 1e-12)


def test_undefined_angles_of_circular_and_planar_orbits_are_zero():
    orbit = nbody.Elements.from_state([0.0, 2.0, 0.0], [-(0.5**0.5), 0.0, 0.0], 1.0)
    found = [getattr(orbit, name) for name in NAMES]
    np.testing.assert_allclose(sum(found[3:]), np.pi / 2, rtol=1e-15)
    np.testing.assert_allclose(found[:4], [2.0, 0.0, 0.0, 0.0], atol=1e-15)


def regular(count, seed=4):
    random = np.random.default_rng(seed)
    return {
        "semi_major_axis": random.uniform(0.5, 3, count),
        "h": random.uniform(-0.5, 0.5, count),
        "k": random.uniform(-0.5, 0.5, count),
        "ix": random.uniform(-1, 1, count),
        "iy": random.uniform(-1, 1, count),
        "mean_longitude": random.uniform(-np.pi, np.pi, count),
    }


def test_nonsingular_elements_agree_with_rebound_and_invert():
    given = regular(50)
    x, v = nbody.NonsingularElements(**given).state(GM)
    back = nbody.NonsingularElements.from_state(x, v, GM)
    for name in PAL:
        np.testing.assert_allclose(getattr(back, name), given[name], rtol=0, atol=1e-13)
    for i in range(50):
        orbit = theirs(x[i], v[i])
        for name, key in PAL.items():
            compare = same_angle if key == "l" else np.testing.assert_allclose
            compare(given[name][i], getattr(orbit, key), atol=1e-12)


FLAT = jnp.array([1.3, 0.0, 0.0, 0.0, 0.0, 0.7])


def state_of(leaves):
    orbit = nbody.NonsingularElements(**dict(zip(PAL, leaves, strict=True)))
    return jnp.concatenate(orbit.state(GM))


def elements_of(y):
    orbit = nbody.NonsingularElements.from_state(y[:3], y[3:], GM)
    return jnp.stack([getattr(orbit, name) for name in PAL])


def test_nonsingular_elements_are_smooth_at_circular_planar_orbits():
    @jax.jit
    def everything(flat):
        y = state_of(flat)
        return elements_of(y), jax.jacfwd(state_of)(flat), jax.jacfwd(elements_of)(y)

    same, there, here = everything(FLAT)
    np.testing.assert_allclose(same, FLAT, atol=1e-15)
    np.testing.assert_allclose(here @ there, np.eye(6), atol=1e-13)
    # F = λ + k sin λ − h cos λ to first order, in x = a (cos F − k)
    a, sine, cosine = FLAT[0], np.sin(FLAT[5]), np.cos(FLAT[5])
    np.testing.assert_allclose(there[0, 2], -a * (1 + sine**2), rtol=1e-13)
    np.testing.assert_allclose(there[0, 1], a * sine * cosine, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
def test_second_derivatives_are_right_at_circular_planar_orbits(outer):
    def loss(z):
        return jnp.sum(jnp.sin(elements_of(state_of(z))))

    second = jax.jit(outer(jax.grad(loss)))(FLAT)
    np.testing.assert_allclose(second, np.diag(-np.sin(FLAT)), atol=1e-12)


def test_taylor_remainders_fall_with_slope_two_in_every_leaf():
    @jax.jit
    def state(orbit, gm):
        return orbit.state(gm)

    pairs = zip(orbits(2).values(), orbits(2, open=True).values(), strict=True)
    conics = [np.concatenate(pair) for pair in pairs]
    # a circle in the plane as well
    pairs = zip(regular(2).values(), [2.0, 0, 0, 0, 0, 1], strict=True)
    round = [np.append(*pair) for pair in pairs]
    for orbit in (
        nbody.Elements(**dict(zip(NAMES, conics, strict=True))),
        nbody.NonsingularElements(**dict(zip(PAL, round, strict=True))),
    ):
        found = taylor_test(state, orbit, jnp.asarray(GM), scale=0.1)
        assert found.passed, found
        assert found.disagreement < 1e-10


@pytest.mark.parametrize("jacobi", [False, True])
def test_bodies_from_elements_agree_with_rebound(jacobi):
    masses = [1.0, 0.1, 0.02, 0.003]
    given = orbits(3, seed=7)
    bodies = nbody.Bodies.from_elements(
        masses, nbody.Elements(**given), G=GM, jacobi=jacobi, names="abcd"
    )
    simulation = rebound.Simulation()
    simulation.G = GM
    simulation.add(m=masses[0])
    for i, mass in enumerate(masses[1:]):
        orbit = {b: given[a][i] for a, b in zip(NAMES, THEIRS, strict=True)}
        primary = {} if jacobi else {"primary": simulation.particles[0]}
        simulation.add(m=mass, **orbit, **primary)
    simulation.move_to_com()
    for i, particle in enumerate(simulation.particles):
        np.testing.assert_allclose(bodies.positions[i], particle.xyz, atol=1e-13)
        np.testing.assert_allclose(bodies.velocities[i], particle.vxyz, atol=1e-13)
    assert bodies.names == ("a", "b", "c", "d")


@pytest.mark.slow
def test_bodies_have_gradients_by_masses_and_elements():
    @jax.jit
    def start(masses, orbit):
        bodies = nbody.Bodies.from_elements(masses, orbit)
        return bodies.positions, bodies.velocities

    masses = jnp.array([1.0, 0.1, 0.02, 0.003])
    found = taylor_test(start, masses, nbody.Elements(**orbits(3, seed=8)))
    assert found.passed, found


def test_derivatives_of_elements_are_finite_at_circles_in_a_plane_and_parabolas():
    c, s = np.cos(0.5), np.sin(0.5)
    speeds = [[0, 1.0, 0], [0, c, s], [0, 1.2, 0], [0, 1.2 * c, 1.2 * s]]

    def found(v):
        orbit = nbody.Elements.from_state(jnp.array([1.0, 0, 0]), v, 1.0)
        return orbit.semi_major_axis, jnp.stack(jax.tree.leaves(orbit)[1:])

    def derivatives(v):
        return jax.jacfwd(found)(v), jax.jacrev(found)(v), jax.hessian(found)(v)

    # Of a parabola a is infinite; the rest is not.
    every = jax.jit(jax.vmap(derivatives))(jnp.array([*speeds, [0, 2**0.5, 0]]))
    (_, parabola), *_ = jax.tree.map(lambda leaf: leaf[-1], every)
    assert np.isfinite(parabola).all()
    forward, reverse, second = jax.tree.map(lambda leaf: leaf[:-1], every)
    v = np.array(speeds)
    a = 1 / (2 - jnp.sum(v * v, 1, keepdims=True))
    for size, others in (forward, reverse):
        np.testing.assert_allclose(size, 2 * a**2 * v, rtol=1e-13, atol=1e-14)
        assert np.isfinite(others).all()
    np.testing.assert_allclose(forward[1], reverse[1], rtol=1e-12, atol=1e-12)
    assert all(np.isfinite(leaf).all() for leaf in second)


def test_states_of_elements_that_are_not_finite_raise_value_error():
    with pytest.raises(ValueError, match="eccentricity must be finite, got nan"):
        nbody.Elements(semi_major_axis=1.0, eccentricity=np.nan).state(1.0)
    with pytest.raises(ValueError, match="mean_longitude must be finite, got nan"):
        nbody.NonsingularElements(semi_major_axis=1.0, mean_longitude=np.nan).state(1.0)
    # Elements of a parabola can be looked at, and do not say where the body is.
    parabola = nbody.Elements.from_state([2.0, 0, 0], [0, 1.0, 0], 1.0)
    assert parabola.eccentricity == 1 and np.isinf(parabola.semi_major_axis)
    with pytest.raises(ValueError, match="got inf; of a parabola give the position"):
        parabola.state(1.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"semi_major_axis": -1.0, "h": 0.2}, "semi_major_axis must be positive"),
        ({"semi_major_axis": [1.0, 0.0]}, "semi_major_axis must be positive, got 0"),
        (
            {"semi_major_axis": 1.0, "h": 0.8, "k": 0.6},
            "below 1, got 0.8² \\+ 0.6²",
        ),
        ({"semi_major_axis": 1.0, "ix": 2.0, "iy": 1.0}, "at most 4, .* got 2² "),
    ],
)
def test_nonsingular_elements_of_unbound_orbits_raise_or_are_nan(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.NonsingularElements(**given).state(1.0)
    for part in jax.jit(lambda g: nbody.NonsingularElements(**g).state(1.0))(
        jax.tree.map(jnp.asarray, given, is_leaf=lambda x: isinstance(x, list))
    ):
        assert np.all(np.isnan(np.atleast_2d(part)[-1]))


@pytest.mark.parametrize(
    ("a", "e", "f"), [(1.0, 1.2, 0.0), (-1.0, 0.2, 0.0), (-1.0, 2.0, 3.0), (1, -0.1, 0)]
)
def test_traced_elements_of_impossible_orbits_are_nan(a, e, f):
    @jax.jit
    def state(a, e, f):
        orbit = nbody.Elements(semi_major_axis=a, eccentricity=e, true_anomaly=f)
        return orbit.state(1.0)

    assert np.all(np.isnan(state(a, e, f)))
    assert np.all(np.isnan(jax.jacfwd(state)(float(a), e, f)[0]))


def test_traced_negative_gm_is_nan():
    for orbit in (
        nbody.Elements(semi_major_axis=1.0),
        nbody.NonsingularElements(semi_major_axis=1.0),
    ):
        assert np.all(np.isnan(jax.jit(lambda gm, orbit=orbit: orbit.state(gm))(-1.0)))
        with pytest.raises(ValueError, match="gm must not be negative, got -1"):
            orbit.state(-1.0)


def test_large_mean_anomaly_is_not_taken_for_degrees(recwarn):
    orbit = nbody.Elements.from_mean_anomaly(
        1e6, semi_major_axis=[1.0, 2.0], eccentricity=0.1
    )
    assert not recwarn.list
    np.testing.assert_allclose(orbit.mean_anomaly, [1e6, 1e6], rtol=1e-15)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_inclination_of_pi_is_allowed(dtype):
    nbody.Elements(semi_major_axis=1.0, inclination=jnp.asarray(np.pi, dtype))
    nbody.Elements.from_state([1.0, 0, 0], [0, -1.0, 0], 1.0)


def test_inclinations_that_are_none_raise_where_failures_are_nan():
    # Their state would be finite, and nothing would tell.
    refused = pytest.raises(ValueError, match="inclination must be from 0 to pi")
    with failures_as_nan(), refused:
        nbody.Elements(semi_major_axis=1.0, inclination=4.0)
