"""Common mistakes with pictures, and the sentences that answer them."""

import warnings

import diffrax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import diffsim as ds
from diffsim import pde, plots, problems


@pytest.fixture(scope="module")
def heat():
    plate = pde.Evolution(pde.Diffusion(0.1), np.eye(4), pde.Grid((4, 4)))
    return ds.simulate(plate, [0.0, 0.1], ds.Method(diffrax.Euler(), step=0.1))


class Quantity(np.ndarray):
    """As Astropy has it: an array that knows its unit."""

    unit = "km / s"

    def to_value(self, unit):
        return np.asarray(self)


_SPEEDS = np.ones(3).view(Quantity)
_TIMES = np.arange(3.0)


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("residuals", lambda: plots.residuals(_TIMES, _SPEEDS, 1.0)),
        ("sigma", lambda: plots.residuals(_TIMES, np.ones(3), _SPEEDS)),
        ("values", lambda: plots.phase_folded(_TIMES, _SPEEDS, 1.0)),
        ("times", lambda: plots.observed_minus_computed(_SPEEDS)),
        ("an array", lambda: plots.field(_SPEEDS, grid=pde.Grid(3))),
        ("positions", lambda: plots.orbits(np.ones((2, 1, 3)).view(Quantity))),
    ],
)
def test_quantities_are_refused_and_lose_no_units(name, draw):
    with pytest.raises(ValueError, match=f"{name} must be plain numbers .* in km / s"):
        draw()


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: plots.residuals(_TIMES, x, 1.0),
        lambda x: plots.phase_folded(_TIMES, x, 1.0),
        lambda x: plots.field(x, grid=pde.Grid(3)),
        lambda x: plots.orbits(jnp.tile(x, (2, 1, 1))),
    ],
    ids=["residuals", "phase_folded", "field", "orbits"],
)
def test_traced_numbers_are_refused_where_jit_traces_them(draw):
    with pytest.raises(ValueError, match="is traced, and its numbers are not known"):
        jax.jit(draw)(np.ones(3))


def test_traced_trajectory_is_not_taken_for_a_batch(heat):
    with pytest.raises(ValueError, match="trajectory is traced"):
        jax.jit(lambda run: run.plot())(heat)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (plt.figure, "one pair of Matplotlib axes, .* got Figure"),
        (lambda: plt.subplots(1, 2)[1], "one pair of Matplotlib axes, .* got ndarray"),
        (lambda: plt, "one pair of Matplotlib axes, .* got module"),
        (lambda: plt.subplot(projection="3d"), "axes of a plane, got 3d ones"),
        (lambda: plt.subplot(projection="polar"), "axes of a plane, got polar ones"),
    ],
    ids=["figure", "array", "pyplot", "3d", "polar"],
)
def test_axes_of_another_kind_raise_value_error(heat, make, said):
    ax = make()
    for draw in (
        lambda: heat.plot(ax=ax),
        lambda: heat.animate(ax=ax),
        lambda: plots.residuals(_TIMES, np.ones(3), 1.0, ax=ax),
        lambda: plots.orbits(np.ones((2, 1, 3)), ax=ax),
    ):
        with pytest.raises(ValueError, match=f"ax must be {said}"):
            draw()


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda run: run.plot(labels="T [K]"), "labels must be a dictionary by name"),
        (lambda run: run.animate("heat.webm"), "must end with .gif or .mp4"),
        (lambda run: plots.orbits(problems.kepler()), "got a NBody; ds.simulate"),
        (
            lambda run: plots.residuals(_TIMES, np.ones(3), -1.0),
            "sigma must be positive, got -1",
        ),
        (
            lambda run: ds.sweep(lambda x: x, 1.0, {"value": [1.0]}).plot(output="u"),
            "output must be a function of",
        ),
    ],
    ids=["labels", "movie", "system", "sigma", "output"],
)
def test_mistake_raises_value_error(heat, draw, said):
    with pytest.raises(ValueError, match=said):
        draw(heat)


def circle(outputs):
    angle = np.linspace(0, 4 * np.pi, outputs)
    planet = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    rounding = 1e-17 * np.random.default_rng(0).normal(size=planet.shape)
    return np.stack([rounding, planet], axis=1)


def test_orbits_of_few_outputs_warn_of_chords():
    with pytest.warns(UserWarning, match="turns by 103 degrees, .* 50 a period"):
        plots.orbits(circle(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.orbits(circle(40))


def test_lines_inside_of_look_have_its_colors():
    with plots.look():
        ax = plt.figure().add_subplot()
        lines = ax.plot(np.ones((2, 12)))
    assert {line.get_color() for line in lines} == set(plots.COLORS)


def test_parameters_of_a_sweep_have_labels_with_units():
    found = ds.sweep(lambda x: x["D"], {"D": jnp.ones(())}, {"D": [1.0, 2.0]})
    ax = found.plot(labels={"D": "D [m²/s]"}, label="T [K]")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("D [m²/s]", "T [K]")
