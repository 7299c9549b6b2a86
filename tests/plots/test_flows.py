"""Streamlines, arrows and spectra of flows with a known answer."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from pictures import is_drawn, trajectory_of
from rows import first_plain

from diffsim import pde, plots


TURN = 2 * np.pi


def run_of(names, grid, states, boundary=None, solid=None, dtype=None):
    """A trajectory at times 0, 1 and so on that nobody has simulated."""
    sides = pde.Domain(grid).boundary if boundary is None else boundary
    axes = pde.FieldAxes.of(names, grid, sides, solid)
    return trajectory_of(jnp.asarray(states, dtype), axes)


def rotation(shape=(24, 20), solid=None):
    """Rotation about the origin between walls, at rates 1 and 3."""
    grid = pde.Grid(shape, (-1.2, -1.0), (1.2, 1.0))
    x, y = grid.centers
    states = [rate * jnp.stack([-y, x]) for rate in (1.0, 3.0)]
    walls = ((pde.FreeSlip(),) * 2,) * 2
    return run_of(("velocity_x", "velocity_y"), grid, states, walls, solid)


def streamline_segments(axes):
    [lines] = [x for x in axes.collections if isinstance(x, LineCollection)]
    # Of one line each, or cut into steps, as the release of Matplotlib likes.
    steps = [
        np.stack([x[:-1], x[1:]], 1) for x in map(np.asarray, lines.get_segments())
    ]
    steps = np.concatenate(steps)
    return steps[np.any(steps[:, 0] != steps[:, 1], axis=1)]


@pytest.mark.parametrize("background", ["speed", "vorticity"])
def test_streamlines_of_a_rotation_are_circles(background):
    axes = plots.streamlines(rotation(), background, density=0.5)
    assert is_drawn(axes.figure)
    segments = streamline_segments(axes)
    # A chord of a circle is perpendicular to its middle.
    chord, middle = segments[:, 1] - segments[:, 0], segments.mean(1)
    radial = np.abs(np.sum(chord * middle, axis=1)) / np.linalg.norm(middle, axis=1)
    assert radial.sum() < 0.02 * np.linalg.norm(chord, axis=1).sum()
    # Forward is the way that the fluid turns, against the clock.
    turn = middle[:, 0] * chord[:, 1] - middle[:, 1] * chord[:, 0]
    assert np.mean(turn > 0) > 0.95
    expected = {"speed": 3 * np.hypot(*rotation().axes.grid.centers).T, "vorticity": 6}
    np.testing.assert_allclose(axes.images[0].get_array(), expected[background])
    assert axes.child_axes[0].get_ylabel() == background


def test_denser_streamlines_are_more():
    few, many = (plots.streamlines(rotation(), density=d) for d in (0.3, 1))
    assert len(streamline_segments(many)) > 2 * len(streamline_segments(few))


def test_arrows_are_the_velocity_in_the_cells_below_them():
    run = rotation((48, 20))
    axes = plots.vectors(run, time=0.1)
    assert is_drawn(axes.figure)
    [arrows] = axes.collections
    x, y = run.axes.grid.centers[:, 1::2, 1::2]
    np.testing.assert_allclose(
        arrows.get_offsets(), np.stack([x.T, y.T], -1).reshape(-1, 2)
    )
    np.testing.assert_allclose(arrows.U, -np.ravel(y.T))
    np.testing.assert_allclose(arrows.V, np.ravel(x.T))
    longest = np.hypot(arrows.U, arrows.V).max() / arrows.scale
    assert 1.5 * 0.1 < longest <= 3 * 0.1, "in distances of arrows, 2.4 / 24"


@pytest.mark.parametrize("draw", first_plain([plots.vectors, plots.streamlines]))
def test_nothing_flows_in_an_obstacle(draw):
    x, y = rotation().axes.grid.centers
    inside = jnp.hypot(x - 0.3, y) < 0.45
    axes = draw(rotation(solid=inside.astype(float)))
    assert is_drawn(axes.figure)
    if draw is plots.vectors:
        arrows = axes.collections[-1]
        points = arrows.get_offsets()[~arrows.Umask]
    else:
        points = streamline_segments(axes).reshape(-1, 2)
    # A line ends in the cell whose corner is solid, 0.14 across.
    assert np.hypot(points[:, 0] - 0.3, points[:, 1]).min() > 0.45 - 0.14


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_velocity_of_a_vorticity_is_that_of_its_streamfunction(dtype):
    grid = pde.Grid((16, 16), 0.0, TURN)
    x, y = grid.centers
    # ψ = sin x cos 2y has ω = 5ψ, u = ∂ψ/∂y and v = −∂ψ/∂x.
    vorticity = 5 * jnp.sin(x) * jnp.cos(2 * y)
    run = run_of(("vorticity",), grid, vorticity[None, None], dtype=dtype)
    axes = plots.vectors(run, "vorticity")
    [arrows] = axes.collections
    u, v = -2 * np.sin(x) * np.sin(2 * y), -np.cos(x) * np.cos(2 * y)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(arrows.U, u.T.ravel(), atol=tolerance)
    np.testing.assert_allclose(arrows.V, v.T.ravel(), atol=tolerance)
    np.testing.assert_allclose(axes.images[0].get_array(), vorticity.T, rtol=1e-6)


def test_array_of_a_velocity_is_drawn_on_a_grid():
    run = rotation()
    axes = plots.streamlines(run.states[1], grid=run.axes.grid)
    speed = np.hypot(*np.asarray(run.states[1])).T
    np.testing.assert_allclose(axes.images[0].get_array(), speed)


def test_vorticity_of_layers_at_walls_does_not_bleach_the_flow():
    grid = pde.Grid((100, 100))
    velocity = np.zeros((1, 2, 100, 100))
    velocity[0, 0] = np.asarray(grid.centers[1])
    velocity[0, 0, 50, 0] = 50.0
    names = "velocity_x", "velocity_y"
    run = run_of(names, grid, velocity, ((pde.NoSlip(),) * 2,) * 2)
    image = plots.field(run, "vorticity").images[0]
    np.testing.assert_allclose(image.get_clim(), (-1, 1), rtol=1e-6)
    assert image.colorbar.extend == "max"


def test_flow_at_rest_is_drawn():
    run = rotation()
    rest = run_of(run.names, run.axes.grid, 0 * run.states)
    assert is_drawn(plots.vectors(rest).figure)
    assert is_drawn(plots.streamlines(rest).figure)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spectrum_of_a_sine_peaks_at_its_wavenumber_with_its_power(dtype):
    grid = pde.Grid(32, 0.0, TURN / 2)
    (x,) = grid.centers
    # sin 6x is three waves of wavenumber 6 on this box; the mean of its square is 1/2.
    states = [amplitude * np.sin(6 * x) for amplitude in (1.0, 4.0)]
    run = run_of(("u",), grid, np.stack(states)[:, None], dtype=dtype)
    axes = plots.spectrum(run)
    assert is_drawn(axes.figure)
    k, power = axes.lines[0].get_data()
    np.testing.assert_allclose(k, 2 * np.arange(1, 17), rtol=1e-6)
    assert k[np.argmax(power)] == pytest.approx(6)
    assert power.max() == pytest.approx(8, rel=1e-6)
    assert power[k > 7].max() < 1e-9
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("wavenumber", "power of u")
    axes = plots.spectrum(run, time=[0, 1])
    assert axes.lines[0].get_ydata().max() == pytest.approx(0.5, rel=1e-6)
    assert [x.get_text() for x in axes.get_legend().get_texts()] == ["0", "1"]


@pytest.mark.parametrize("state", ["velocity", "vorticity", "array"])
def test_energy_spectrum_of_a_taylor_green_vortex_is_its_energy(state):
    grid = pde.Grid((16, 16), 0.0, TURN)
    x, y = grid.centers
    # Of |k| = √8 and mean energy 1/4, as a velocity and as a vorticity.
    velocity = jnp.stack(
        [jnp.sin(2 * x) * jnp.cos(2 * y), -jnp.cos(2 * x) * jnp.sin(2 * y)]
    )
    vorticity = 4 * jnp.sin(2 * x) * jnp.sin(2 * y)
    if state == "array":
        axes = plots.spectrum(velocity, grid=grid)
    elif state == "velocity":
        axes = plots.spectrum(
            run_of(("velocity_x", "velocity_y"), grid, velocity[None])
        )
    else:
        axes = plots.spectrum(
            run_of(("vorticity",), grid, vorticity[None, None]), "energy"
        )
    k, energy = axes.lines[0].get_data()
    assert k[np.argmax(energy)] == pytest.approx(3), "the shell from 2.5 to 3.5"
    assert energy.max() == pytest.approx(0.25, rel=1e-6)
    assert axes.get_ylabel() == "energy"


def test_reference_line_has_its_slope_and_says_so():
    grid = pde.Grid(64, 0.0, TURN)
    field = np.random.default_rng(0).normal(size=64)
    axes = plots.spectrum(field, "noise", grid=grid, slope=-5 / 3)
    k, line = axes.lines[1].get_data()
    slopes = np.diff(np.log(line)) / np.diff(np.log(k))
    np.testing.assert_allclose(slopes, -5 / 3)
    assert [text.get_text() for text in axes.texts] == ["$k^{-5/3}$"]
    power = np.interp(k, *axes.lines[0].get_data())
    assert np.all(line > power)
