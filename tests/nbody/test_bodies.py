"""Bodies, test particles and their initial states, from arrays, tables and REBOUND."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import rebound

import diffsim as ds
from diffsim import nbody
from diffsim._parameter_selection import select
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_X, _V = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
_NAMED = nbody.Bodies([1.0, 1e-3], _X, _V, names=["a", "b"])
_METHOD = Method(Leapfrog(), 0.1)


def three_planets():
    simulation = rebound.Simulation()
    simulation.add(m=1.0, name="Sun")
    simulation.add(m=1e-3, a=1.0, e=0.1, name="inner")
    simulation.add(m=3e-4, a=1.7, e=0.05, inc=0.2, f=1.0, name="outer")
    simulation.add(a=2.5, f=2.0, name="rock")
    simulation.move_to_com()
    return simulation


def test_integers_become_floats_and_floats_keep_their_dtype():
    bodies = nbody.Bodies([1, 2], _X.astype(int), np.ones((2, 3), np.float32))
    assert bodies.masses.dtype == np.float64
    assert bodies.positions.dtype == bodies.velocities.dtype == np.float64
    single = nbody.Bodies(*(jnp.asarray(a, jnp.float32) for a in ([1, 2], _X, _V)))
    assert single.masses.dtype == single.positions.dtype == np.float32


def test_bodies_from_rebound_follow_the_trajectories_of_rebound():
    simulation = three_planets()
    bodies = nbody.Bodies.from_rebound(simulation)
    system = nbody.NBody(bodies, nbody.Gravity(simulation.G))
    simulation.integrator, simulation.dt = "leapfrog", 0.0625
    simulation.exact_finish_time = 0
    states = simulate(system, 25.0, Method(Leapfrog(), 0.0625)).states
    simulation.integrate(25.0)
    assert simulation.t == 25.0
    particles = simulation.particles
    # 400 steps of the same map, rounded in another order
    expected = [p.xyz for p in particles]
    np.testing.assert_allclose(states.positions, expected, rtol=0, atol=1e-12)
    expected = [p.vxyz for p in particles]
    np.testing.assert_allclose(states.velocities, expected, rtol=0, atol=1e-12)
    energy = nbody.energy(system, states)
    assert float(energy) == pytest.approx(simulation.energy(), rel=1e-12)


def test_massless_particles_from_rebound_follow_the_trajectories_of_rebound():
    simulation = three_planets()
    simulation.N_active = 3
    system = nbody.NBody(nbody.Bodies.from_rebound(simulation), t0=simulation.t)
    states = simulate(system, 1.0, Method(Leapfrog(), 0.0625)).states
    simulation.integrator, simulation.dt = "leapfrog", 0.0625
    simulation.integrate(1.0)
    # 16 steps of the same map, rounded in another order
    expected = [p.xyz for p in simulation.particles]
    np.testing.assert_allclose(states.positions, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("attribute", "value", "sentence"),
    [
        ("N_active", 2, "N_active = 2, and particle 2 beyond it has the mass 0.0003"),
        ("N_active", 0, "N_active = 0, and particle 0 beyond it has the mass 1"),
        (
            "softening",
            0.1,
            r"softening = 0.1, .* NBody\.from_rebound\(simulation\) keeps it",
        ),
    ],
)
def test_unsupported_rebound_settings_raise_value_error(attribute, value, sentence):
    simulation = three_planets()
    setattr(simulation, attribute, value)
    with pytest.raises(ValueError, match=sentence):
        nbody.Bodies.from_rebound(simulation)


def test_rebound_names_become_body_names():
    bodies = nbody.Bodies.from_rebound(three_planets())
    assert bodies.names == ("Sun", "inner", "outer", "rock")


def test_rebound_particles_without_names_give_no_body_names():
    simulation = rebound.Simulation()
    simulation.add(m=1.0)
    simulation.add(m=0.5, x=1.0)
    assert nbody.Bodies.from_rebound(simulation).names is None


_TABLE = {
    "name": ["Sun", "Earth"],
    "GM": [2.96e-4, 8.9e-10],
    "X": [0.0, 1.0],
    "Y": [0.0, 0.1],
    "Z": [0.0, 0.2],
    "VX": [0.0, -1e-3],
    "VY": [0.0, 0.017],
    "VZ": [0.0, 0.0],
}


def test_bodies_from_a_table_have_its_columns():
    bodies = nbody.Bodies.from_table(_TABLE, G=2.96e-4)
    np.testing.assert_allclose(bodies.masses, [1.0, 8.9e-10 / 2.96e-4], rtol=1e-15)
    np.testing.assert_array_equal(bodies.positions[1], [1.0, 0.1, 0.2])
    np.testing.assert_array_equal(bodies.velocities[1], [-1e-3, 0.017, 0.0])
    assert bodies.names == ("Sun", "Earth")


def test_table_columns_may_be_lower_case_or_masses_or_unnamed():
    table = {key.lower(): column for key, column in _TABLE.items() if key != "name"}
    table["mass"] = table.pop("gm")
    bodies = nbody.Bodies.from_table(table)
    np.testing.assert_array_equal(bodies.masses, _TABLE["GM"])
    assert bodies.names is None
    named = nbody.Bodies.from_table(
        table | {"targetname": _TABLE["name"]}, names="targetname"
    )
    assert named.names == ("Sun", "Earth")


def test_bodies_from_a_data_frame_equal_those_from_a_table():
    class Frame:
        """As pandas has it: columns by name, and no `collections.abc.Mapping`."""

        columns = tuple(_TABLE)

        def __getitem__(self, key):
            return np.array(_TABLE[key])

        def keys(self):
            return self.columns

    bodies = nbody.Bodies.from_table(Frame(), G=2.96e-4)
    np.testing.assert_array_equal(bodies.positions[1], [1.0, 0.1, 0.2])


def test_test_particles_move_as_massless_bodies():
    simulation = three_planets()
    bodies = nbody.Bodies.from_rebound(simulation)
    massive = nbody.Bodies(
        bodies.masses[:3], bodies.positions[:3], bodies.velocities[:3]
    )
    test_particles = nbody.TestParticles(bodies.positions[3:], bodies.velocities[3:])
    method = Method(Leapfrog(), 0.1)
    together = simulate(nbody.NBody(bodies), 5.0, method).states
    apart = simulate(
        nbody.NBody(massive, test_particles=test_particles), 5.0, method
    ).states
    np.testing.assert_allclose(apart.positions, together.positions, rtol=1e-13)
    alone = simulate(nbody.NBody(massive), 5.0, method).states
    np.testing.assert_allclose(apart.positions[:3], alone.positions, rtol=1e-13)


def test_units_agree_with_the_published_constants():
    # Gauss: k², from IAU 1976; the nominal solar mass parameter differs by 1e-8.
    assert nbody.G["au, Msun, day"] == pytest.approx(0.01720209895**2, rel=2e-8)
    assert nbody.G["au, Msun, yr"] == pytest.approx(4 * np.pi**2, rel=4e-5)
    assert nbody.G["au, Msun, yr/2pi"] == pytest.approx(1, rel=4e-5)
    # Standard values to the digits usually quoted.
    assert nbody.G["pc, Msun, km/s"] == pytest.approx(4.30091e-3, rel=1e-5)
    assert nbody.G["kpc, Msun, Myr"] == pytest.approx(4.49850e-12, rel=1e-5)
    assert nbody.G["km, Mearth, s"] == pytest.approx(398600.4, rel=1e-6)
    assert nbody.G["SI"] == 6.67430e-11
    assert nbody.G["natural"] == 1


def test_composed_units_agree_with_named_ones_and_published_constants():
    named = ("au, Msun, day", "au, Msun, yr/2pi", "pc, Msun, km/s", "km, Mearth, s")
    for units in (*named, "kpc, Msun, Myr"):
        # other whitespace is not a key of the table
        assert nbody.G[f" {units}"] == pytest.approx(nbody.G[units], rel=1e-14)
    assert nbody.G["m, kg, s"] == nbody.G["SI"]
    assert nbody.G["cgs"] == pytest.approx(6.67430e-8, rel=1e-14)
    # Kepler's third law of the Sun: P² = 4π² R³ / GM is (2.7794 h)² at its surface
    period = 2 * np.pi / np.sqrt(nbody.G["Rsun, Msun, hr"])
    assert period == pytest.approx(2.7802, rel=1e-4)
    assert "furlong, Msun, yr" not in nbody.G and "au, Msun, day" in nbody.G
    assert nbody.G.get("furlong") is None


@pytest.mark.parametrize(
    "name", ["67P", "Barnard's", "a.b", "HD 1 [b]", "2000-01", "'x'", "B, 1"]
)
def test_names_with_special_characters_select_their_body(name):
    bodies = nbody.Bodies([1.0, 2.0], _X, _V, names=["A", name])
    chosen = select(bodies, f"masses[{name}]")
    assert chosen.names == (f"masses[{name}]",)
    assert chosen.parts[0].entries == (1,)


def test_a_trajectory_has_the_states_of_a_body_by_name():
    test_particles = nbody.TestParticles([[3.0, 0, 0]], [[0, 0.5, 0]], names=["rock"])
    system = nbody.NBody(_NAMED, test_particles=test_particles)
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
            nbody.NBody(_NAMED, t0=t0), 0.5, Method(Leapfrog(), 0.1, max_steps=9)
        )
    )(jnp.zeros(4))
    assert many["b"].positions.shape == (4, 3)


def test_names_of_a_trajectory_are_saved_with_it(tmp_path):
    trajectory = simulate(nbody.NBody(_NAMED), [0.1], _METHOD)
    ds.save(tmp_path / "x.eqx", trajectory)
    found = ds.load(tmp_path / "x.eqx")["b"]
    np.testing.assert_array_equal(found.positions, trajectory["b"].positions)
