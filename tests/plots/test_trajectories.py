"""Pictures and movies of a trajectory, by the kind of its states."""

import itertools

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import is_drawn, trajectory_of
from PIL import Image
from rows import first_plain

from diffsim import nbody, pde
from diffsim.simulations import StateAxes


def fields(shape, count=4):
    """A wave that grows and moves, (time, 1, *grid)."""
    grid = pde.Grid(shape, 0.0, 2 * np.pi)
    phase = np.sum(np.asarray(grid.centers), axis=0)
    states = [(1 + t) * np.sin(phase - t)[None] for t in range(count)]
    axes = pde.FieldAxes.of(("u",), grid, pde.Domain(grid).boundary)
    return trajectory_of(np.stack(states), axes)


def orbit(count=6):
    """Two bodies on circles, of radius 1 and 2."""
    angle = np.linspace(0, 2, count)[:, None] * [1.0, 0.5]
    radius = np.array([1.0, 2.0])
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    states = nbody.State(
        *(jnp.stack([x, y, 0 * x], -1) for _ in ("positions", "velocities"))
    )
    return trajectory_of(
        states, nbody.BodyAxes(("Inner", "Outer")), np.arange(float(count))
    )


def test_kind_of_states_chooses_the_picture():
    bodies = orbit()
    axes = bodies.plot(unit="au")
    assert axes.get_xlabel() == "x [au]"
    assert {"Inner", "Outer"} <= {text.get_text() for text in axes.texts}
    assert len(fields((8,)).plot().lines) == 4
    assert fields((8,), 12).plot().images[0].get_array().shape == (12, 8)
    assert len(fields((8,), 12).plot(time=[1, 2]).lines) == 2
    assert fields((8, 6)).plot(limits=(0, 1)).images[0].get_clim() == (0, 1)
    assert fields((4, 5, 6)).plot(at=(1, 1, 1)).shape == (3,)
    given = plt.figure().add_subplot()
    assert fields((8, 6)).plot(ax=given) is given


def test_other_states_are_lines_over_time_with_their_names():
    states = {"angle": np.arange(5.0), "rate": -np.arange(5.0)}
    axes = trajectory_of(states, StateAxes(("angle", "rate"))).plot(
        labels={"time": "t [s]"}
    )
    assert is_drawn(axes.figure)
    for line, name in zip(axes.lines, ("angle", "rate"), strict=True):
        np.testing.assert_array_equal(line.get_data(), [np.arange(5), states[name]])
        assert line.get_label() == name
    assert axes.get_xlabel() == "t [s]"
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()
    axes = trajectory_of(states).plot(names="rate")
    assert len(axes.lines) == 1 and axes.get_legend() is None


def test_entries_have_the_names_of_their_axis():
    named = StateAxes(("x",), axes={"x": ["mode"]}, entries={"mode": ["low", "high"]})
    states = np.arange(6.0).reshape(3, 2)
    axes = trajectory_of(states, named).plot()
    assert [line.get_label() for line in axes.lines] == ["x [low]", "x [high]"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), states[:, 1])
    assert axes.get_ylabel() == "x"
    axes = trajectory_of(np.arange(6.0).reshape(3, 2)).plot()
    assert [line.get_label() for line in axes.lines] == ["state [0]", "state [1]"]
    # Where entries lie on their axis they are called by their place.
    placed = StateAxes(("x",), axes={"x": ["r"]}, entries={"r": [0.5, 1.0]})
    axes = trajectory_of(states, placed).plot()
    assert [line.get_label() for line in axes.lines] == ["x [0.5]", "x [1]"]


def test_complex_states_many_numbers_and_scalar_times_are_drawn():
    axes = trajectory_of(np.exp(1j * np.arange(4.0))).plot()
    np.testing.assert_allclose(axes.lines[1].get_ydata(), np.sin(np.arange(4.0)))
    assert axes.lines[1].get_label() == "state [imaginary]"
    axes = trajectory_of(np.ones((3, 40))).plot()
    assert [x.get_text() for x in axes.get_legend().get_texts()] == [
        "state, 40 entries"
    ]
    axes = trajectory_of(np.ones(2), times=3.0).plot()
    assert axes.lines[0].get_marker() == "o" and axes.lines[0].get_xdata() == [3]
    with pytest.raises(ValueError, match="trajectory has 600 numbers in a state"):
        trajectory_of(np.ones((3, 600))).plot()


def frames_of(path):
    with Image.open(path) as file:
        found = []
        for number in range(file.n_frames):
            file.seek(number)
            found.append(np.asarray(file.convert("RGB")))
        return found


@pytest.mark.parametrize("shape", first_plain([((4, 5, 6),), ((8,),), ((8, 6),)]))
def test_movie_has_a_frame_for_each_time_and_all_differ(shape, tmp_path):
    run = fields(shape)
    run.animate(tmp_path / "field.gif", fps=10, dpi=40)
    frames = frames_of(tmp_path / "field.gif")
    assert len(frames) == 4
    for one, next_one in itertools.pairwise(frames):
        assert np.mean(one != next_one) > 0.01
    # What stays, the paper say, has its color in all of them.
    assert {tuple(frame[0, 0]) for frame in frames} == {(255, 255, 255)}
    assert not plt.get_fignums(), "a figure that is on disk need not stay open"


def drawn_at(movie, row):
    """The axes of a movie when it shows an output."""
    movie._draw_was_started = True  # nobody shows it, which Matplotlib would warn of
    movie._func(row)
    return movie._fig.axes


def test_limits_stay_over_a_movie():
    run = fields((8, 6))
    largest = np.abs(run.states).max()
    movie = run.animate()
    for row in range(4):
        axes = drawn_at(movie, row)[0]
        [image] = axes.images
        np.testing.assert_array_equal(image.get_array(), run.states[row, 0].T)
        np.testing.assert_allclose(image.get_clim(), (-largest, largest))
        assert axes.get_title(loc="left") == f"t = {row}"
    movie = fields((8,)).animate()
    limits = [drawn_at(movie, row)[0].get_ylim() for row in range(4)]
    assert len(set(limits)) == 1 and limits[0][1] > 3.9


def test_bodies_move_along_their_paths_with_trails():
    run = orbit(20)
    movie = run.animate(unit="au")
    axes = drawn_at(movie, 10)[0]
    x, y = np.asarray(run.states.positions[..., :2]).transpose(2, 0, 1)
    path, trail, dot = axes.lines[3:6]
    np.testing.assert_array_equal(path.get_data(), [x[:, 1], y[:, 1]])
    np.testing.assert_array_equal(trail.get_data(), [x[7:11, 1], y[7:11, 1]])
    np.testing.assert_array_equal(dot.get_data(), [x[10:11, 1], y[10:11, 1]])
    assert axes.texts[1].get_text() == "Outer" and axes.texts[1].xy == (
        x[10, 1],
        y[10, 1],
    )
    assert axes.get_xlabel() == "x [au]" and axes.get_title(loc="left") == "t = 10"
    limits = axes.get_xlim()
    assert drawn_at(movie, 19)[0].get_xlim() == limits
    with pytest.raises(ValueError, match="plane must be one of 'xy'"):
        run.animate(plane="xw")


def test_other_states_have_a_line_that_moves_over_them():
    movie = trajectory_of({"a": np.arange(5.0), "b": np.ones(5)}).animate()
    axes = drawn_at(movie, 3)[0]
    assert list(axes.lines[-1].get_xdata()) == [3, 3]
    assert len(axes.lines) == 3


def test_movie_into_given_axes_leaves_their_figure_open(tmp_path):
    figure, axes = plt.subplots(figsize=(2, 2))
    fields((8, 6), 2).animate(tmp_path / "a.gif", ax=axes, dpi=40)
    assert plt.get_fignums() == [figure.number] and len(axes.images) == 1


def test_movie_of_a_map_is_smaller_than_a_megabyte(tmp_path):
    fields((64, 64), 6).animate(tmp_path / "map.gif")
    assert (tmp_path / "map.gif").stat().st_size < 6 / 60 * 1e6


def test_video_without_ffmpeg_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        RuntimeError, match=r"ffmpeg, which is not installed.*\.gif needs"
    ):
        fields((8, 6)).animate(tmp_path / "field.mp4")
