"""Plots without a display: figures are not empty and show the given data."""

import os
import subprocess
import sys
import types

import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import is_drawn

import diffsim as ds
from diffsim import inference, integrators, nbody, plots
from diffsim.plots import _style


@pytest.fixture(scope="module")
def trajectory():
    bodies = nbody.Bodies(
        [1.0, 1e-3], [[0, 0, 0], [1.0, 0, 0.2]], [[0, 0, 0], [0, 1.0, 0]]
    )
    method = ds.Method(integrators.Leapfrog(), step=0.05)
    return ds.simulate(nbody.NBody(bodies), np.arange(1.0, 7.0), method)


@pytest.fixture(scope="module")
def line():
    """A straight line's fit and forecast, whose covariances are exact."""
    x = np.linspace(0, 1, 11)
    data = 2 + 3 * x + 0.1 * np.random.default_rng(0).normal(size=11)
    predict, noise = lambda p: p[0] + p[1] * x, inference.Gaussian(0.1)
    fit = ds.fit(predict, jnp.array([1.0, 1.0]), data, noise=noise)
    better = ds.fisher(predict, fit.model, noise=inference.Gaussian(0.05))
    return types.SimpleNamespace(fit=fit, forecast=better)


def test_orbits_draw_the_simulated_positions(trajectory):
    axes = plots.orbits(trajectory, names=["Sun", "Planet"], unit="au")
    assert is_drawn(axes.figure)
    path = axes.lines[2].get_xydata()
    np.testing.assert_array_equal(path, trajectory.states.positions[:, 1, :2])
    assert [text.get_text() for text in axes.texts] == ["Sun", "Planet"]
    assert axes.get_xlabel() == "x [au]" and axes.get_aspect() == 1


def test_orbits_take_states_and_arrays_and_any_plane(trajectory):
    states = trajectory.states
    for given in (states, states.positions, np.asarray(states.positions)):
        axes = plots.orbits(given, plane="xz")
        np.testing.assert_array_equal(
            axes.lines[2].get_ydata(), states.positions[:, 1, 2]
        )
        assert axes.get_ylabel() == "z"


def test_orbits_draw_into_given_axes(trajectory):
    figure, axes = plt.subplots()
    assert plots.orbits(trajectory, ax=axes) is axes
    assert plt.get_fignums() == [figure.number]


def test_residuals_are_in_units_of_sigma_and_say_their_mean_square():
    times = np.arange(50.0)
    residuals = 3.0 * np.random.default_rng(0).normal(size=(50, 2, 3))
    axes = plots.residuals(times, residuals, 3.0, names=["a", "b"])
    assert is_drawn(axes.figure)
    points = axes.lines[0].get_xydata()
    np.testing.assert_allclose(points[:, 1], residuals[:, 0].ravel() / 3)
    np.testing.assert_array_equal(points[:, 0], np.repeat(times, 3))
    written = [text.get_text() for text in axes.texts]
    means = np.mean(np.square(residuals / 3), axis=(0, 2))
    assert {f"{mean:.2f}" for mean in means} <= set(written)
    assert "mean of\n(residual/σ)²" in written
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]


@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 2, 3)])
def test_residuals_take_every_shape(shape):
    sigma = np.ones(shape)
    assert is_drawn(plots.residuals(jnp.arange(5.0), sigma, sigma).figure)


def test_projections_of_ellipses_are_the_error_bars(line):
    grid = plots.corner(line.fit, labels=["offset", "slope"])
    assert is_drawn(grid[0, 0].figure)
    lower = grid[1, 0]
    two_sigma, one_sigma = (x.get_xydata() for x in lower.lines)
    # The first axes of corner count from the fit; units are powers of ten.
    labels = lower.get_xlabel(), lower.get_ylabel()
    scale = np.array([_exponent(label) for label in labels])
    sd = np.asarray(line.fit.stderr)
    # 120 points on an ellipse miss its rim by up to 1 - cos(pi/120) = 3e-4.
    np.testing.assert_allclose(one_sigma.max(0) * scale, sd, rtol=4e-4)
    np.testing.assert_allclose(two_sigma.max(0) * scale, 2 * sd, rtol=4e-4)


def _exponent(label):
    return 10.0 ** int(label.split("10^{")[1].split("}")[0]) if "10^" in label else 1.0


def test_ellipses_of_several_outcomes_share_the_center_of_the_fit(line):
    both = {"now": line.fit, "later": line.forecast}
    grid = plots.corner(both, truths=(2.0, 3.0), units=1.0)
    lower = grid[1, 0]
    rings = [x.get_xydata() for x in lower.lines if len(x.get_xydata()) > 2]
    assert len(rings) == 4
    centers = [(ring.min(0) + ring.max(0)) / 2 for ring in rings]
    np.testing.assert_allclose(centers, [centers[0]] * 4, atol=1e-3)
    widths = [np.ptp(ring, axis=0) for ring in rings]
    # Half the noise, half the width.
    np.testing.assert_allclose(widths[2], widths[0] / 2, rtol=1e-6)
    words = [text.get_text() for text in lower.figure.legends[0].get_texts()]
    assert words == ["now", "later"]


def test_corner_axes_are_divided_by_units(line):
    halved = plots.corner(line.fit, units=2.0)
    scale = _exponent(halved[1, 0].get_xlabel())
    width = halved[1, 0].lines[1].get_xydata()[:, 0].max() * scale
    assert width == pytest.approx(float(line.fit.stderr[0]) / 2, rel=4e-4)


def test_corner_draws_the_named_parameters(line):
    figure = plt.figure()
    grid = plots.corner(line.fit, names="[1]", ax=figure)
    assert grid.shape == (1, 1) and figure.axes == [grid[0, 0]]
    with pytest.raises(ValueError, match=r"names='\[2\]' is no parameter; near are"):
        plots.corner(line.fit, names="[2]")


def test_corner_draws_into_a_subfigure_and_into_given_axes(line):
    _, right = plt.figure().subfigures(1, 2)
    grid = plots.corner(line.fit, ax=right)
    assert grid.shape == (2, 2) and right.axes == list(grid.flat)
    assert not grid[0, 1].get_visible()
    own = plt.subplots(2, 2)[1]
    drawn = plots.corner(line.fit, ax=own)
    assert all(a is b for a, b in zip(drawn.flat, own.flat, strict=True))
    assert is_drawn(own[0, 0].figure)


def test_outcomes_in_a_corner_plot_differ_by_dashes_as_well(line):
    grid = plots.corner({"now": line.fit, "later": line.forecast})
    styles = [drawn.get_linestyle() for drawn in grid[0, 0].lines]
    assert styles == ["-", "--"]


def test_undetermined_parameter_of_corner_raises_value_error():
    open_ended = types.SimpleNamespace(
        names=("a", "b"), covariance=np.diag([1.0, np.inf])
    )
    with pytest.raises(ValueError, match="b has no finite error bar"):
        plots.corner(open_ended)
    assert is_drawn(plots.corner(open_ended, names="a")[0, 0].figure)


def test_plotting_does_not_change_rcparams(trajectory):
    before = dict(mpl.rcParams)
    plots.orbits(trajectory)
    plots.residuals(np.arange(3), np.zeros(3), 1.0)
    assert dict(mpl.rcParams) == before


def test_missing_matplotlib_raises_import_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        _style.sheet((1, 1))


@pytest.mark.slow
def test_plots_need_no_display(tmp_path):
    code = (
        "import numpy as np; from diffsim import plots; "
        "plots.residuals(np.arange(3), np.zeros(3), 1.0).figure.savefig('p.png')"
    )
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "p.png").stat().st_size > 2000


def test_long_names_do_not_overlap_in_a_corner_plot():
    names = [
        "bodies.velocities[Jupiter, 1]",
        "forces[0].softening_length",
        "equation.diffusivity_of_salt",
        "bodies.masses[Enceladus]",
        "initial.amplitude_of_wave",
        "boundary.inflow_temperature",
    ]
    known = types.SimpleNamespace(
        names=names, covariance=1e-4 * np.eye(6), values=np.ones(6)
    )
    figure = plots.corner(known)[0, 0].figure
    figure.canvas.draw()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    labels = [
        label for axes in panels for label in (axes.xaxis.label, axes.yaxis.label)
    ]
    labels += [axes.title for axes in panels]
    boxes = [text.get_window_extent() for text in labels if text.get_text()]
    assert len(boxes) >= 11  # six below, five at the side
    for i, box in enumerate(boxes):
        assert figure.bbox.contains(box.x0, box.y0)
        assert figure.bbox.contains(box.x1, box.y1)
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_lines_inside_of_look_have_its_colors():
    with plots.look():
        ax = plt.figure().add_subplot()
        lines = ax.plot(np.ones((2, 12)))
    assert {line.get_color() for line in lines} == set(plots.COLORS)
