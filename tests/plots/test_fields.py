"""Pictures of fields show the numbers of a trajectory where its grid says they are."""

import diffrax
import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import LogNorm
from pictures import fields, is_drawn, trajectory_of

import diffsim as ds
from diffsim import pde, plots


def flow(shape=(12, 10), times=(0.0, 1.0), **options):
    """A flow whose components have both signs."""
    names = tuple(f"velocity_{axis}" for axis in "xyz"[: len(shape)])
    run = fields(names, shape, times, **options)
    return trajectory_of(run.states - 0.5, run.axes, run.times)


def color_label(axes):
    """The label of the bar beside axes that have one in their figure."""
    return axes.child_axes[0].get_ylabel()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map_is_the_transposed_field_between_the_corners(dtype):
    run = fields(("u", "v"), (5, 7), dtype=dtype)
    axes = plots.field(run, "v", time=1.1)
    assert is_drawn(axes.figure)
    [image] = axes.images
    np.testing.assert_array_equal(image.get_array(), run.states[1, 1].T)
    assert image.get_extent() == [-1, 1, -2, 3] and image.origin == "lower"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")
    assert axes.get_aspect() == 1 and axes.get_title(loc="left") == "t = 1"
    assert color_label(axes) == "v"


def test_labels_have_units():
    run = fields(("u",), (5, 7))
    words = {"u": "temperature [K]", "x": "x [m]", "time": "t [s]"}
    axes = plots.field(run, labels=words)
    assert color_label(axes) == "temperature [K]" and axes.get_xlabel() == "x [m]"
    assert axes.get_title(loc="left") == "t = 3 s"


def test_colors_of_one_sign_grow_lighter_and_of_both_signs_are_centered():
    run = fields(("u",), (5, 7))
    [image] = plots.field(run).images
    assert image.get_clim() == (run.states[-1].min(), run.states[-1].max())
    lightness = np.asarray(image.cmap(np.linspace(0, 1, 50)))[:, :3] @ [0.3, 0.6, 0.1]
    assert np.all(np.diff(lightness) > 0)
    signed = trajectory_of(run.states - 0.7, run.axes, run.times)
    [image] = plots.field(signed).images
    largest = float(np.abs(signed.states[-1]).max())
    assert image.get_clim() == (-largest, largest)
    np.testing.assert_allclose(image.cmap(0.5)[:3], 1, atol=0.05)
    # An overshoot of a scheme below zero is no second sign.
    [image] = plots.field(trajectory_of(run.states - 0.02, run.axes, run.times)).images
    assert image.cmap.name == "viridis"


def test_limits_and_color_maps_are_those_given():
    run = fields(("u",), (5, 7))
    axes = plots.field(run, limits=(0.2, 0.6), colormap="cividis")
    assert axes.images[0].get_clim() == (0.2, 0.6)
    assert axes.images[0].cmap.name == "cividis"
    assert axes.images[0].colorbar.extend == "both"
    norm = LogNorm(0.1, 1)
    assert plots.field(run, limits=norm).images[0].norm is norm


def test_obstacle_is_filled_with_its_outline_at_its_radius():
    grid = pde.Grid((80, 200), (-1.0, -2.0), (1.0, 3.0))
    distance = np.hypot(*np.asarray(grid.centers))
    # The part of a cell that a smooth edge leaves solid, half of it at the radius.
    solid = jnp.clip(0.5 - (distance - 0.6) / 0.05, 0, 1)
    run = fields(("u",), (80, 200), (0.0, 1.0), solid=solid)
    state = jnp.where(solid > 0.5, 1e6, run.states)
    axes = plots.field(trajectory_of(state, run.axes, run.times))
    fill, outline = axes.collections
    for drawn in (fill, outline):
        radii = np.hypot(*drawn.get_paths()[0].vertices.T)
        # Between centers 0.025 apart a circle of 0.6 sags by 1e-4.
        np.testing.assert_allclose(radii, 0.6, atol=3e-4)
    red, green, blue, _ = fill.get_facecolor()[0]
    assert red == green == blue
    assert axes.images[0].get_clim()[1] <= 1, "what is inside has no color"


def test_walls_are_solid_open_sides_dashed_and_periodic_ones_not_drawn():
    walls = (pde.Inflow(0.0), pde.Outflow()), (pde.Dirichlet(0.0), pde.Neumann())
    axes = plots.field(fields(("u",), (5, 7), boundary=walls))
    low, high, bottom, top = axes.lines
    assert [low.get_xdata()[0], high.get_xdata()[0]] == [-1, 1]
    assert [bottom.get_ydata()[0], top.get_ydata()[0]] == [-2, 3]
    assert low.is_dashed() and high.is_dashed()
    assert not bottom.is_dashed() and not top.is_dashed()
    assert bottom.get_linewidth() > top.get_linewidth()
    assert not any(spine.get_visible() for spine in axes.spines.values())
    assert not plots.field(fields(("u",), (5, 7))).lines


def test_line_in_one_dimension_and_several_with_a_legend_of_times():
    run = fields(("u",), (9,), dtype=np.float32)
    axes = plots.field(run, time=0.2, limits=(0, 2))
    assert is_drawn(axes.figure)
    [line] = axes.lines
    np.testing.assert_array_equal(line.get_ydata(), run.states[0, 0])
    np.testing.assert_allclose(line.get_xdata(), run.axes.grid.centers[0], atol=1e-12)
    assert axes.get_ylim() == (0, 2) and axes.get_xlim() == (-1, 1)
    axes = plots.field(run, time=[0, 3])
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), run.states[2, 0])
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["0", "3"]
    assert legend.get_title().get_text() == "t"


@pytest.mark.parametrize("even", [True, False])
def test_space_time_has_place_to_the_right_and_time_upward(even):
    times = np.array([0.0, 1.0, 2.0] if even else [0.0, 1.0, 5.0])
    run = fields(("u",), (9,), times, boundary=((pde.Dirichlet(0.0), pde.Neumann()),))
    axes = plots.space_time(run)
    assert is_drawn(axes.figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "t")
    assert color_label(axes) == "u" and len(axes.lines) == 2
    if even:
        [drawn] = axes.images
        assert drawn.get_extent() == [-1, 1, -0.5, 2.5]
    else:
        [drawn] = axes.collections
        edges = drawn.get_coordinates()
        np.testing.assert_allclose(edges[:, 0, 1], [-0.5, 0.5, 3.0, 7.0])
        np.testing.assert_allclose(edges[0, :, 0], np.linspace(-1, 1, 10))
    np.testing.assert_array_equal(drawn.get_array(), run.states[:, 0])


def test_slices_are_the_layers_of_cells_at_a_place_in_shared_colors():
    run = fields(("u",), (4, 5, 8))
    axes = plots.slices(run, at=(-0.9, 2.9, 0.6))
    assert is_drawn(axes[0].figure)
    cube = run.states[-1, 0]
    layers = [cube[:, :, 3], cube[:, 4, :], cube[0]]
    extents = [[-1, 1, -2, 3], [-1, 1, -3, 5], [-2, 3, -3, 5]]
    named = ["t = 3,  z = 0.5", "y = 2.5", "x = -0.75"]
    for ax, layer, extent, name in zip(axes, layers, extents, named, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), layer.T)
        assert ax.images[0].get_extent() == extent
        assert ax.images[0].get_clim() == (cube.min(), cube.max())
        assert ax.get_title(loc="left") == name
    assert (axes[2].get_xlabel(), axes[2].get_ylabel()) == ("y", "z")
    assert color_label(axes[2]) == "u" and not axes[0].child_axes
    given = plt.subplots(1, 3)[1]
    assert plots.slices(run, ax=given)[0] is given[0]


def test_scalar_times_are_drawn():
    for shape in ((9,), (5, 7)):
        axes = plots.field(fields(("u",), shape, times=2.5))
        assert axes.get_title(loc="left") == "t = 2.5"
    assert plots.slices(fields(("u",), (3, 4, 5), times=2.5)).shape == (3,)


def test_arrays_are_drawn_on_a_grid_a_domain_or_that_of_a_simulation():
    grid = pde.Grid((5, 7))
    array = np.arange(35.0).reshape(5, 7)
    axes = plots.field(array, "error", grid=grid)
    np.testing.assert_array_equal(axes.images[0].get_array(), array.T)
    assert color_label(axes) == "error" and axes.get_title(loc="left") == ""
    walls = pde.Domain(grid, pde.Dirichlet(0.0))
    assert len(plots.field(array, grid=walls).lines) == 4
    simulation = pde.Evolution(pde.GrayScott(0.04, 0.06), np.zeros((2, 5, 7)), grid)
    axes = plots.field(np.stack([array, -array]), "v", grid=simulation)
    np.testing.assert_array_equal(axes.images[0].get_array(), -array.T)


def test_speed_and_probability_follow_from_the_state():
    run = flow()
    [image] = plots.field(run).images
    speed = np.hypot(*np.asarray(run.states[-1]))
    np.testing.assert_allclose(image.get_array(), speed.T)
    wave = fields(("psi_real", "psi_imag"), (9,))
    [line] = plots.field(wave).lines
    density = np.sum(np.square(wave.states[-1]), axis=0)
    np.testing.assert_allclose(line.get_ydata(), density)
    gas = fields(("density", "momentum_x", "momentum_y", "energy"), (5, 7))
    [image] = plots.field(gas, "speed").images
    density, *momentum, _ = np.asarray(gas.states[-1])
    np.testing.assert_allclose(image.get_array(), (np.hypot(*momentum) / density).T)


@pytest.mark.parametrize("periodic", [True, False])
def test_vorticity_of_a_solid_rotation_is_twice_its_rate(periodic):
    run = flow(boundary=None if periodic else ((pde.NoSlip(),) * 2,) * 2)
    x, y = run.axes.grid.centers
    states = jnp.stack([-3 * y, 3 * x])
    drawn = plots.field(trajectory_of(states, run.axes, np.asarray(0.0)), "vorticity")
    found = drawn.images[0].get_array()
    # Differences reach across periodic sides, where a rotation jumps.
    inside = found[1:-1, 1:-1] if periodic else found
    np.testing.assert_allclose(inside, 6, rtol=1e-10)


def test_large_field_is_drawn_in_its_own_precision():
    states = jnp.zeros((1, 1, 2048, 2048), jnp.float32).at[0, 0, 7, 9].set(1)
    grid = pde.Grid((2048, 2048))
    axes = pde.FieldAxes.of(("u",), grid, pde.Domain(grid).boundary)
    drawn = plots.field(trajectory_of(states, axes, np.zeros(1)))
    image = drawn.images[0].get_array()
    assert image.nbytes == states.nbytes and image[9, 7] == 1
    assert is_drawn(drawn.figure)


def test_gaps_are_drawn_and_fields_without_a_number_refused():
    run = fields(("u",), (5, 7))
    states = np.array(run.states)
    states[-1, 0, 2, 3] = np.nan
    with_gap = trajectory_of(states, run.axes, run.times)
    assert np.isfinite(plots.field(with_gap).images[0].get_clim()).all()
    states[-1] = np.nan
    with pytest.raises(ValueError, match="u must have finite values to be drawn"):
        plots.field(trajectory_of(states, run.axes, run.times))


def test_constant_field_is_drawn():
    grid = pde.Grid((5, 7))
    for constant in (0.0, 3.0):
        axes = plots.field(np.full((5, 7), constant), grid=grid)
        assert is_drawn(axes.figure)


def batch():
    """Two trajectories in one, as `jax.vmap` of `simulate` returns them."""

    def run(amplitude):
        equation = pde.Diffusion(0.1)
        start = lambda x: amplitude * jnp.cos(x[0])  # noqa: E731
        evolution = pde.Evolution(equation, start, pde.Grid(8, 0.0, 2 * np.pi))
        return ds.simulate(evolution, 0.1, ds.Method(diffrax.Euler(), step=0.1))

    return jax.vmap(run)(jnp.array([1.0, 2.0]))


def test_batches_are_refused_and_members_drawn():
    runs = batch()
    for draw in (plots.field, plots.space_time, plots.spectrum, plots.animate):
        with pytest.raises(ValueError, match=r"jax.tree.map\(lambda x: x\[0\]"):
            draw(runs)
    with pytest.raises(ValueError, match=r"trajectory must be one, got a batch"):
        runs.plot()
    second = jax.tree.map(lambda x: x[1], runs)
    [line] = second.plot().lines
    np.testing.assert_array_equal(line.get_ydata(), runs.states[1, 0])


def test_drawing_into_given_axes_makes_no_figure_and_keeps_rcparams():
    before = dict(mpl.rcParams)
    figure, axes = plt.subplots(1, 2)
    assert plots.field(fields(("u",), (5, 7)), ax=axes[0]) is axes[0]
    assert plots.field(fields(("u",), (9,)), ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    # In a figure without a layout the bar takes its room from the map.
    assert len(figure.axes) == 3 and figure.axes[2].get_ylabel() == "u"
    assert dict(mpl.rcParams) == before
