"""The DE440 table against celestial mechanics; `--check` of its tool against JPL."""

import importlib.resources

import numpy as np
import pytest
import rebound

from diffsim.problems import load_de440


@pytest.fixture(scope="module")
def de440():
    return load_de440()


def heliocentric(ephemeris, name):
    """Position [au], velocity [au/day] about the Sun, GM of both, at J2000."""
    body = ephemeris.names.index(name)
    position = ephemeris.positions[0, body] - ephemeris.positions[0, 0]
    velocity = ephemeris.velocities0[body] - ephemeris.velocities0[0]
    return position, velocity, ephemeris.gm[0] + ephemeris.gm[body]


def test_table_is_small_and_complete(de440):
    data = importlib.resources.files("diffsim.problems") / "data"
    assert sum(len(item.read_bytes()) for item in data.iterdir()) < 300_000
    assert de440.names[0] == "Sun" and len(de440.names) == 11
    assert de440.positions.shape == (367, 11, 3)
    np.testing.assert_array_equal(np.diff(de440.epochs), 10.0)
    for field in ("positions", "velocities0", "check_positions", "gm"):
        assert getattr(de440, field).dtype == np.float64
        assert np.all(np.isfinite(getattr(de440, field)))


def test_gravitational_parameters_are_those_of_the_header(de440):
    # Park et al. 2021, table 2, printed to 1e-6 km^3/s^2.
    published = {
        "Sun": 132712440041.279419,
        "Earth": 398600.435507,
        "Moon": 4902.800118,
        "Jupiter": 126712764.1,
        "Pluto": 975.5,
    }
    gm = dict(zip(de440.names, de440.gm * de440.au_km**3 / 86400.0**2, strict=True))
    for name, value in published.items():
        assert gm[name] == pytest.approx(value, rel=1e-15, abs=5e-7)


def test_speed_of_light_and_au_are_the_defined_ones(de440):
    assert de440.au_km == 149597870.7
    assert de440.c * de440.au_km / 86400.0 == pytest.approx(299792.458, rel=1e-15)


def test_moon_stays_between_its_perigee_and_apogee(de440):
    earth, moon = de440.names.index("Earth"), de440.names.index("Moon")
    apart = de440.positions[:, moon] - de440.positions[:, earth]
    distance = np.linalg.norm(apart, axis=-1) * de440.au_km
    # Extreme perigee and apogee of 1500 BC to AD 8000: Meeus, Astronomical Algorithms.
    assert distance.min() > 356_355 and distance.max() < 406_725
    assert distance.min() < 360_000 and distance.max() > 404_000


@pytest.mark.parametrize(
    ("name", "days", "rel"),
    [
        # Sidereal periods; osculating ones differ by what the planets do to each other.
        ("Mercury", 87.9691, 1e-5),
        ("Venus", 224.701, 3e-5),
        ("Mars", 686.980, 3e-5),
        ("Jupiter", 4332.59, 1e-3),
    ],
)
def test_third_law_gives_the_sidereal_period(de440, name, days, rel):
    position, velocity, mu = heliocentric(de440, name)
    a = 1 / (2 / np.linalg.norm(position) - velocity @ velocity / mu)
    assert 2 * np.pi * np.sqrt(a**3 / mu) == pytest.approx(days, rel=rel)


def test_barycenter_offset_is_that_of_bodies_missing_from_the_table(de440):
    # The header's Kuiper-belt objects weigh 1.7e-8 Suns, half of that Eris at 97 au
    # (8.4e-9 * 97 au = 122 km, 14 km of motion in ten years); asteroids 1.3e-9 Suns.
    weights = de440.gm / de440.gm.sum()
    centre = np.einsum("b,tbk->tk", weights, de440.positions) * de440.au_km
    offset = np.linalg.norm(centre, axis=-1)
    assert offset.min() > 50 and offset.max() < 200
    assert np.ptp(centre, axis=0).max() < 14


@pytest.mark.parametrize("name", ["Sun", "Mars", "Jupiter", "Neptune"])
def test_positions_at_check_epochs_agree_with_interpolation(de440, name):
    body = de440.names.index(name)
    for epoch, expected in zip(de440.check_epochs, de440.check_positions, strict=True):
        near = np.argsort(np.abs(de440.epochs - epoch))[:12]
        found = lagrange(de440.epochs[near], de440.positions[near, body], epoch)
        # Mars moves 24 km/s: read as TAI, 32 s from TDB, it would be 770 km off.
        assert np.linalg.norm(found - expected[body]) * de440.au_km < 1.0


@pytest.mark.parametrize("name", ["Mars", "Jupiter", "Neptune"])
def test_velocities_are_the_derivative_of_positions(de440, name):
    body = de440.names.index(name)
    fit = np.polynomial.Polynomial
    for axis in range(3):
        slope = fit.fit(de440.epochs[:14], de440.positions[:14, body, axis], 13).deriv()
        assert slope(0.0) == pytest.approx(de440.velocities0[body, axis], abs=1e-9)


def test_newtonian_gravity_deviates_by_the_relativistic_correction(de440):
    """A year of REBOUND's IAS15: initial state, GM, frame and epochs fit together."""
    simulation = rebound.Simulation()
    simulation.integrator = "ias15"
    starts = np.hstack([de440.positions[0], de440.velocities0])
    for gm, (x, y, z, vx, vy, vz) in zip(de440.gm, starts, strict=True):
        simulation.add(m=gm, x=x, y=y, z=z, vx=vx, vy=vy, vz=vz)
    simulation.integrate(de440.check_epochs[0])
    reached = np.array([particle.xyz for particle in simulation.particles])
    apart = np.linalg.norm(reached - de440.check_positions[0], axis=-1) * de440.au_km
    # Mercury to Neptune, km, computed from the kernel itself, given to three digits.
    expected = [57.9, 98.7, 60.7, 70.7, 39.7, 0.633, 0.093, 0.032, 0.068]
    np.testing.assert_allclose(apart[1:10], expected, rtol=2e-3, atol=6e-4)


def lagrange(nodes, values, at):
    """The polynomial through `values` at `nodes`, evaluated."""
    gaps = nodes[:, None] - nodes[None, :] + np.eye(nodes.size)
    ratio = (at - nodes)[None, :] / gaps
    np.fill_diagonal(ratio, 1.0)
    return np.prod(ratio, axis=1) @ values
