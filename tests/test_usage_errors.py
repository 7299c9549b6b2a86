"""Common mistakes of newcomers from NumPy and SciPy, and the errors they raise."""

import functools
import math
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from given_terms import Given, ode
from sentences import of, pairs, raises, table

import diffsim as ds
from diffsim import integrators, nbody, pde, verify
from diffsim.inference import Free, Gaussian, LevenbergMarquardt, fisher, fit
from diffsim.sweeps import sweep


DATA, X = np.ones(5), np.linspace(0, 1, 5)
MODEL, CURVES = {"a": 1.0, "k": 2.0}, {"u": np.ones(5), "v": np.ones(3)}
NOISE = Gaussian(0.1)
PLACES, SPEEDS = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([[0.0, 0, 0], [0, 1, 0]])
PAIR = nbody.NBody(nbody.Bodies([1.0, 1e-3], PLACES, SPEEDS))
LEAPFROG = integrators.Leapfrog()
STEPS = ds.Method(LEAPFROG, step=0.5)
GRID, ORBIT = pde.Grid(5), nbody.Elements(semi_major_axis=1.0)
COVARIANCE = np.exp(-np.abs(X[:, None] - X))
MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
DATES = [np.array([1, 2], "i8").astype(dtype) for dtype in ("m8[s]", "M8[D]")]
NO_DATES = "times must be plain numbers, got dates"
OVER = {"a": np.arange(3.0)}
OBSERVE = "observe .*jax.numpy"
JNP, WHERE = "jax.numpy", "jnp.where"
SET = r"jnp\.zeros\(5\)\.at\[0\]\.set\(value\)"
MASK = "shape.* must not depend on parameters.* fixed length and a mask"
SWAPPED = "model and data look swapped.*fit\\(predict, model, data\\)"
ORDER = "fit\\(predict, model, data\\)"


def line(model):
    return model["a"] + model["k"] * X


def fitted(predict=line, model=MODEL, data=DATA, noise=NOISE, **options):
    return fit(predict, model, data, noise=noise, **options)


def informed(predict, noise=NOISE):
    return fisher(predict, MODEL, noise=noise)


def swept(predict, model=MODEL, over=OVER):
    return sweep(predict, model, over)


def branch(model):
    return X if model["a"] < 0.5 else model["a"] * X


def by_numpy(model):
    return np.sin(model["a"] * X)


def by_math(model):
    return math.sin(model["a"]) * X


def entry(x):
    found = np.ones(5)
    found[0] = x
    return found


def by_entry(model):
    return entry(model["a"])


def by_curves(model):
    return {"u": line(model), "v": model["a"] * jnp.ones(3)}


def curves(**options):
    return fitted(by_curves, **{"data": CURVES, **options})


def run(times=(1.0,), *, system=PAIR, method=STEPS, **options):
    return ds.simulate(system, times, method, **options)


def observed(observe):
    return run(observe=observe)


def until(condition):
    return run(events=ds.simulations.Event(condition))


def pushed(force):
    return run(system=nbody.NBody(PAIR.bodies, (nbody.Gravity(), force)))


def heated(source):
    heat = pde.Diffusion(1.0, source=source)
    return ds.simulate(pde.Evolution(heat, np.zeros(5), GRID), 1.0)


class Own(Given):
    """By a rate of the user."""


def own(rate):
    return ds.simulate(Own(jnp.ones(5), ode(rate)), 1.0)


def masked(a):
    return np.ma.masked_equal(a, 1)


def half(dtype):
    return [jnp.asarray(a, dtype) for a in (np.ones(2), PLACES, SPEEDS)]


def started(dtype):
    """A system whose arrays were replaced."""
    _, x, v = half(dtype)
    return run(
        system=eqx.tree_at(
            lambda s: (s.bodies.positions, s.bodies.velocities), PAIR, (x, v)
        )
    )


@functools.cache
def information():
    return informed(line)


@table(
    {
        "numpy in fit": (lambda: fitted(by_numpy), JNP),
        "numpy in fisher": (lambda: informed(by_numpy), JNP),
        "numpy in sweep": (lambda: swept(by_numpy), JNP),
        "numpy in terms": (lambda: own(np.sin), "terms of Own .*jax.numpy"),
        "numpy in observe": (lambda: observed(lambda t, y: np.sin(y[0])), OBSERVE),
        "math in fit": (lambda: fitted(by_math), JNP),
        "math in fisher": (lambda: informed(by_math), JNP),
        "math in sweep": (lambda: swept(by_math), JNP),
        "math in observe": (lambda: observed(lambda t, y: math.sin(t)), OBSERVE),
        "entry in fit": (lambda: fitted(by_entry), SET),
        "entry in fisher": (lambda: informed(by_entry), SET),
        "entry in sweep": (lambda: swept(by_entry), SET),
        "entry in a force": (lambda: pushed(lambda t, s: entry(t)), f"force .*{SET}"),
        "entry in terms": (lambda: own(lambda y: entry(y[0])), f"terms of Own .*{SET}"),
        "range in fit": (lambda: fitted(lambda m: jnp.arange(m["a"])), MASK),
        "range in fisher": (lambda: informed(lambda m: jnp.arange(0, 1, m["a"])), MASK),
        "range in sweep": (lambda: swept(lambda m: jnp.zeros(m["a"])), MASK),
        "slice": (lambda: fitted(lambda m: X[0] * jnp.ones(5)[: m["a"]]), MASK),
        "repeats": (lambda: fitted(lambda m: jnp.repeat(X, m["a"])), MASK),
        "chosen entries": (lambda: fitted(lambda m: jnp.nonzero(m["a"] * X)), MASK),
        "distinct entries": (lambda: fitted(lambda m: jnp.unique(m["a"] * X)), MASK),
        "if in fit": (lambda: fitted(branch), WHERE),
        "if in fisher": (lambda: informed(branch), WHERE),
        "if in sweep": (lambda: swept(branch), WHERE),
        "model for predict": (lambda: fitted(MODEL, line), "predict must"),
        "noise without model": (lambda: fitted(noise=lambda: NOISE), "noise must take"),
        "condition of t alone": (lambda: until(lambda t: t), "condition must take"),
        "class for noise": (lambda: fitted(noise=Gaussian), "class Gaussian"),
        "number for noise": (lambda: fitted(noise=0.1), "Gaussian\\(sigma\\)"),
        "array for noise": (lambda: fitted(noise=DATA), "Gaussian\\(sigma\\)"),
        "optimizer not called": (lambda: fitted(solver=optax.adam), "adam\\(1e-2\\)"),
        "solver for method": (lambda: run(method=LEAPFROG), "method must be"),
        "covariance": (lambda: Gaussian(np.eye(5)), "standard deviations"),
        "list of models": (lambda: swept(line, [MODEL, MODEL]), "over='a' names no"),
        "list for sigma": (lambda: fitted(noise=Gaussian([0.1] * 5)), "np.asarray"),
        "list for data": (lambda: fitted(data=[1.0] * 5), "np.asarray"),
        "simulation for data": (lambda: fitted(data=PAIR), ORDER),
        "model for an array": (lambda: fitted(model=DATA, data=MODEL), SWAPPED),
        "model for a dict": (lambda: curves(model=CURVES, data=MODEL), SWAPPED),
        "model for integers": (lambda: fitted(model=np.arange(5), data=MODEL), SWAPPED),
        "short data": (lambda: fitted(data=DATA[1:]), "shape of the data"),
        "nothing returned": (lambda: fitted(lambda model: None), "the prediction must"),
        "integer model": (lambda: fitted(model={"a": 1, "k": 2.0}), "write 1.0 for 1"),
        "unknown name": (lambda: fitted(free=["b"]), "there are 'a', 'k'"),
        "negative sigma": (lambda: Gaussian(-1.0), "sigma must be positive"),
        "text for times": (lambda: run(["1", "2"]), "times must be real numbers"),
        "no times": (lambda: run(None), "times must be real numbers"),
        "times not sorted": (lambda: run([2.0, 1.0]), "times must ascend"),
    },
    [
        (functools.partial(call, MASKED), rf"{name} must be plain numbers.* masked")
        for name, call in (
            ("times", run),
            ("times", lambda m: run([1.0, np.ma.masked])),
            ("masses", lambda m: nbody.Bodies(m, PLACES, SPEEDS)),
            ("masses", lambda m: nbody.Bodies([1.0, np.ma.masked], PLACES, SPEEDS)),
            ("positions", lambda m: nbody.Bodies([1, 2], masked(PLACES), SPEEDS)),
            ("velocities", lambda m: nbody.TestParticles(PLACES, masked(SPEEDS))),
            ("G", lambda m: nbody.Gravity(np.ma.masked)),
            ("semi_major_axis", lambda m: nbody.Elements(semi_major_axis=m)),
            ("h", lambda m: nbody.NonsingularElements(semi_major_axis=1.0, h=m)),
            ("x", lambda m: nbody.Elements.from_state(masked(PLACES), SPEEDS, 1.0)),
            ("sigma", Gaussian),
            ("scale", lambda m: Free(scale=m)),
            ("bounds", lambda m: Free(bounds=(np.ma.masked, 1.0))),
            ("prior", lambda m: Free(prior=(m, 1.0))),
            (
                r"over\['bodies.masses\[0\]'\]",
                lambda m: swept(line, PAIR, {"bodies.masses[0]": m}),
            ),
        )
    ],
    of(
        lambda given: fitted(*given),
        ((lambda m: (m["a"] * X, m["k"] * X), (DATA, DATA), MODEL), SWAPPED),
        ((lambda m: (m[0] * X, m[1] * X), (DATA, DATA), (1.0, 2.0)), SWAPPED),
        ((lambda m: m[0] + m[1] * X, DATA, np.ones(2)), SWAPPED),
        ((lambda m: {"u": m.semi_major_axis * X}, {"u": DATA}, ORBIT), SWAPPED),
        ((lambda m: m["s"], DATA, {"s": PAIR}), ORDER),
    ),
    of(run, *((dates, NO_DATES) for dates in DATES)),
    of(run, *((list(dates), NO_DATES) for dates in DATES)),
    of(
        lambda dates: nbody.Bodies(dates, PLACES, SPEEDS),
        *((dates, "masses must be plain numbers, got dates") for dates in DATES),
    ),
    of(
        lambda dtype: nbody.Bodies(*half(dtype)),
        (jnp.float16, "must be (in )?float32 or float64, got"),
        (jnp.bfloat16, "must be (in )?float32 or float64, got"),
    ),
    of(
        started,
        (jnp.float16, r"initial_state\(\) must be in float32 or"),
        (jnp.bfloat16, r"initial_state\(\) must be in float32 or"),
    ),
    of(
        lambda matrix: information() + matrix,
        (np.eye(3), "shape"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive semidefinite"),
    ),
    pairs(
        lambda: until(lambda t, s, _: np.sin(s.positions[1, 1])),
        "condition .*jax.numpy",
        lambda: pushed(lambda t, s: np.sin(s.positions)),
        "force .*jax.numpy",
        lambda: fitted(noise=lambda m: Gaussian(np.exp(m["a"]))),
        "noise .*jax.numpy",
        lambda: fitted(noise=lambda m: Gaussian(float(m["a"]))),
        "noise .*leave float out",
        lambda: fitted(lambda m: entry(m["a"] * jnp.ones(3))),
        SET,
        lambda: fitted(noise=lambda m: Gaussian(entry(m["a"]))),
        f"noise .*{SET}",
        lambda: observed(lambda t, y: entry(t)),
        f"observe .*{SET}",
        lambda: until(lambda t, s, _: entry(t)[0]),
        f"condition .*{SET}",
        lambda: heated(lambda t, x, u: entry(t)),
        f"source .*{SET}",
        lambda: fitted(lambda m: m["a"] * entry([1.0, 2.0])),
        "^setting an array element with a",
        lambda: fitted(lambda m: jnp.linspace(0, 1, m["a"])),
        MASK,
        lambda: until(lambda t, s, _: 1.0 if t > 0.5 else -1.0),
        "condition .*jnp.where",
        lambda: pushed(lambda t, s: s.positions if t > 1 else 0),
        "force .*jnp.where",
        lambda: fitted(lambda x, a, k: a + k * x),
        "predict must",
        lambda: fitted(solver=LevenbergMarquardt),
        "LevenbergMarquardt\\(\\)",
        lambda: run(method=ds.Method(integrators.Leapfrog, step=0.1)),
        "the class Leapfrog",
        lambda: fitted(data=np.ma.masked_array(DATA, X > 0.5)),
        "mask=~data.mask",
        lambda: fitted(noise=Gaussian(COVARIANCE)),
        "covariance=C",
        lambda: informed(line, Gaussian(COVARIANCE)),
        "covariance=C",
        lambda: curves(noise=Gaussian({"u": COVARIANCE, "v": 1.0})),
        "covariance=C",
        lambda: curves(noise=Gaussian(np.eye(8) + 0.1)),
        "covariance=C",
        lambda: fitted(noise=Gaussian((X + 1,))),
        "got a tuple of 1 array;",
        lambda: fitted(lambda m: m.T, np.ones((2, 3)), np.ones((2, 3))),
        "shape of the data",
        lambda: ds.Method(LEAPFROG, step="0.1"),
        "step must be a Python number",
        lambda: pde.energy(pde.Evolution(pde.Wave(1.0), np.zeros((2, 5)), GRID), run()),
        "trajectory.states",
        lambda: fitted(noise=Gaussian([0.1] * 5)),
        "sigma must be .* data, one array, got a list of 5 numbers; a list",
        lambda: fitted(data=[1.0] * 5),
        "prediction must be .* data, a list of 5 numbers, got one array; a list",
        lambda: fisher(by_curves, CURVES, data=MODEL, noise=NOISE),
        "fisher\\(predict, model, data=data\\)",
        lambda: sweep(lambda s: run(system=s).states, PAIR, {"t0": [0.25, 0.5]}),
        r"Method\(max_steps=...\), the way where a sweep or jit over t0 traces it",
        # Swapped arguments are not suspected where swapping fails too.
        lambda: fitted(lambda m: m, 2 * DATA, DATA, free={"*": Free(bounds=(0, 1))}),
        r"starts at 2\.0, outside its bounds",
    ),
)
def test_common_mistake_raises_value_error_with_the_remedy(call, words):
    raises(ValueError, call, words)


@pytest.mark.parametrize(
    ("error", "call", "words"),
    [
        (
            TypeError,
            lambda: fitted(lambda m: m["a"] * jnp.zeros(5.0)),
            r"^Shapes must be 1D .* got \(5\.0,\)",
        ),
        (KeyError, lambda: fitted(lambda m: m["b"]), "b"),
    ],
)
def test_errors_of_jax_and_of_users_are_not_replaced(error, call, words):
    raises(error, call, words)


def test_events_beyond_their_limit_raise_runtime_error_with_their_index():
    def passes(t, state, simulation):
        return state.positions[1, 1]

    first = ds.simulations.Event(lambda t, s, _: s.positions[1, 0])
    events = first, ds.simulations.Event(passes, limit=2)
    with pytest.raises(RuntimeError, match=r"events\[1\] \(passes, limit=2\)"):
        run([12.0], events=events)


class Spring(Given):
    """With whatever a user returns from default_method()."""

    method: Any = eqx.field(static=True, default=None)

    def default_method(self):
        return self.method


class Cooling(pde.AbstractFiniteVolumeEquation):
    method: Any = eqx.field(static=True)

    def channels(self, ndim):
        return 1

    def rate(self, t, u, domain):
        return -u

    def default_method(self, domain):
        return self.method


class Pair(nbody.NBody):
    def default_method(self):
        return diffrax.Tsit5()


class StepsOfPair(nbody.NBody):
    def default_method(self):
        return STEPS


RETURNED = [
    diffrax.Tsit5(),
    diffrax.Tsit5,
    None,
    (diffrax.Tsit5(), 0.1),
    "Tsit5",
    0.1,
    ds.Method,
    lambda: STEPS,
]


def spring(method):
    return Spring(X, ode(lambda y: -y), method=method)


def plate(method):
    return pde.Evolution(Cooling(method), X, GRID)


@pytest.mark.parametrize(
    "call",
    [
        lambda method: ds.simulate(spring(method), 1.0),
        lambda method: ds.simulate(spring(method), 1.0, step=0.1),
        lambda method: ds.simulate(spring(method), 1.0, rtol=1e-3),
        lambda method: ds.simulate(spring(method), 1.0, max_steps=9),
        lambda method: ds.simulate(plate(method), 1.0),
        lambda method: verify.check_simulation(spring(method), [1.0]),
        lambda method: verify.check_simulation(plate(method), [1.0]),
        # The solver does not fit, and the sentence names that of default_method().
        lambda method: ds.simulate(
            plate(method), 1.0, ds.Method(integrators.ETDRK4(), step=0.1)
        ),
    ],
)
@pytest.mark.parametrize("method", RETURNED, ids=lambda x: type(x).__name__)
def test_default_method_that_is_no_method_raises_value_error(call, method):
    words = r"default_method\(\) must be an object such as Method\(.*\), got "
    raises(ValueError, lambda: call(method), words)


@pytest.mark.parametrize(
    "call",
    [
        lambda system: ds.simulate(system, 1.0),
        lambda system: nbody.megno(system, [1.0]),
        lambda system: nbody.transit_times(system, until=1.0),
    ],
)
def test_default_method_of_bodies_that_is_no_method_raises_value_error(call):
    words = r"default_method\(\) must be an object such as Method\(.*\), got Tsit5"
    raises(ValueError, lambda: call(Pair(PAIR.bodies)), words)


def test_default_method_without_a_controller_raises_value_error_in_megno():
    words = r"controller of default_method\(\) must be .* PIDController\(.*, got None"
    raises(ValueError, lambda: nbody.megno(StepsOfPair(PAIR.bodies), [1.0]), words)
