"""What is wrong in a call of `plots` is said in one sentence."""

import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sentences import Quantity, of, options, pairs, raises, table, warns

import diffsim as ds
from diffsim import nbody, pde, plots, problems
from diffsim.inference import Gaussian, fisher
from diffsim.simulations import FinalState, Trajectory


class Speed(Quantity):
    unit = "km / s"


def run_of(states, axes=None, times=(0.0, 1.0, 3.0)):
    """A trajectory that nobody has simulated."""
    final, stats = FinalState(0.0, states), {"num_accepted_steps": 1}
    successful = ds.RESULTS.successful
    return Trajectory(
        np.asarray(times), states, successful, stats, final, axes=axes, steps=None
    )


def fields(names=("u",), shape=(5, 7), walls=None):
    """Fields on a box with corners (−1, −2, −3), (1, 3, 5)."""
    ndim = len(shape)
    grid = pde.Grid(shape, (-1.0, -2.0, -3.0)[:ndim], (1.0, 3.0, 5.0)[:ndim])
    axes = pde.FieldAxes.of(names, grid, walls or pde.Domain(grid).boundary)
    states = np.random.default_rng(0).uniform(size=(3, len(names), *shape))
    return run_of(jnp.asarray(states), axes)


def circle(outputs):
    angle = np.linspace(0, 4 * np.pi, outputs)
    planet = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    rounding = 1e-17 * np.random.default_rng(0).normal(size=planet.shape)
    return np.stack([rounding, planet], axis=1)


def orbit(times=(0.0, 1.0, 3.0)):
    x = jnp.asarray(circle(np.size(times)))
    return run_of(nbody.State(x, x), nbody.BodyAxes(("Inner", "Outer")), times)


@functools.cache
def forecast():
    model, noise = {"a": 1.0, "b": 2.0}, Gaussian(0.1)
    return fisher(lambda m: m["a"] + m["b"] * TIMES, model, noise=noise)


TIMES, SPEEDS = np.arange(3.0), np.ones(3).view(Speed)
NAMES = "velocity_x", "velocity_y", "velocity_z"
FIELD, PAIR, BOX = fields(), fields(("u", "v")), fields(shape=(4, 5, 8))
FLOW, CUBE = (
    fields(NAMES[:2], walls=((pde.FreeSlip(),) * 2,) * 2),
    fields(NAMES, (4,) * 3),
)
ORBIT, OTHER = orbit(), run_of(jnp.ones(3))


def in_axes(draw):
    """Rows of axes that are none of a plane."""
    return of(
        lambda make: draw(make()),
        (plt.figure, "ax must be one pair of Matplotlib axes, .* got Figure"),
        (
            lambda: plt.subplots(1, 2)[1],
            "ax must be one pair of Matplotlib axes, .* got ndarray",
        ),
        (lambda: plt, "ax must be one pair of Matplotlib axes, .* got module"),
        (
            lambda: plt.subplot(projection="3d"),
            "ax must be axes of a plane, got 3d ones",
        ),
        (
            lambda: plt.subplot(projection="polar"),
            "ax must be axes of a plane, got polar ones",
        ),
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
        ({"name": "w"}, "name must be one of u, v, which"),
        ({"time": 9}, "time must be one time from 0 to 3"),
        ({"time": [0, 1]}, "time must be one time"),
        ({"time": "end"}, "time must be one time from 0 to 3"),
        ({"limits": (1, 0)}, "limits must be two numbers"),
        ({"labels": {"w": "w"}}, "labels has 'w', which is"),
        ({"grid": PAIR.axes.grid}, "grid is for arrays"),
    ),
    of(
        lambda u: plots.field(u, grid=PAIR.axes.grid),
        (PAIR.states, r"an array must have shape \(5, 7\), that of its grid"),
        (1j * PAIR.states[0], "be real"),
    ),
    of(
        options(plots.slices, BOX),
        ({"at": (0, 0)}, "at must be a place in the domain"),
        ({"at": (0, 0, 9)}, r"from \[-1.0, -2.0, -3.0\] to \[1.0, 3.0, 5.0\]"),
        ({"ax": []}, "ax must be three Matplotlib axes"),
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
        (np.nan, "be finite everywhere"),
        (1.0, "u must vary to have"),
    ),
    of(
        options(plots.orbits, np.zeros((4, 2, 3))),
        ({"names": ["one"]}, "names must be one a body"),
        ({"plane": "xx"}, "plane must be two of the letters"),
        ({"plane": "xw"}, "plane must be two of the letters"),
        ({"origin": "Sun"}, "origin must be a number below 2"),
        ({"origin": 2}, "origin must be a number below 2"),
    ),
    of(
        options(plots.residuals, np.arange(5), np.zeros((5, 2)), sigma=1.0),
        ({"sigma": np.ones(3)}, "sigma must be a number or broadcast"),
        ({"names": ["a"]}, "names must be one a series"),
    ),
    of(
        lambda options: plots.corner(forecast(), **options),
        ({"ax": object()}, r"ax must be an empty figure, or axes of shape \(2, 2\)"),
        ({"ax": [1, 2]}, r"ax must be an empty figure, or axes of shape \(2, 2\)"),
        ({"labels": ["one"]}, "labels must be one a parameter"),
        ({"names": []}, "names must choose one parameter at least"),
        ({"names": 0}, "names must be a path or several"),
        ({"truths": [1, 2, 3]}, "truths must be a number or one for each"),
        ({"truths": {"a": 1.0}}, r"^truths must be"),
        ({"truths": "ab"}, r"^truths must be"),
        ({"truths": [1, "b"]}, r"^truths must be"),
        ({"truths": [np.nan, 1.0]}, r"^truths must be"),
        ({"units": [1, 2, 3]}, "units must be a number or one for each"),
        ({"units": 0.0}, r"^units must be (finite|positive)"),
        ({"units": -1.0}, r"^units must be (finite|positive)"),
        ({"units": np.inf}, r"^units must be (finite|positive)"),
        ({"units": [1.0, np.nan]}, r"^units must be (finite|positive)"),
    ),
    of(
        plots.corner,
        ([1, 2], "outcome must be a Fit, a Fisher, or a dict"),
        ({}, "outcome must be a Fit, a Fisher, or a dict"),
        ({"a": 3}, "outcome must be a Fit, a Fisher, or a dict"),
        (None, "outcome must be a Fit, a Fisher, or a dict"),
    ),
    of(
        plots.convergence,
        (3.0, r"found must be a verify\.Convergence"),
        ({}, r"found must be a verify\.Convergence"),
        ({"a": [1, 2]}, r"found must be a verify\.Convergence"),
    ),
    of(
        options(
            plots.phase_folded, times=np.arange(40), values=np.ones(40), period=4.2
        ),
        ({"period": 0.0}, "period must be a positive number"),
        ({"period": np.ones(2)}, "period must be a positive number"),
        ({"values": np.ones(3)}, r"values must have the shape of their times, \(40,\)"),
        ({"values": np.full(40, np.nan)}, "times and values must be finite"),
        ({"times": np.ones((2, 2))}, r"times must have shape \(time,\)"),
        ({"sigma": np.ones(3)}, "sigma must be a number or one for each of 40"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"model": 3.0}, "model must be a function of times, or a pair"),
        ({"model": lambda t: 1.0}, r"model\(times\) must have the shape"),
    ),
    of(
        options(plots.observed_minus_computed, times=TIMES + 1),
        ({"times": [1.0, 2.0, 4.0]}, "epochs must be given where events are missing"),
        ({"times": [1.0]}, "times must be of two epochs at least"),
        ({"epochs": [0, 1, 1.5]}, "epochs must be whole numbers, got 1.5"),
        ({"unit": "year"}, "unit must be None or one of"),
        ({"ephemeris": (1.0, -1.0)}, "ephemeris must be two numbers"),
        ({"model": np.ones(2)}, "times of model must have the shape"),
        ({"model": (1, 2, 3)}, "model must be times or a pair"),
    ),
    of(
        FIELD.animate,
        ("heat.webm", "must end with .gif or .mp4"),
        ("field.png", "path must end with .gif or .mp4"),
        ("nowhere/field.gif", "path must lie in a folder that exists"),
        (".", "path must name a file, got the folder"),
    ),
    [
        (lambda: FIELD.plot(labels="T [K]"), "labels must be a dictionary by name"),
        (lambda: FIELD.animate(name="v"), "name must be one of u, which"),
        (lambda: orbit(0.0).animate(), "animate needs two times at least"),
        (lambda: ORBIT.animate(name="Inner"), "name chooses a field, got 'Inner'"),
        (lambda: ORBIT.animate(fps=0), "fps must be positive"),
        (lambda: plots.field(OTHER), "trajectory must have fields"),
        (lambda: plots.field(BOX), r"plots.slices draws the middle planes"),
        (lambda: plots.field(PAIR.states[0, 0]), r"an array is drawn on grid=, a"),
        (lambda: plots.space_time(PAIR.states), "trajectory must be what simulate"),
        (lambda: plots.space_time(PAIR), "space_time draws a trajectory of fields"),
        (lambda: plots.slices(PAIR), "slices draws fields in three dimensions"),
        (lambda: plots.streamlines(PAIR), "streamlines and vectors draw flows"),
        (lambda: plots.vectors(PAIR, "u"), "streamlines and vectors draw flows"),
        (lambda: plots.spectrum(PAIR, "energy"), "name must be one of u, v"),
        (lambda: plots.streamlines(CUBE), "draw flows on two axes"),
        (lambda: plots.orbits(problems.kepler()), "got a NBody; ds.simulate"),
    ],
    pairs(
        lambda: plots.conservation(ORBIT, None),
        "simulation must be an NBody, an Evolution",
        lambda: plots.conservation(ORBIT.states, problems.kepler()),
        "trajectory must be what simulate returned",
        lambda: plots.conservation(orbit([0.0]), problems.kepler()),
        "trajectory must have two times at least, got 1",
        lambda: plots.spectrum(FLOW),
        "periodic along every axis, got one between",
        lambda: jax.jit(lambda run: run.plot())(FIELD),
        "trajectory is traced",
        lambda: plots.residuals(TIMES, np.ones(3), -1.0),
        "sigma must be positive, got -1",
        lambda: ds.sweep(lambda x: x, 1.0, {"value": [1.0]}).plot(output="u"),
        "output must be a function of",
        lambda: plots.field(PAIR.states[0, 0], grid=PAIR.axes.grid, time=0),
        "time chooses among outputs of a trajectory",
        lambda: plots.field(CUBE, "vorticity"),
        "name must be one of velocity_x, velocity_y",
        lambda: plots.vectors(np.ones((2, 1, 5)), grid=pde.Grid((1, 5))),
        "need two cells along each axis",
        lambda: plots.orbits(np.zeros((4, 3))),
        r"positions must have shape \(time, body, 3\)",
        lambda: plots.residuals(np.arange(5), np.zeros((4, 2)), 1.0),
        "residuals must have shape",
        lambda: plots.trajectory(np.ones(3)),
        "must be what simulate returns, got a nda",
        lambda: plots.animate(np.ones(3)),
        "must be what simulate returns, got a nda",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)


@table(
    of(
        lambda run: run.plot(colour="red"),
        (fields(shape=(8,)), "plots.field draws this and has no option 'co"),
        (ORBIT, "plots.orbits draws this and has no option 'co"),
        (OTHER, "plots.state_lines draws this and has no option 'co"),
    ),
    of(
        lambda run: run.animate(colour="red"),
        *(
            (run, r"plots.animate draws this and has no option")
            for run in (fields(shape=(8,)), ORBIT, OTHER)
        ),
    ),
)
def test_unknown_option_raises_type_error_naming_the_known_ones(call, words):
    raises(TypeError, call, words)


def test_orbits_of_few_outputs_warn_of_chords():
    warns(lambda: plots.orbits(circle(8)), "turns by 103 degrees, .* 50 a period")
    plots.orbits(circle(40))
