"""Orbits in space, seen from a body, and with their osculating conics."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from diffsim import nbody, plots


#: A star, a planet with a moon, and a comet on a hyperbola; G = 1.
MASSES = np.array([1.0, 1e-3, 1e-8, 1e-12])
SYSTEM = nbody.NBody(
    nbody.Bodies(MASSES, np.eye(4, 3), np.zeros((4, 3)), names=["S", "p", "m", "c"])
)
X = np.array([[0.1, 0.2, 0.0], [1.2, 0.2, 0.1], [1.21, 0.2, 0.1], [0.1, 1.4, 0.3]])
V = np.array([[0.0, 0.1, 0.0], [0.1, 0.9, 0.2], [0.1, 1.25, 0.2], [1.5, 0.6, 0.1]])
STATES = nbody.State(jnp.stack([X - V, X]), jnp.stack([V, V]))


def conics(ax):
    """Points of the dashed lines, one a conic."""
    return [line for line in ax.lines if line.get_linestyle() == "--"]


def drawn_conics(**options):
    ax = plots.orbits(STATES, plane="xyz", osculating=SYSTEM, **options)
    ax.figure.canvas.draw()
    return [np.stack(line.get_data_3d(), axis=1) for line in conics(ax)]


def axes_of_conic(body, primary):
    """Semi-major axis and eccentricity, by energy and the Runge-Lenz vector."""
    gm, x, v = (
        MASSES[body] + MASSES[primary],
        X[body] - X[primary],
        V[body] - V[primary],
    )
    r = np.linalg.norm(x)
    e = np.cross(v, np.cross(x, v)) / gm - x / r
    return 1 / (2 / r - v @ v / gm), np.linalg.norm(e)


def test_osculating_conics_pass_through_their_bodies():
    for body, points in zip((1, 2, 3), drawn_conics(), strict=True):
        nearest = np.min(np.linalg.norm(points - X[body], axis=1))
        assert nearest < 1e-10 * np.linalg.norm(X[body])


def test_osculating_ellipses_have_the_semi_axes_of_the_state():
    planet, moon, _ = drawn_conics()
    # The moon goes about the planet, by which it is bound the tightest.
    for points, body, primary in ((planet, 1, 0), (moon, 2, 1)):
        a, e = axes_of_conic(body, primary)
        r = np.linalg.norm(points - X[primary], axis=1)
        # 240 chords miss the ends of the axis by up to 1 - cos(pi/240) = 9e-5.
        np.testing.assert_allclose(r.min(), a * (1 - e), rtol=1e-3)
        np.testing.assert_allclose(r.max(), a * (1 + e), rtol=1e-3)
        # By Gauss: the area of the polygon is π a b, up to the chords' 1.1e-4.
        area = np.linalg.norm(np.cross(points[:-1], points[1:]).sum(0)) / 2
        np.testing.assert_allclose(area, np.pi * a**2 * np.sqrt(1 - e**2), rtol=2e-4)


def test_points_of_a_hyperbola_lie_on_its_conic():
    points = drawn_conics()[2] - X[0]
    a, e = axes_of_conic(3, 0)
    assert e > 1
    x, v = X[3] - X[0], V[3] - V[0]
    gm = MASSES[3] + MASSES[0]
    axis = np.cross(v, np.cross(x, v)) / gm - x / np.linalg.norm(x)
    # r = p - r e cos f, with r e cos f the component along the Runge-Lenz vector.
    expected = a * (1 - e**2) - points @ axis
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), expected, rtol=1e-10)


def test_paths_in_space_are_the_positions():
    ax = plots.orbits(STATES, plane="xyz", unit="au")
    np.testing.assert_array_equal(
        np.stack(ax.lines[2].get_data_3d(), 1), STATES.positions[:, 1]
    )
    assert ax.get_zlabel() == "z [au]"
    sides = np.ptp([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()], axis=1)
    box = ax._box_aspect
    np.testing.assert_allclose(box / box[0], sides / sides[0])


def test_orbits_from_a_body_are_relative_to_it_at_every_time():
    names = ["S", "p", "m", "c"]
    ax = plots.orbits(STATES, origin="p", names=names)
    relative = STATES.positions - STATES.positions[:, 1:2]
    for body in range(4):
        path = ax.lines[2 * body].get_xydata()
        np.testing.assert_array_equal(path, relative[:, body, :2])
    assert ax.get_xlabel() == "x from p"
    by_number = plots.orbits(STATES, origin=1)
    np.testing.assert_array_equal(by_number.lines[0].get_xydata(), relative[:, 0, :2])
    moon = drawn_conics(origin=1)[1]
    assert np.min(np.linalg.norm(moon - (X[2] - X[1]), axis=1)) < 1e-10


def test_conics_in_a_plane_are_those_in_space_without_a_component():
    ax = plots.orbits(STATES, plane="zy", osculating=SYSTEM)
    for line, points in zip(conics(ax), drawn_conics(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), points[:, [2, 1]])


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (STATES, {"osculating": 1.0}, "osculating must be an object such as"),
        (STATES.positions, {"osculating": SYSTEM}, "osculating needs velocities"),
        (
            nbody.State(STATES.positions[:, :3], STATES.velocities[:, :3]),
            {"osculating": SYSTEM},
            "osculating must be the NBody of these states, got one of 4",
        ),
        (
            nbody.State(STATES.positions, 0 * STATES.velocities),
            {"osculating": SYSTEM},
            "osculating needs ellipses or hyperbolas",
        ),
    ],
)
def test_osculating_orbits_that_do_not_exist_raise_value_error(given, options, said):
    with pytest.raises(ValueError, match=said):
        plots.orbits(given, **options)


def test_axes_of_another_dimension_raise_value_error():
    flat = plt.figure().add_subplot()
    with pytest.raises(ValueError, match="projection of ax must be one of '3d'"):
        plots.orbits(STATES, plane="xyz", ax=flat)
    deep = plt.figure().add_subplot(projection="3d")
    with pytest.raises(ValueError, match=r"projection of ax must be .* got '3d'"):
        plots.orbits(STATES, ax=deep)
    assert plots.orbits(STATES, plane="xyz", ax=deep) is deep
