"""The default method of bodies against REBOUND's IAS15, and recommended methods."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rebound

import diffsim as ds
from diffsim import nbody
from diffsim.integrators import KahanLi8
from diffsim.problems import solar_system
from diffsim.simulations import simulate


_YEAR = 365.25


def sun_and_nine_planets():
    """The Moon left out: its month would be the innermost orbit."""
    system = solar_system(relativity=False)
    keep = np.array([name != "Moon" for name in system.bodies.names])
    names = [name for name in system.bodies.names if name != "Moon"]
    leaves = (system.bodies.masses, system.bodies.positions, system.bodies.velocities)
    bodies = nbody.Bodies(*(np.asarray(leaf)[keep] for leaf in leaves), names=names)
    return nbody.NBody(bodies)


def two_planets(eccentricity=0.1, outer=1.7):
    planets = nbody.Elements(
        semi_major_axis=[1.0, outer],
        eccentricity=[eccentricity, 0.05],
        inclination=[0.0, 0.2],
        true_anomaly=[0.0, 1.0],
    )
    return nbody.NBody(nbody.Bodies.from_elements([1.0, 1e-3, 3e-4], planets))


def moon():
    """A star, a planet and its moon."""
    x = np.array([[0.0, 0, 0], [1.0, 0, 0], [1.0, 0.02, 0]])
    v = np.array([[0.0, 0, 0], [0.0, 1, 0], [-np.sqrt(1e-3 / 0.02), 1, 0]])
    return nbody.NBody(nbody.Bodies([1.0, 1e-3, 1e-6], x, v))


def ias15(system):
    simulation = rebound.Simulation()
    simulation.G, simulation.integrator = float(system.gravity.G), "ias15"
    bodies = system.bodies
    rows = np.column_stack([bodies.masses, bodies.positions, bodies.velocities])
    for row in rows:
        values = zip(("m", "x", "y", "z", "vx", "vy", "vz"), row, strict=True)
        simulation.add(**dict(values))
    return simulation


def innermost(system):
    distances = nbody.distances(system.observe(0.0, system.initial_state()))
    return float(jnp.min(distances[distances > 0]))


@pytest.mark.parametrize(
    ("system", "span"),
    [
        (two_planets(), 200 * np.pi),
        (two_planets(0.6, outer=5.0), 200 * np.pi),
        pytest.param(sun_and_nine_planets(), 50 * _YEAR, marks=pytest.mark.slow),
    ],
    ids=["two planets", "eccentric", "Solar System"],
)
def test_default_method_agrees_with_ias15_to_1e9_of_the_innermost_distance(
    system, span
):
    # 100 periods of the innermost planet, 207 of Mercury
    times = [0.3 * span, span]
    positions = simulate(system, times).states.positions
    reference = ias15(system)
    for time, found in zip(times, positions, strict=True):
        reference.integrate(time)
        expected = np.array([p.xyz for p in reference.particles])
        error = np.max(np.linalg.norm(found - expected, axis=1))
        assert error < 1e-9 * innermost(system)


@pytest.mark.parametrize(
    ("system", "span"),
    [
        pytest.param(two_planets(), 200 * np.pi, marks=pytest.mark.slow),
        # minutes
        pytest.param(sun_and_nine_planets(), 50 * _YEAR, marks=pytest.mark.release),
    ],
    ids=["two planets", "Solar System"],
)
def test_derivatives_agree_with_ias15_variations_to_1e8(system, span):
    # By all of the innermost planet, and the mass of the star.
    columns = [(1, k) for k in ("m", "x", "y", "z", "vx", "vy", "vz")] + [(0, "m")]
    reference = ias15(system)
    variations = []
    for body, name in columns:
        variations.append(reference.add_variation())
        setattr(variations[-1].particles[body], name, 1.0)
    reference.integrate(span)
    bodies = range(system.bodies.masses.size)
    expected = np.array(
        [[v.particles[i].xyz + v.particles[i].vxyz for i in bodies] for v in variations]
    )

    @jax.jit
    def final(planet, star):
        bodies = system.bodies
        masses = bodies.masses.at[1].set(planet[0]).at[0].set(star)
        moved = nbody.Bodies(
            masses,
            bodies.positions.at[1].set(planet[1:4]),
            bodies.velocities.at[1].set(planet[4:]),
        )
        system_ = nbody.NBody(moved, system.forces)
        states = simulate(system_, span, throw=False).states
        return jnp.concatenate([states.positions, states.velocities], axis=1)

    bodies = system.bodies
    planet = jnp.concatenate(
        [bodies.masses[1:2], bodies.positions[1], bodies.velocities[1]]
    )
    found = jax.jacfwd(final, (0, 1))(planet, bodies.masses[0])
    found = np.concatenate([found[0], found[1][..., None]], axis=-1)
    expected = np.moveaxis(expected, 0, -1)
    largest = np.max(np.abs(expected), axis=-1, keepdims=True)
    assert np.max(np.abs(found - expected) / largest) < 1e-8


def test_default_method_is_the_same_under_jit():
    system = two_planets()
    outside = system.default_method()
    inside = eqx.filter_jit(lambda s: s.default_method())(system)
    assert jax.tree.structure(inside) == jax.tree.structure(outside)
    np.testing.assert_allclose(
        jax.tree.leaves(inside), jax.tree.leaves(outside), rtol=1e-15
    )


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_steps_do_not_depend_on_the_unit_of_length(unit):
    planets = two_planets().bodies
    scaled = nbody.Bodies(planets.masses, unit * planets.positions, planets.velocities)
    counts = [
        simulate(nbody.NBody(b, nbody.Gravity(g)), 6.0 * g).stats["num_steps"]
        for b, g in ((planets, 1.0), (scaled, unit))
    ]
    # All but the first, which Hairer's rule chooses by numbers with units.
    assert abs(counts[0] - counts[1]) <= 15


def test_a_satellite_far_from_the_origin_does_not_shrink_the_steps():
    # Its separation is rounded to 1e-16 of where it is, 2e-12 of its orbit.
    r = 1e-4
    x = np.array([[0.0, 0, 0], [1, 0, 0], [1 + r, 0, 0]])
    v = np.array([[0.0, 0, 0], [0, 1, 0], [0, 1 + np.sqrt(3e-6 / r), 0]])
    system = nbody.NBody(nbody.Bodies([1.0, 3e-6, 0.0], x, v))
    period = 2 * np.pi * np.sqrt(r**3 / 3e-6)
    trajectory = simulate(system, 10 * period)
    # 76 steps a period are those of the same orbit about the origin
    assert trajectory.stats["num_accepted_steps"] < 1000


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 70])
def test_the_default_runs_in_single_precision(count):
    random = np.random.default_rng(0)
    x, v = random.normal(size=(2, count, 3)).astype(np.float32)
    bodies = nbody.Bodies(np.ones(count, np.float32) / count, x, 0.3 * v)
    gravity = nbody.Gravity(jnp.float32(1.0), jnp.float32(0.3))
    trajectory = simulate(nbody.NBody(bodies, gravity), 1.0)
    assert trajectory.states.positions.dtype == np.float32
    assert trajectory.stats["num_steps"] < 300


@pytest.mark.parametrize(
    ("positions", "softening"),
    [([[0.0, 0, 0], [0, 0, 0], [1, 0, 0]], 0.1), ([[0.0, 0, 0]], 0.0)],
    ids=["coincident", "lone"],
)
def test_default_method_runs_for_coincident_and_single_bodies(positions, softening):
    bodies = nbody.Bodies(
        np.ones(len(positions)), positions, np.zeros((len(positions), 3))
    )
    system = nbody.NBody(bodies, nbody.Gravity(softening=softening))
    assert simulate(system, 0.1).result == ds.RESULTS.successful


@pytest.mark.parametrize(
    ("system", "pair", "solver", "bound"),
    [
        pytest.param(
            two_planets(),
            (0, 1),
            nbody.WisdomHolman(corrector=17, kernel="lazy"),
            1e-8,
            id="two planets",
            marks=pytest.mark.slow,
        ),
        pytest.param(moon(), (1, 2), KahanLi8(), 1e-9, id="a moon"),
    ],
)
def test_recommended_fixed_steps_are_as_close_as_promised(
    system, pair, solver, bound, capsys
):
    method = nbody.recommend_method(system)
    assert method.solver == solver
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert f"{type(solver).__name__} at step {method.step:g}" in line
    assert "bodies {} and {}".format(*pair) in line and "no close encounters" in line
    reference, periods = ias15(system), 100
    first, second = (reference.particles[i] for i in pair)
    span = periods * second.orbit(primary=first).P
    reference.integrate(span)
    positions = simulate(system, span, method).states.positions
    expected = np.array([p.xyz for p in reference.particles])
    error = np.max(np.abs(positions - expected))
    assert error < bound * innermost(system)


def test_recommended_step_is_a_fraction_of_the_shortest_pericenter_passage():
    q, e = 0.9, 0.1
    method = nbody.recommend_method(two_planets(e))
    time = 2 * np.pi * np.sqrt(q**3 / (1.001 * (1 + e)))
    # rounded down to two digits
    assert 0.9 * time / 40 < method.step <= time / 40


def test_recommended_step_of_the_solar_system_is_set_by_mercury(capsys):
    method = nbody.recommend_method(sun_and_nine_planets())
    assert method.step == pytest.approx(1.4, abs=0.1)
    line = capsys.readouterr().out
    # Pluto crosses the orbit of Neptune.
    assert "Sun and Mercury" in line and "HybridWisdomHolman" in line


def test_a_hybrid_is_recommended_where_orbits_come_close(capsys):
    method = nbody.recommend_method(two_planets(outer=1.3))
    assert method.solver == nbody.HybridWisdomHolman(corrector=17)
    assert "come within 1.6 mutual Hill radii" in capsys.readouterr().out


def test_planets_listed_in_any_order_are_followed_about_the_star(capsys):
    outside_in = two_planets(0.1, outer=0.5)
    method = nbody.recommend_method(outside_in)
    assert method.solver == nbody.WisdomHolman(coordinates="whds", corrector=17)
    capsys.readouterr()


def _drag(t, state):
    return -0.1 * state.velocities


@pytest.mark.parametrize(
    ("system", "why"),
    [
        (
            nbody.NBody(two_planets().bodies, (nbody.Gravity(), _drag)),
            "forces depend on velocity",
        ),
        (two_planets(0.6), "the orbit of bodies 0 and 1 has an eccentricity of 0.6"),
        (
            nbody.NBody(nbody.Bodies([1.0, 1.0], np.eye(3)[:2], 9 * np.eye(3)[:2])),
            "no two bodies are bound",
        ),
    ],
)
def test_adaptive_method_is_recommended_where_fixed_steps_are_unsuitable(
    system, why, capsys
):
    method = nbody.recommend_method(system)
    assert method.adaptive
    assert why in capsys.readouterr().out
