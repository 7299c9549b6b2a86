"""What is wrong in a call of `inference` is said in one sentence."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from sentences import of, options, pairs, raises, table

from diffsim import plots, sweeps
from diffsim.inference import (
    Binomial,
    Categorical,
    Fisher,
    FitOptions,
    Free,
    Gaussian,
    LevenbergMarquardt,
    Poisson,
    Prior,
    StudentT,
    fisher,
    fit,
    log_density,
)


X = np.arange(5.0)
MODEL, KNOWN = {"a": 1.0, "b": 2.0}, Gaussian(0.1)
HOLE = np.where(X == 2, np.nan, X)
BFGS, NEWTON = (solver(1e-8, 1e-8) for solver in (optx.BFGS, optx.GaussNewton))
COMPLEX = r"the prediction must be real numbers, got dtype complex128.*jnp.stack"
TWINS = {"a": {"b": 0.0}, "a.b": 1.0}


def line(model):
    return model["a"] + model["b"] * X


def turned(model):
    return line(model) * jnp.exp(1j * model["a"])


def parts(model):
    return {"real": turned(model).real, "z": turned(model)}


def unreachable(model):
    raise AssertionError


def fitted(predict=line, model=MODEL, data=X, noise=KNOWN, **options):
    return fit(predict, model, data, noise=noise, **options)


def rated(free, rate=1.0):
    model = {"rate": rate, "floor": 0.1}
    return fitted(lambda m: m["rate"] * X + m["floor"], model, free=free)


def density(free=None, noise=KNOWN, data=X):
    free = None if free is None else {"x": free}
    return log_density(lambda m: m["x"] * X, {"x": 0.5}, data, noise=noise, free=free)


@functools.cache
def information():
    return fisher(line, MODEL, noise=KNOWN)


@functools.cache
def batch():
    return jax.vmap(lambda data: fitted(data=data))(np.stack([line(MODEL), X]))


@table(
    of(
        options(fitted),
        (
            {"data": HOLE},
            "data has 1 of 5 numbers that are NaN.*flat position 2.*mask=",
        ),
        ({"data": X[:4]}, r"the prediction must have the shape of the data, \(4,\)"),
        ({"data": {"y": X}}, "the prediction must be a pytree like the data"),
        ({"data": ()}, "data must hold at least one number"),
        (
            {"data": X + 1j},
            r"data must be real numbers, got dtype complex128; .*jnp\.stack",
        ),
        ({"data": "x"}, "data must be real numbers.*got 'x'"),
        ({"data": None}, r"^data must be .*fisher"),
        ({"noise": 0.1}, r"noise must be a likelihood.*got float.*Gaussian\(sigma\)"),
        ({"noise": lambda m: m["a"]}, "noise must be a likelihood"),
        ({"noise": lambda m: Gaussian()}, "must return a Gaussian with a sigma"),
        ({"noise": Gaussian(np.ones(3))}, r"sigma must have the shape of the data"),
        ({"noise": Gaussian(mask=np.ones(3, bool))}, "mask must have the shape of the"),
        ({"noise": Gaussian(mask=np.zeros(5, bool))}, "mask leaves no data"),
        ({"noise": Poisson(), "data": -np.ones(5)}, "counts, 0 or more.*got -1"),
        ({"noise": Binomial(5), "data": X + 3}, "at most trials, 5, got 7"),
        ({"noise": Binomial(5), "data": X - 2}, "0 or more, got -2"),
        ({"noise": Categorical(), "data": X / 2}, "labels 0, 1, 2.*got 0.5"),
        ({"model": {**MODEL, "n": 3}, "free": "n"}, "free: 'n' is int, and only float"),
        ({"model": {**MODEL, "a": np.nan}}, "model: a starts at nan"),
        ({"free": 3}, "free must be a path or several, 'bodies.masses' say, got 3"),
        ({"free": ["a", 3]}, r"free must be a path or several.*got \['a', 3\]"),
        ({"free": {3: Free()}}, r"free must be a path or several.*got \(3,\)"),
        ({"free": ()}, "free selects no numbers"),
        ({"free": ["a", "*"]}, "free names 'a' twice"),
        ({"solver": "lm"}, r"solver must be an object such as optax\.adam.*got 'lm'"),
        (
            {"solver": LevenbergMarquardt(mode="x")},
            "mode must be 'auto', 'forward' or 'reverse'",
        ),
        ({"starts": 0}, "starts must be a whole number from 1, got 0"),
        ({"starts": 2.5}, "starts must be a whole number from 1, got 2.5"),
        ({"starts": "x"}, "starts must be a whole number from 1, got 'x'"),
        ({"priors": [(1.0, 2.0)]}, r"priors must be a list of inference\.Prior"),
    ),
    of(
        lambda free: fitted(free=free()),
        (lambda: {"a": Free(tied=3.0)}, "tied must be the path"),
        (lambda: {"a": Free(tied="b", scale=1.0)}, "tied cannot be combined"),
        (lambda: {"a": Free(tied="q"), "b": Free()}, "tied='q' names nothing"),
        (lambda: {"a": Free(tied="b")}, "must have a parameter that is not tied"),
        (lambda: {"a": Free(tied=lambda m: X), "b": Free()}, "must give one number"),
        (lambda: {"a": Free(prior="normal")}, "prior must be"),
        (lambda: {"a": Free(prior=[(0.0, 1.0)] * 2)}, "a list of one for each"),
    ),
    of(
        rated,
        ("rates", "free='rates' names nothing in the model; near are 'rate'"),
        ({"rate": (0, 1)}, r"free\['rate'\] must be a Free\(...\), got \(0, 1\)"),
        ({"rate": Free(bounds=(2, 3))}, r"rate starts at 1.0, outside its bounds"),
        ({"rate": Free(bounds=(3, 2))}, r"lower < upper, got \(3.0, 2.0\)"),
        ({"rate": Free(bounds=([0, 0], 2))}, r"bounds of 'rate' must be a number or"),
        ({"rate": Free(scale=[1.0, 2.0])}, r"scale of 'rate' must be a number or"),
    ),
    of(
        options(Free),
        ({"scale": 0.0}, "scale must be positive, got 0.0"),
        ({"scale": "x"}, "scale must be real numbers.*got 'x'"),
        ({"bounds": ("x", 1)}, "bounds must be real numbers.*got 'x'"),
        ({"prior": (None, 1.0)}, "prior must be real numbers.*got None"),
        ({"transform": "ln"}, "transform must be 'log', a pair .* got 'ln'"),
        ({"bounds": 3.0}, r"bounds must be a pair \(lower, upper\), got 3.0"),
        ({"prior": (1.0,)}, r"prior must be \(mean, standard deviation\), a distr"),
        ({"prior": (1.0, -1.0)}, "prior must be positive, got -1.0"),
    ),
    of(
        Gaussian,
        (0.0, "sigma must be positive, got 0.0; it is a standard deviation"),
        ([1.0, -2.0], "sigma must be positive, got -2.0"),
        (np.array([1.0, np.nan]), "sigma must be positive, got nan"),
        (np.array(np.inf), r"^sigma must be finite.*mask="),
        (np.array([1, 1, np.inf, 1, 1]), r"^sigma must be finite.*mask="),
        ("x", "sigma must be real numbers.*got 'x'"),
        ({"y": "q"}, "sigma must be real numbers.*got 'q'"),
        (object(), "sigma must be real numbers.*got <object"),
    ),
    of(
        lambda mask: Gaussian(1.0, mask=mask),
        (np.ones(3), "mask must be boolean, True where there is"),
        ("x", "mask must be boolean, True where there is"),
    ),
    of(
        lambda given: Gaussian(given[0], mask=given[1]),
        *(
            (given, "sigma must be positive, got nan")
            for given in (
                (np.nan, np.array([True, False])),
                (HOLE[1:3], np.array([[True, False], [True, True]])),
                (HOLE[1:3], np.array([True, False, False])),
                ({"y": HOLE[1:3]}, {"y": np.array([False, True])}),
            )
        ),
    ),
    of(
        lambda steps: FitOptions(max_steps=steps),
        (0, "max_steps must be a whole number from 1"),
        (2.5, "max_steps must be a whole number from 1"),
        ("x", "max_steps must be a whole number from 1"),
    ),
    of(
        lambda free: fisher(
            lambda m: m["a.b"] * X + m["a"]["b"], TWINS, noise=KNOWN, free=free
        ),
        (["a.b"], r"a\.b.*\['a'\]\['b'\].*\['a\.b'\]"),
        (None, r"a\.b.*\['a'\]\['b'\].*\['a\.b'\]"),
        ({"a.b": Free()}, r"a\.b.*\['a'\]\['b'\].*\['a\.b'\]"),
    ),
    *(
        of(act, *((predict, COMPLEX) for predict in (turned, parts)))
        for act in (
            lambda predict: fitted(
                predict, data=jax.tree.map(jnp.real, predict(MODEL))
            ),
            lambda predict: fisher(predict, MODEL, noise=KNOWN),
        )
    ),
    of(
        lambda noise: fisher(lambda m: 2 + m["a"] * X, {"a": 1.0}, noise=noise).dali(),
        (Poisson(), "dali is for Gaussian noise"),
        (StudentT(0.1, dof=3.0), "dali is for Gaussian noise"),
    ),
    of(
        lambda act: act(information()),
        (lambda f: f.ellipse("a", "b", 2.0), "probability must be between 0 and 1"),
        (lambda f: f.ellipse("a", "q"), "is no parameter"),
        (lambda f: f.reparametrize(lambda n: {"a": n["u"]}, {"u": 1.0}), "a dict of"),
    ),
    of(
        lambda given: Fisher.from_matrix(*given),
        ((np.eye(2), ["a"]), "matrix must have shape"),
        ((np.eye(2), ["a", "a"]), "names must differ"),
        ((-np.eye(1), ["a"]), "positive semidefinite"),
    ),
    of(
        lambda show: show(batch()),
        (lambda f: f.flags, r"jax\.tree\.map\(lambda x: x\[0\]"),
        (lambda f: f.flags, "flags are those of one fit outside jit"),
        (plots.corner, r"jax\.tree\.map\(lambda x: x\[0\]"),
        (lambda f: f.fisher.stderr, r"jax\.tree\.map\(lambda x: x\[0\]"),
        (lambda f: f.to_dataframe(), "fit must be one, got a batch"),
        (lambda f: f.fisher.to_xarray(), "fisher must be one, got a batch"),
    ),
    [
        (lambda: rated({"rate": Free(transform="log")}, -1.0), "rate starts at -1"),
        (lambda: density(noise=Gaussian()), "sigma a parameter: noise=lambda model"),
        (lambda: density()([0.1, 0.2]), "u must have shape"),
        (lambda: density()({"x": 1.0}), "u must be real numbers"),
    ],
    pairs(
        lambda: fitted(model={"a": 1, "b": 2.0, "c": [jnp.array([1, 2])]}),
        r"varies every float, and not the integers of a, c\[0\]; write 1.0",
        lambda: fitted(noise=Gaussian(), free={"a": Free(prior=(0.0, 1.0))}),
        r"noise=Gaussian\(\) cannot be combined with priors",
        lambda: fitted(solver=BFGS, free={"a": Free(bounds=(1.0, 2))}),
        "model: a is 1, at or beyond one of its bounds",
        lambda: fitted(solver=NEWTON, noise=lambda m: Gaussian(m["a"])),
        "solver GaussNewton minimises sums of squares only",
        lambda: fitted(options=sweeps.SweepOptions()),
        r"options must be .* inference.FitOptions\(...\), got SweepOptions\(prog",
        lambda: fitted(options={"max_steps": 3}),
        r"options must be .* inference.FitOptions\(...\), got \{'max",
        lambda: fitted(options=FitOptions(fixed=["a", "b"])),
        "fixed must leave a parameter free",
        lambda: fitted(free={"a": Free(transform=(np.log, np.exp)), "b": Free()}),
        r"transform.*NumPy.*jax\.numpy",
        lambda: Prior(lambda m: m["a"], None),
        r"prior must be \(mean, standard deviation",
        lambda: fisher(line, MODEL, noise=Gaussian(mask=X < 2), data=X),
        "more data than parameters, got 2 for 2",
        lambda: fisher(lambda m: m[0] + m[1] * X, np.array([0, 1]), noise=KNOWN),
        r"integers of the array itself;",
        lambda: fisher(line, MODEL, noise=KNOWN, kind="both"),
        "kind must be one of 'expected', 'observed', 'sampled'",
        lambda: fisher(unreachable, jnp.zeros((100, 100)), noise=KNOWN),
        r"^free: the Fisher matrix of 10000 parameters would take 0\.8 GB.*modes\(k",
        lambda: jax.tree.map(lambda x: x, information()).dali(),
        "dali needs predict and the data, and this",
        lambda: density(data=None),
        "data must be arrays as predict returns them, got None",
        lambda: density(Free(bounds=(0.5, None))),
        "model: x is 0.5, at or beyond one of its bounds",
        lambda: density(Free(bounds=(-1, 2))).coordinates([2.5]),
        "values: x is 2.5, at or beyond one of its bounds",
        lambda: density(Free(transform="log", bounds=(0.1, 2.0))).coordinates([-1.0]),
        "values: x is -1, at or beyond",
        lambda: log_density(lambda x: x[:2], X[:2], np.zeros(3), noise=KNOWN, free="*"),
        "write log_density",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)


def test_member_of_a_batch_of_fits_is_a_fit():
    one = jax.tree.map(lambda x: x[0], batch())
    assert one.flags == {} and plots.corner(one).size and len(one.fisher.stderr) == 2
