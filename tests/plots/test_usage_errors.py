"""What is wrong in a call of `plots` is said in one sentence."""

import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import fields, trajectory_of
from sentences import Quantity, of, options, pairs, raises, table, warns

import diffsim as ds
from diffsim import nbody, pde, plots, problems
from diffsim.inference import Gaussian, fisher


class Speed(Quantity):
    unit = "km / s"


def circle(outputs):
    angle = np.linspace(0, 4 * np.pi, outputs)
    planet = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    rounding = 1e-17 * np.random.default_rng(0).normal(size=planet.shape)
    return np.stack([rounding, planet], axis=1)


def orbit(times=(0.0, 1.0, 3.0)):
    x = jnp.asarray(circle(np.size(times)))
    return trajectory_of(nbody.State(x, x), nbody.BodyAxes(("Inner", "Outer")), times)


@functools.cache
def forecast():
    model, noise = {"a": 1.0, "b": 2.0}, Gaussian(0.1)
    return fisher(lambda m: m["a"] + m["b"] * TIMES, model, noise=noise)


TIMES, SPEEDS = np.arange(3.0), np.ones(3).view(Speed)
NAMES = "velocity_x", "velocity_y", "velocity_z"
FIELD, PAIR, BOX = fields(), fields(("u", "v")), fields(shape=(4, 5, 8))
FLOW, CUBE = (
    fields(NAMES[:2], boundary=((pde.FreeSlip(),) * 2,) * 2),
    fields(NAMES, (4,) * 3),
)
ORBIT, OTHER = orbit(), trajectory_of(jnp.ones(3))


def in_axes(draw):
    """Rows of axes that are none of a plane."""
    return of(
        lambda make: draw(make()),
        (plt.figure, r"ax must be .* plt.subplots\(\)\[1\], got <Figure"),
        (lambda: plt.subplots(1, 2)[1], "ax must be .*, got array"),
        (lambda: plt, "ax must be .*, got <module"),
        (lambda: plt.subplot(projection="3d"), "projection of ax .* got '3d'"),
        (lambda: plt.subplot(projection="polar"), "projection of ax .* got 'polar'"),
    )


@table(
    [
        (call, f"{name} must be plain numbers .* in km / s")
        for name, call in (
            ("residuals", lambda: plots.residuals(TIMES, SPEEDS, 1.0)),
            ("sigma", lambda: plots.residuals(TIMES, np.ones(3), SPEEDS)),
            ("values", lambda: plots.phase_folded(TIMES, SPEEDS, 1.0)),
            ("times", lambda: plots.observed_minus_computed(SPEEDS)),
            ("an array", lambda: plots.field(SPEEDS, grid=pde.Grid(3))),
            ("positions", lambda: plots.orbits(np.ones((2, 1, 3)).view(Speed))),
        )
    ],
    of(
        lambda draw: jax.jit(draw)(np.ones(3)),
        *(
            (draw, "is traced, and its numbers are not known")
            for draw in (
                lambda x: plots.residuals(TIMES, x, 1.0),
                lambda x: plots.phase_folded(TIMES, x, 1.0),
                lambda x: plots.field(x, grid=pde.Grid(3)),
                lambda x: plots.orbits(jnp.tile(x, (2, 1, 1))),
            )
        ),
    ),
    in_axes(lambda ax: FIELD.plot(ax=ax)),
    in_axes(lambda ax: FIELD.animate(ax=ax)),
    in_axes(lambda ax: plots.residuals(TIMES, np.ones(3), 1.0, ax=ax)),
    in_axes(lambda ax: plots.orbits(np.ones((2, 1, 3)), ax=ax)),
    of(
        options(plots.field, PAIR),
        ({"name": "w"}, "name must be one of 'u', 'v', got 'w'"),
        ({"time": 9}, "time must be from 0 to 3"),
        ({"labels": {"w": "w"}}, "a name in labels must be one of 'u'"),
        ({"grid": PAIR.axes.grid}, "grid is for arrays"),
    ),
    of(
        lambda u: plots.field(u, grid=PAIR.axes.grid),
        (PAIR.states, r"an array must have shape \(5, 7\), that of its grid"),
        (1j * PAIR.states[0], "be real"),
    ),
    of(
        options(plots.slices, BOX),
        ({"at": (0, 0, 9)}, r"from \[-1.0, -2.0, -3.0\] to \[1.0, 3.0, 5.0\]"),
    ),
    *(
        of(
            lambda density, draw=draw: draw(FLOW, density=density),
            *((density, "density") for density in (0, -1, [1, 2])),
        )
        for draw in (plots.streamlines, plots.vectors)
    ),
    of(
        lambda value: plots.spectrum(np.full(8, value), "u", grid=pde.Grid(8)),
        (np.nan, "u must be finite, got nan; trajectory.result says"),
        (1.0, "the power of u must be positive"),
    ),
    of(
        options(plots.orbits, np.zeros((4, 2, 3))),
        ({"plane": "xx"}, "plane must be one of 'xy'"),
        ({"plane": "xw"}, "plane must be one of 'xy'"),
        ({"origin": "Sun"}, "origin must be one of"),
    ),
    of(
        lambda options: plots.corner(forecast(), **options),
        ({"ax": object()}, r"ax must be an empty figure, or axes of shape \(2, 2\)"),
        ({"ax": [1, 2]}, r"ax must be an empty figure, or axes of shape \(2, 2\)"),
        ({"labels": ["one"]}, "is longer than argument 1"),
        ({"names": 0}, "names must be a path or several"),
        ({"truths": [1, 2, 3]}, r"requested shape \(2,\)"),
        ({"truths": [np.nan, 1.0]}, r"^truths must be"),
        ({"units": [1, 2, 3]}, r"requested shape \(2,\)"),
        ({"units": 0.0}, r"^units must be (finite|positive)"),
        ({"units": -1.0}, r"^units must be (finite|positive)"),
        ({"units": np.inf}, r"^units must be (finite|positive)"),
        ({"units": [1.0, np.nan]}, r"^units must be (finite|positive)"),
    ),
    of(
        plots.convergence,
        (3.0, r"found must be an object such as verify\.convergence"),
        ({"a": [1, 2]}, r"found must be an object such as verify\.convergence"),
    ),
    of(
        options(
            plots.phase_folded, times=np.arange(40), values=np.ones(40), period=4.2
        ),
        ({"period": 0.0}, "period must be positive"),
        ({"period": np.ones(2)}, "period must be one number"),
        ({"values": np.ones(3)}, r"times and values must have one shape \(time,\)"),
        ({"values": np.full(40, np.nan)}, "values must be finite"),
        ({"times": np.ones((2, 2))}, r"times and values must have one shape"),
        ({"sigma": np.ones(3)}, r"requested shape \(40,\)"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"model": lambda t: 1.0}, r"model\(times\) must have one shape"),
    ),
    of(
        options(plots.observed_minus_computed, times=TIMES + 1),
        ({"times": [1.0, 2.0, 4.0]}, "epochs must be given where events are missing"),
        ({"times": [1.0]}, "number of epochs .* must be a whole number from 2, got 1"),
        ({"epochs": [0, 1, 1.5]}, "epochs must be whole numbers"),
        ({"unit": "year"}, "unit must be one of None, 's'"),
        ({"ephemeris": (1.0, -1.0)}, "the period of ephemeris must be positive"),
        ({"model": np.ones(2)}, "times of model must have one shape"),
    ),
    of(
        FIELD.animate,
        ("heat.webm", "the ending of path must be one of '.gif', '.mp4'"),
        ("field.png", "the ending of path must be one of '.gif', '.mp4'"),
        ("nowhere/field.gif", "path must lie in a folder that exists"),
        (".", "path must name a file, got the folder"),
    ),
    [
        (lambda: FIELD.plot(labels="T [K]"), "labels must be an object such as {'u'"),
        (lambda: FIELD.animate(name="v"), "name must be one of 'u', got 'v'"),
        (
            lambda: orbit(0.0).animate(),
            "number of times .* must be a whole number from 2",
        ),
        (lambda: ORBIT.animate(fps=0), "fps must be positive"),
        (lambda: plots.field(OTHER), "trajectory must have fields"),
        (lambda: plots.field(BOX), r"plots.slices draws three"),
        (
            lambda: plots.field(PAIR.states[0, 0]),
            "grid must be an object such as",
        ),
        (lambda: plots.space_time(PAIR.states), "such as simulate returns"),
        (
            lambda: plots.space_time(PAIR),
            "dimensions of a field must be one of 1",
        ),
        (lambda: plots.slices(PAIR), "dimensions of a field must be one of 3, got 2"),
        (lambda: plots.streamlines(PAIR), "streamlines and vectors draw flows"),
        (lambda: plots.vectors(PAIR, "u"), "streamlines and vectors draw flows"),
        (lambda: plots.spectrum(PAIR, "energy"), "name must be one of 'u', 'v'"),
        (lambda: plots.streamlines(CUBE), "draw flows on two axes"),
        (lambda: plots.orbits(problems.kepler()), "positions must have shape"),
    ],
    pairs(
        lambda: plots.conservation(ORBIT, None),
        "simulation must be an object such as an NBody",
        lambda: plots.conservation(ORBIT.states, problems.kepler()),
        "trajectory must be an object such as simulate returns",
        lambda: plots.conservation(orbit([0.0]), problems.kepler()),
        "number of times .* must be a whole number from 2",
        lambda: plots.spectrum(FLOW),
        "periodic along every axis, got one between",
        lambda: jax.jit(lambda run: run.plot())(FIELD),
        "trajectory is traced",
        lambda: plots.residuals(TIMES, np.ones(3), -1.0),
        "sigma must be positive, got -1",
        lambda: ds.sweep(lambda x: x, 1.0, {"value": [1.0]}).plot(output="u"),
        "output must be a function of",
        lambda: plots.field(PAIR.states[0, 0], grid=PAIR.axes.grid, time=0),
        "time chooses among outputs",
        lambda: plots.field(CUBE, "vorticity"),
        "name must be one of 'velocity_x', 'velocity_y'",
        lambda: plots.orbits(np.zeros((4, 3))),
        r"positions must have shape \(time, body, 3\)",
        lambda: plots.residuals(np.arange(5), np.zeros((4, 2)), 1.0),
        "residuals must have shape",
        lambda: plots.trajectory(np.ones(3)),
        "such as simulate returns, got array",
        lambda: plots.animate(np.ones(3)),
        "such as simulate returns, got array",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)


@pytest.mark.parametrize("run", [fields(shape=(8,)), ORBIT, OTHER])
def test_unknown_option_raises_type_error(run):
    for draw in (run.plot, run.animate):
        raises(TypeError, lambda draw=draw: draw(colour="red"), "argument 'colour'")
    raises(TypeError, lambda: ORBIT.animate(name="Inner"), "argument 'name'")


def test_orbits_of_few_outputs_warn_of_chords():
    warns(lambda: plots.orbits(circle(8)), "turns by 103 degrees, .* 50 a period")
    plots.orbits(circle(40))
