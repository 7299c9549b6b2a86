"""Common mistakes of newcomers from NumPy and SciPy, and the errors they raise."""

import math
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest

import diffsim as ds
from diffsim import implicit, integrators, nbody, pde
from diffsim.inference import Free, Gaussian, fisher, fit
from diffsim.sweeps import sweep


DATA, X = np.ones(5), np.linspace(0, 1, 5)
MODEL = {"a": 1.0, "k": 2.0}
NOISE = Gaussian(0.1)


def line(model):
    return model["a"] + model["k"] * X


def fitted(predict=line, model=None, data=DATA, noise=NOISE, **options):
    return fit(predict, MODEL if model is None else model, data, noise=noise, **options)


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


class Own(ds.AbstractSimulation):
    rate: Callable = eqx.field(static=True)

    @property
    def t0(self):
        return 0.0

    def initial_state(self):
        return jnp.ones(5)

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: self.rate(y))

    def default_method(self):
        return ds.Method(diffrax.Tsit5(), step=0.1)


def noise_by_numpy(model):
    return Gaussian(np.exp(model["a"]))


def noise_by_float(model):
    return Gaussian(float(model["a"]))


PAIR = nbody.NBody(
    nbody.Bodies([1.0, 1e-3], [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]])
)
STRING = pde.Evolution(
    pde.Wave(1.0), np.zeros((2, 8)), pde.Grid(8, 0, 1), pde.Periodic()
)
STEPS = ds.Method(integrators.Leapfrog(), step=0.5)


def run(times=(1.0,), *, system=PAIR, method=STEPS, **options):
    return ds.simulate(system, times, method, **options)


def pushed(force):
    return nbody.NBody(PAIR.bodies, (nbody.Gravity(), force))


def heated(source):
    heat = pde.Diffusion(1.0, source=source)
    return pde.Evolution(heat, np.zeros((1, 5)), pde.Grid(5, 0, 1), pde.Periodic())


def event(condition, **options):
    return ds.simulations.Event(condition, **options)


COVARIANCE = np.exp(-np.abs(X[:, None] - X))
SWAPPED = "model and data look swapped.*fit\\(predict, model, data\\)"
ORBIT = nbody.Elements(semi_major_axis=1.0)
CURVES = {"u": np.ones(5), "v": np.ones(3)}


def by_curves(model):
    return {"u": line(model), "v": model["a"] * jnp.ones(3)}


def curves(**options):
    return fitted(by_curves, **{"data": CURVES, **options})


MASKED = np.ma.masked_array(DATA, X > 0.5)
SET = r"jnp\.zeros\(5\)\.at\[0\]\.set\(value\)"
MASK = "shape.* must not depend on parameters.* fixed length and a mask"
OVER = {"a": np.arange(3.0)}
SOLVES = (
    implicit.root,
    implicit.fixed_point,
    implicit.minimise,
    implicit.least_squares,
)
ROWS = {
    **{
        f"{kind} for the guess of {solve.__name__}": (
            lambda solve=solve, guess=guess: solve(lambda y, _: y, guess),
            "guess must hold floating arrays, got .*write numbers",
        )
        for solve in SOLVES
        for kind, guess in (
            ("text", "1"),
            ("text in a dict", {"y": ["1"]}),
            ("an array of text", np.array(["1"])),
            ("objects", np.array([None])),
            ("a function", line),
        )
    },
    "numpy in fit": (lambda: fitted(by_numpy), "jax.numpy"),
    "numpy in fisher": (lambda: fisher(by_numpy, MODEL, noise=NOISE), "jax.numpy"),
    "numpy in sweep": (lambda: sweep(by_numpy, MODEL, OVER), "jax.numpy"),
    "math in fit": (lambda: fitted(by_math), "jax.numpy"),
    "math in fisher": (lambda: fisher(by_math, MODEL, noise=NOISE), "jax.numpy"),
    "math in sweep": (lambda: sweep(by_math, MODEL, OVER), "jax.numpy"),
    "entry in fit": (lambda: fitted(by_entry), SET),
    "entry of three in fit": (
        lambda: fitted(lambda m: entry(m["a"] * jnp.ones(3))),
        SET,
    ),
    "entry in fisher": (lambda: fisher(by_entry, MODEL, noise=NOISE), SET),
    "entry in sweep": (lambda: sweep(by_entry, MODEL, OVER), SET),
    "entry in noise": (
        lambda: fitted(noise=lambda m: Gaussian(entry(m["a"]))),
        f"noise .*{SET}",
    ),
    "entry in observe": (
        lambda: run(observe=lambda t, y: entry(t)),
        f"observe .*{SET}",
    ),
    "entry in a condition": (
        lambda: run(events=event(lambda t, s, _: entry(t)[0])),
        f"condition .*{SET}",
    ),
    "entry in a force": (
        lambda: run(system=pushed(lambda t, s: entry(t))),
        f"force .*{SET}",
    ),
    "entry in a source": (
        lambda: run(system=heated(lambda t, x, u: entry(t)), method=None),
        f"source .*{SET}",
    ),
    "entry in terms": (
        lambda: run(system=Own(lambda y: entry(y[0])), method=None),
        f"terms of Own .*{SET}",
    ),
    "numpy in terms": (
        lambda: run(system=Own(np.sin), method=None),
        "terms of Own .*jax.numpy",
    ),
    "range in fit": (lambda: fitted(lambda m: jnp.arange(m["a"])), MASK),
    "range in fisher": (
        lambda: fisher(lambda m: jnp.arange(0, 1, m["a"]), MODEL, noise=NOISE),
        MASK,
    ),
    "range in sweep": (lambda: sweep(lambda m: jnp.zeros(m["a"]), MODEL, OVER), MASK),
    "number of points": (lambda: fitted(lambda m: jnp.linspace(0, 1, m["a"])), MASK),
    "slice": (lambda: fitted(lambda m: X[0] * jnp.ones(5)[: m["a"]]), MASK),
    "repeats": (lambda: fitted(lambda m: jnp.repeat(X, m["a"])), MASK),
    "chosen entries": (lambda: fitted(lambda m: jnp.nonzero(m["a"] * X)), MASK),
    "distinct entries": (lambda: fitted(lambda m: jnp.unique(m["a"] * X)), MASK),
    "if in fit": (lambda: fitted(branch), "jnp.where"),
    "if in fisher": (lambda: fisher(branch, MODEL, noise=NOISE), "jnp.where"),
    "if in sweep": (lambda: sweep(branch, MODEL, OVER), "jnp.where"),
    "signature of SciPy": (lambda: fitted(lambda x, a, k: a + k * x), "predict must"),
    "model for predict": (lambda: fitted(MODEL, line), "predict must"),
    "noise without model": (lambda: fitted(noise=lambda: NOISE), "noise must take"),
    "class for noise": (lambda: fitted(noise=Gaussian), "class Gaussian"),
    "number for noise": (lambda: fitted(noise=0.1), "Gaussian\\(sigma\\)"),
    "optimizer not called": (lambda: fitted(solver=optax.adam), "adam\\(1e-2\\)"),
    "solver not called": (
        lambda: fitted(solver=ds.inference.LevenbergMarquardt),
        "LevenbergMarquardt\\(\\)",
    ),
    "masked array": (lambda: fitted(data=MASKED), "mask=~data.mask"),
    "covariance": (lambda: Gaussian(np.eye(5)), "standard deviations"),
    "positive covariance": (lambda: fitted(noise=Gaussian(COVARIANCE)), "covariance=C"),
    "covariance in fisher": (
        lambda: fisher(line, MODEL, noise=Gaussian(COVARIANCE)),
        "covariance=C",
    ),
    "covariance in a dict": (
        lambda: curves(noise=Gaussian({"u": COVARIANCE, "v": 1.0})),
        "covariance=C",
    ),
    "covariance of all data": (
        lambda: curves(noise=Gaussian(np.eye(8) + 0.1)),
        "covariance=C",
    ),
    "array for over": (lambda: sweep(line, MODEL, np.arange(3.0)), "over must map"),
    "unequal lengths": (
        lambda: sweep(line, MODEL, {"a": np.ones(2), "k": np.ones(3)}),
        "same number of runs",
    ),
    "batch of zero": (lambda: sweep(line, MODEL, OVER, batch=0), "batch must"),
    "list of models": (lambda: sweep(line, [MODEL, MODEL], OVER), "over='a' names no"),
    "numpy in noise": (lambda: fitted(noise=noise_by_numpy), "noise .*jax.numpy"),
    "float in noise": (lambda: fitted(noise=noise_by_float), "noise .*leave float out"),
    "list for sigma": (lambda: fitted(noise=Gaussian([0.1] * 5)), "np.asarray"),
    "list for sigma, in words": (
        lambda: fitted(noise=Gaussian([0.1] * 5)),
        "sigma must be .* data, one array, got a list of 5 numbers; a list",
    ),
    "list for data, in words": (
        lambda: fitted(data=[1.0] * 5),
        "prediction must be .* data, a list of 5 numbers, got one array; a list",
    ),
    "tuple for sigma, in words": (
        lambda: fitted(noise=Gaussian((X + 1,))),
        "got a tuple of 1 array;",
    ),
    "list for data": (lambda: fitted(data=[1.0] * 5), "np.asarray"),
    "array for noise": (lambda: fitted(noise=DATA), "Gaussian\\(sigma\\)"),
    "simulation for data": (lambda: fitted(data=PAIR), "fit\\(predict, model, data\\)"),
    "simulation in data": (
        lambda: fit(lambda m: m["s"], DATA, {"s": PAIR}, noise=NOISE),
        "fit\\(predict, model, data\\)",
    ),
    "model for an array": (lambda: fitted(model=DATA, data=MODEL), SWAPPED),
    "model for a dict": (lambda: curves(model=CURVES, data=MODEL), SWAPPED),
    "model for a tuple": (
        lambda: fitted(lambda m: (m["a"] * X, m["k"] * X), (DATA, DATA), MODEL),
        SWAPPED,
    ),
    "model for integers": (
        lambda: fitted(model=np.arange(5), data=MODEL),
        SWAPPED,
    ),
    "tuples for tuples": (
        lambda: fitted(lambda m: (m[0] * X, m[1] * X), (DATA, DATA), (1.0, 2.0)),
        SWAPPED,
    ),
    "arrays for arrays": (
        lambda: fitted(lambda m: m[0] + m[1] * X, DATA, np.ones(2)),
        SWAPPED,
    ),
    "module for data": (
        lambda: fitted(lambda m: {"u": m.semi_major_axis * X}, {"u": DATA}, ORBIT),
        SWAPPED,
    ),
    "model in fisher": (
        lambda: fisher(by_curves, CURVES, data=MODEL, noise=NOISE),
        "fisher\\(predict, model, data=data\\)",
    ),
    "short data": (lambda: fitted(data=DATA[1:]), "shape of the data"),
    "nothing returned": (lambda: fitted(lambda model: None), "the prediction must"),
    "integer model": (lambda: fitted(model={"a": 1, "k": 2.0}), "write 1.0 for 1"),
    "unknown name": (lambda: fitted(free=["b"]), "there are 'a', 'k'"),
    "negative sigma": (lambda: Gaussian(-1.0), "sigma must be positive"),
    "text for times": (lambda: run(["1", "2"]), "times must be real numbers"),
    "no times": (lambda: run(None), "times must be real numbers"),
    "times not sorted": (lambda: run([2.0, 1.0]), "times must ascend"),
    "solver for method": (
        lambda: ds.simulate(PAIR, [1.0], integrators.Leapfrog()),
        "method must be",
    ),
    "class for solver": (
        lambda: run(method=ds.Method(integrators.Leapfrog, step=0.1)),
        "the class Leapfrog",
    ),
    "sweep over t0": (
        lambda: sweep(lambda s: run(system=s).states, PAIR, {"t0": [0.25, 0.5]}),
        r"Method\(max_steps=...\), the way where a sweep or jit over t0 traces it",
    ),
    "text for step": (
        lambda: ds.Method(integrators.Leapfrog(), step="0.1"),
        "step must be a Python number",
    ),
    "numpy in observe": (
        lambda: run(observe=lambda t, y: np.sin(y[0])),
        "observe .*jax.numpy",
    ),
    "math in observe": (
        lambda: run(observe=lambda t, y: math.sin(t)),
        "observe .*jax.numpy",
    ),
    "numpy in a condition": (
        lambda: run(events=event(lambda t, s, _: np.sin(s.positions[1, 1]))),
        "condition .*jax.numpy",
    ),
    "if in a condition": (
        lambda: run(events=event(lambda t, s, _: 1.0 if t > 0.5 else -1.0)),
        "condition .*jnp.where",
    ),
    "condition of t alone": (lambda: event(lambda t: t), "condition must take"),
    "numpy in a force": (
        lambda: run(system=pushed(lambda t, s: np.sin(s.positions))),
        "force .*jax.numpy",
    ),
    "if in a force": (
        lambda: run(system=pushed(lambda t, s: s.positions if t > 1 else -s.positions)),
        "force .*jnp.where",
    ),
    "trajectory for a state": (
        lambda: nbody.energy(PAIR, run()),
        "trajectory.states",
    ),
    "trajectory for a field": (
        lambda: pde.energy(STRING, run()),
        "trajectory.states",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_common_mistake_raises_value_error_with_the_remedy(row, monkeypatch):
    act, words = ROWS[row]
    # Users have no checks of annotations, which would come before the sentence.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=words):
        act()


def test_ragged_list_raises_the_error_of_numpy():
    with pytest.raises(ValueError, match=r"^setting an array element with a"):
        fitted(lambda m: m["a"] * entry([1.0, 2.0]))


def test_shape_that_is_not_an_integer_raises_the_error_of_jax():
    with pytest.raises(TypeError, match=r"^Shapes must be 1D .* got \(5\.0,\)"):
        fitted(lambda m: m["a"] * jnp.zeros(5.0))


@pytest.fixture(scope="module")
def information():
    return fisher(line, MODEL, noise=NOISE)


def test_fisher_information_adds_and_scales_as_its_matrix(information):
    matrix = np.asarray(information.matrix)
    prior = np.diag([4.0, 0.0])
    cases = (
        (sum([information, information]), 2 * matrix),
        (3 * information, 3 * matrix),
        (information * np.float64(3), 3 * matrix),
        (information + prior, matrix + prior),
        (prior + information, matrix + prior),
        (jnp.asarray(prior) + information, matrix + prior),
        (0 * information, 0 * matrix),
    )
    for found, expected in cases:
        # roots of sums of squares, squared again: some roundings of the largest entry
        np.testing.assert_allclose(found.matrix, expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "shape"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive semidefinite"),
    ],
)
def test_adding_a_matrix_that_is_not_positive_semidefinite_raises_value_error(
    information, matrix, words
):
    with pytest.raises(ValueError, match=words):
        information + matrix


def test_batch_may_be_a_numpy_integer():
    assert sweep(line, MODEL, OVER, batch=np.int64(2)).outputs.shape == (3, 5)


def test_events_beyond_their_limit_raise_runtime_error_with_their_index():
    def passes(t, state, simulation):
        return state.positions[1, 1]

    events = event(lambda t, s, _: s.positions[1, 0]), event(passes, limit=2)
    with pytest.raises(RuntimeError, match=r"events\[1\] \(passes, limit=2\)"):
        run([12.0], events=events)


@pytest.mark.parametrize("free", [["k", "a"], {"k": Free(), "a": Free()}])
def test_parameters_keep_the_order_given_in_free(free):
    found = fitted(data=1 + 2 * X, free=free)
    assert found.names == ("k", "a")
    np.testing.assert_allclose(found.values, [2.0, 1.0])


def test_swapped_arguments_are_not_suspected_where_swapping_fails_too():
    """A model that is laid out like the data, and a function that fails on both."""
    with pytest.raises(ValueError, match=r"starts at 2\.0, outside its bounds"):
        fitted(lambda m: m, 2 * DATA, DATA, free={"*": Free(bounds=(0, 1))})
    with pytest.raises(KeyError, match="b"):
        fitted(lambda m: m["b"])
    with pytest.raises(ValueError, match="shape of the data"):
        fitted(lambda m: m.T, np.ones((2, 3)), np.ones((2, 3)))


def test_whitened_data_give_generalized_least_squares():
    whiten = np.linalg.inv(np.linalg.cholesky(COVARIANCE))
    data = np.array([1.0, 1.7, 2.4, 2.2, 3.1])
    found = fitted(lambda m: whiten @ line(m), data=whiten @ data, noise=Gaussian(1.0))
    A = np.stack([np.ones(5), X], axis=1)
    matrix = A.T @ np.linalg.solve(COVARIANCE, A)
    exact = np.linalg.solve(matrix, A.T @ np.linalg.solve(COVARIANCE, data))
    # the default tolerance of a fit
    np.testing.assert_allclose(found.values, exact, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(matrix), rtol=1e-8)


def test_sweep_over_the_epoch_runs_with_max_steps():
    bounded = ds.Method(integrators.Leapfrog(), step=0.5, max_steps=4)

    def end(system):
        return run(system=system, method=bounded).states.positions

    found = sweep(end, PAIR, {"t0": [0.25, 0.5]})
    assert found.successful.all()
