"""`IAS15`: errors by rounding alone, and the laws of a solver."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody, problems
from diffsim.nbody._gauss_radau._radau_tables import RADAU
from diffsim.simulations import Method, simulate


_IAS15 = Method(nbody.IAS15())

#: Of Jupiter, with G = 1, au and solar masses.
_PERIOD = 11.86 * 2 * np.pi


def turned(system, angle):
    """The system seen along other axes: the same motion, other roundings."""
    c, s = np.cos(angle), np.sin(angle)
    rotation = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
    bodies = system.bodies
    x, v = (np.asarray(a) @ rotation.T for a in (bodies.positions, bodies.velocities))
    return nbody.NBody(nbody.Bodies(bodies.masses, x, v)), rotation


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure-8", "Kepler", "Pythagorean"])
def test_exact_answers_are_reached_to_rounding(name):
    (problem,) = (p for p in problems.NBODY_PROBLEMS if p.name == name)
    # 5e-14 closes the figure-8, of whose start 14 digits are known.
    bound = {"figure-8": 3e-13, "Kepler": 1e-13, "Pythagorean": 1e-10}[name]
    for exact, value in zip(problem.exact, problem.found(_IAS15), strict=True):
        loose = bound if not exact.by else 2e-8
        assert exact.error(value) <= min(loose, exact.tolerance), exact.quantity


@pytest.mark.slow
@pytest.mark.parametrize("name", ["variations", "Mercury", "DE440, EIH"])
def test_published_answers_are_reached(name):
    (problem,) = (p for p in problems.NBODY_PROBLEMS if p.name == name)
    for exact, value in zip(problem.exact, problem.found(_IAS15), strict=True):
        assert exact.error(value) <= exact.tolerance, exact.quantity


def test_energy_of_the_outer_planets_is_kept_for_a_thousand_orbits():
    system = problems.outer_solar_system()
    states = simulate(system, [0.0, 1000 * _PERIOD], _IAS15).states
    start, end = nbody.energy(system, states)
    # REBOUND's own bound
    assert abs(end / start - 1) < 1e-14


@pytest.mark.parametrize("row", ["positions", "velocities"])
def test_rounded_weights_integrate_powers_of_time_far_below_their_last_digit(row):
    # One by one they are off by 2e-18 and 4e-18 of the first power.
    nodes = [Fraction(node) for node in RADAU.nodes]
    weights = [Fraction(w) for w in getattr(RADAU, row)[-1]]
    for k in (1, 2, 3):
        exact = Fraction(1, (k + 1) * (k + 2) if row == "positions" else k + 1)
        missed = sum(w * c**k for w, c in zip(weights, nodes, strict=True)) - exact
        assert abs(missed) < 6e-19


@pytest.mark.slow
def test_energy_errors_grow_no_faster_than_a_random_walk_of_rounding():
    # Brouwer's law: n^0.5 after n periods.
    systems = [turned(problems.outer_solar_system(), angle)[0] for angle in range(4)]
    n = np.array([100, 300, 1000, 2000])
    method = Method(nbody.IAS15(), max_steps=1_000_000)
    times = np.array([0, *n]) * _PERIOD
    run = eqx.filter_jit(lambda system: simulate(system, times, method).states)
    errors = []
    for system in systems:
        energies = long_energies(system.bodies.masses, run(system))
        errors.append((energies[1:] / energies[0] - 1).astype(float))
    size = np.sqrt(np.mean(np.square(errors), axis=0))
    assert np.all(size < 2e-16 * np.sqrt(n))


def long_energies(masses, states):
    """Energies with 19 digits, which add no rounding of their own."""
    given = masses, states.positions, states.velocities
    m, x, v = (np.asarray(a, np.longdouble) for a in given)
    i, j = np.triu_indices(m.size, 1)
    r = np.sqrt(np.sum((x[:, i] - x[:, j]) ** 2, -1))
    return np.sum(m * np.sum(v * v, -1), -1) / 2 - np.sum(m[i] * m[j] / r, -1)


@pytest.mark.slow
def test_rounding_in_close_passages_is_no_larger_than_that_of_rebound():
    system = problems.pythagorean()
    known = np.array(
        [
            [0.778480410138085493, 0.141392300290086169, 0],
            [-2.025092477978198586, 0.097219384146058397, 0],
            [1.152985736299707573, -0.162610887490898418, 0],
        ]
    )
    ours, theirs = [], []
    for angle in np.linspace(0.1, 6, 9):
        seen, rotation = turned(system, angle)
        found = simulate(seen, 10.0, _IAS15).states.positions
        ours.append(np.max(np.abs(found @ rotation - known)))
        peer = seen.to_rebound()
        peer.integrator = "ias15"
        peer.integrate(10.0)
        found = np.array([p.xyz for p in peer.particles])
        theirs.append(np.max(np.abs(found @ rotation - known)))
    # Both 2e-12 to 3e-12, of which one run may have ten times as much.
    assert np.median(ours) < 3 * np.median(theirs)


@pytest.mark.slow
def test_a_run_forth_and_back_ends_where_it_began():
    system = problems.outer_solar_system()
    there = simulate(system, 10 * _PERIOD, _IAS15)
    end = there.states
    turned_back = nbody.NBody(
        nbody.Bodies(system.bodies.masses, end.positions, end.velocities),
        t0=10 * _PERIOD,
    )
    back = simulate(turned_back, 0.0, _IAS15).states
    np.testing.assert_allclose(
        back.positions, system.bodies.positions, rtol=0, atol=1e-11
    )


def test_forces_that_read_time_and_velocity_are_integrated_as_exactly():
    r"""x'' = −x − 2γx' + F cos ωt in closed form."""
    gamma, omega = 0.1, 1.7

    def drag(t, state):
        pull = -state.positions - 2 * gamma * state.velocities
        return pull + jnp.array([0.3, 0, 0]) * jnp.cos(omega * t)

    bodies = nbody.Bodies([1.0], [[1.0, 0, 0]], [[0.0, 0, 0]])
    system = nbody.NBody(bodies, drag, gravity=False)
    times = np.linspace(-3.0, 20.0, 9)
    found = simulate(system, times, _IAS15).states.positions[:, 0, 0]
    a, b = 1 - omega**2, 2 * gamma * omega
    c, s = 0.3 * a / (a * a + b * b), 0.3 * b / (a * a + b * b)
    free = np.sqrt(1 - gamma**2)
    x, v = 1 - c, -s * omega
    decay = np.exp(-gamma * times)
    own = x * np.cos(free * times) + (v + gamma * x) / free * np.sin(free * times)
    exact = decay * own + c * np.cos(omega * times) + s * np.sin(omega * times)
    np.testing.assert_allclose(found, exact, rtol=0, atol=3e-14)


def test_fixed_steps_are_of_order_fifteen():
    system = problems.kepler(eccentricity=0.3)
    exact = problems.kepler_orbit(6.0, 0.3)[:2]

    def error(step):
        x = simulate(system, 6.0, Method(nbody.IAS15(), step=step)).states.positions
        return np.max(np.abs((x[1] - x[0])[:2] - exact))

    coarse, fine = error(0.6), error(0.4)
    assert np.log(coarse / fine) / np.log(1.5) > 14


@pytest.mark.parametrize("transform", first_plain([jax.jacfwd, jax.jacrev]))
def test_derivatives_are_those_of_rebounds_variations(transform):
    system = problems.variations()
    peer = system.to_rebound()
    peer.integrator = "ias15"
    columns = ("m", "x", "y", "vx", "vz")
    variations = [peer.add_variation() for _ in columns]
    for variation, name in zip(variations, columns, strict=True):
        setattr(variation.particles[1], name, 1.0)
    peer.integrate(30.0)
    known = np.array([[p.xyz for p in v.particles] for v in variations])

    def final(moved):
        bodies = system.bodies
        masses = bodies.masses.at[1].add(moved[0])
        x = bodies.positions.at[1, :2].add(moved[1:3])
        v = bodies.velocities.at[1, 0].add(moved[3]).at[1, 2].add(moved[4])
        run = nbody.NBody(nbody.Bodies(masses, x, v))
        return simulate(run, [11.0, 30.0], _IAS15).states.positions[-1]

    found = jnp.moveaxis(jax.jit(transform(final))(jnp.zeros(5)), -1, 0)
    scale = np.max(np.abs(known), axis=(1, 2), keepdims=True)
    assert np.max(np.abs(found - known) / scale) < 1e-11


def test_frozen_steps_repeat_the_run():
    system, times = problems.variations(), np.array([3.0, 10.0])
    run = simulate(system, times, _IAS15)
    found = simulate(system, times, _IAS15.freeze_steps(run)).states.positions
    np.testing.assert_allclose(found, run.states.positions, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_frozen_steps_and_batches_repeat_the_derivatives_of_a_run():
    system, times = problems.variations(), np.array([3.0, 10.0])
    frozen = _IAS15.freeze_steps(simulate(system, times, _IAS15))

    def final(masses, method):
        run = eqx.tree_at(lambda s: s.bodies.masses, system, masses)
        return simulate(run, times, method).states.positions

    masses = system.bodies.masses
    heavier = jnp.stack([masses, 1.1 * masses])
    slope = jax.jacfwd(final)
    known = slope(masses, _IAS15)
    np.testing.assert_allclose(slope(masses, frozen), known, rtol=0, atol=1e-12)
    together = jax.vmap(lambda m: slope(m, _IAS15))(heavier)
    np.testing.assert_allclose(together[0], known, rtol=0, atol=1e-12)


def test_bodies_at_rest_between_others_and_free_ones_take_finite_steps():
    line = nbody.Bodies(
        [1.0, 1.0, 1.0], [[0.0, 0, 0], [1, 0, 0], [-1, 0, 0]], np.zeros((3, 3))
    )
    found = simulate(nbody.NBody(line), 0.5, _IAS15)
    assert found.stats["num_steps"] < 100
    alone = nbody.NBody(nbody.Bodies([1.0], [[1.0, 0, 0]], [[1.0, 0, 0]]))
    found = simulate(alone, 1e3, _IAS15)
    np.testing.assert_array_equal(found.states.positions, [[1001.0, 0, 0]])
    assert found.stats["num_steps"] < 100


@pytest.mark.slow
def test_single_precision_keeps_six_digits():
    system = problems.kepler(eccentricity=0.3)
    single = jax.tree.map(
        lambda a: a.astype(jnp.float32) if eqx.is_array(a) else a, system
    )
    found = simulate(single, 20.0, _IAS15).states.positions
    assert found.dtype == jnp.float32
    exact = simulate(system, 20.0, _IAS15).states.positions
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-5)


def test_error_estimate_is_that_of_half_the_steps():
    system = problems.kepler(eccentricity=0.3)
    found = simulate(system, 20.0, _IAS15, error_estimate=True)
    assert 0 < found.error_estimate < 1e-12
