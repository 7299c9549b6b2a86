"""Bodies, test particles and their initial states, from arrays, tables and REBOUND."""

import jax.numpy as jnp
import numpy as np
import pytest
import rebound

from diffsim import nbody
from diffsim._parameter_selection import select
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_X, _V = np.arange(6.0).reshape(2, 3), np.ones((2, 3))


def three_planets():
    simulation = rebound.Simulation()
    simulation.add(m=1.0, name="Sun")
    simulation.add(m=1e-3, a=1.0, e=0.1, name="inner")
    simulation.add(m=3e-4, a=1.7, e=0.05, inc=0.2, f=1.0, name="outer")
    simulation.add(a=2.5, f=2.0, name="rock")
    simulation.move_to_com()
    return simulation


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ([1.0, 2.0], _X[:, :2], _V),
            r"positions must have shape \(2, 3\), got \(2, 2\)",
        ),
        (([1.0, 2.0], _X[:, :2], _V), "for planar systems set z to zero"),
        (([1.0, 2.0, 3.0], np.ones((3, 2)), np.ones((3, 2))), "for planar systems"),
        (([1.0, 2.0], _X.T, _V), r"positions .* rows are bodies, so .* \.T"),
        (([1.0, 2.0], _X, _V.T), r"velocities .* rows are bodies, so .* \.T"),
        ((np.ones(5), np.ones((3, 5)), np.ones((3, 5))), r"got \(3, 5\); rows are"),
        ((_X, _V, [1.0, 2.0]), r"order is Bodies\(masses, positions, velocities\)"),
        (
            ([1.0], _X, _V),
            r"positions must have shape \(1, 3\), got \(2, 3\); one row x, y, z",
        ),
        (
            ([1.0, 2.0], _X, _V[:1]),
            r"velocities must have shape \(2, 3\), got \(1, 3\); one row x, y, z",
        ),
        (([[1.0, 2.0]], _X, _V), r"masses must have shape .* got \(1, 2\); one mass a"),
        (("heavy", _X, _V), "masses must be real numbers, .* got 'heavy'"),
        (([1.0, [2.0]], _X, _V), "masses must be real numbers, an array or nested"),
        (([1j, 2.0], _X, _V), "masses must be real numbers, got dtype complex128"),
    ],
)
def test_mismatched_shapes_raise_value_error(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.Bodies(*arguments)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["Sun"], "names must be one a body, got 1 for 2"),
        (["Sun", "Sun"], "names must differ, got Sun more than once"),
        (["1", "a"], "names must not read as an index or a slice, got '1'"),
        (["a", "-1"], "write 'asteroid -1'"),
        (["a", "1:"], "names must not read as an index or a slice, got '1:'"),
        (["a", ":"], "names must not read as an index or a slice, got ':'"),
        (["a", " 4 "], "write 'asteroid 4'"),
        (["a", "0, 1"], "names must not read as an index or a slice, got '0, 1'"),
        (["a", "*"], r"names must not read as an index or a slice, got '\*'"),
        ([1, 2], "names must be strings, got 1, which a path .* write 'body 1'"),
        ([b"a", "b"], "names must be strings, got b'a'"),
        (["a", "b]"], "brackets that close, .* got 'b]'"),
        (["a", ""], "names must have a letter"),
    ],
)
def test_names_must_be_unique_and_one_per_body(names, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.Bodies([1.0, 2.0], _X, _V, names=names)
    with pytest.raises(ValueError, match=sentence):
        nbody.TestParticles(_X, _V, names=names)


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
            r"softening of 0.1, .* NBody\.from_rebound\(simulation\) keeps it",
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


@pytest.mark.parametrize("missing", ["GM", "Z", "VY"])
def test_missing_table_column_raises_value_error(missing):
    table = {key: column for key, column in _TABLE.items() if key != missing}
    with pytest.raises(ValueError, match=f"table has no column {missing}; it has name"):
        nbody.Bodies.from_table(table)


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


@pytest.mark.parametrize(
    ("forces", "sentence"),
    [
        ((nbody.Gravity(), nbody.Gravity()), "at most one Gravity, got 2"),
        ((nbody.PostNewtonian(1.0),), "PostNewtonian corrects Gravity .* add Gravity"),
        (
            (nbody.Gravity(), nbody.PostNewtonian(1.0, primary=2)),
            "PostNewtonian has primary=2, and there are 2 bodies, counted from 0",
        ),
    ],
)
def test_invalid_forces_raise_value_error(forces, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.NBody(nbody.Bodies([1.0, 2.0], _X, _V), forces)


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
    assert "furlong, Msun, yr" not in nbody.G


@pytest.mark.parametrize(
    "name", ["67P", "Barnard's", "a.b", "HD 1 [b]", "2000-01", "'x'", "B, 1"]
)
def test_names_with_special_characters_select_their_body(name):
    bodies = nbody.Bodies([1.0, 2.0], _X, _V, names=["A", name])
    chosen = select(bodies, f"masses[{name}]")
    assert chosen.names == (f"masses[{name}]",)
    assert chosen.parts[0].entries == (1,)


def test_names_of_test_particles_and_bodies_must_differ():
    bodies = nbody.Bodies([1.0, 2.0], _X, _V, names=["Sun", "Earth"])
    test_particles = nbody.TestParticles(_X, _V, names=["rock", "Earth"])
    with pytest.raises(
        ValueError, match=r"of bodies and test particles must differ.*Earth"
    ):
        nbody.NBody(bodies, test_particles=test_particles)
