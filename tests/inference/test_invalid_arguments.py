"""Invalid arguments of `fit`, `fisher` and `Gaussian` raise `ValueError`."""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

from diffsim import sweeps
from diffsim.inference import (
    FitOptions,
    Free,
    Gaussian,
    LevenbergMarquardt,
    fisher,
    fit,
)


def line(model):
    return model["a"] + model["b"] * np.arange(5.0)


MODEL = {"a": 1.0, "b": 2.0}
DATA = np.arange(5.0)
HOLE = np.where(np.arange(5) == 2, np.nan, DATA)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"data": HOLE},
            "data has 1 of 5 numbers that are NaN.*flat position 2.*mask=",
        ),
        ({"data": DATA[:4]}, r"the prediction must have the shape of the data, \(4,\)"),
        ({"data": {"y": DATA}}, "the prediction must be a pytree like the data"),
        ({"data": ()}, "data must hold at least one number"),
        ({"data": DATA + 1j}, "data must be real numbers, got dtype complex128"),
        ({"noise": 0.1}, r"noise must be a likelihood.*got float.*Gaussian\(sigma\)"),
        ({"noise": lambda m: m["a"]}, "noise must be a likelihood"),
        ({"noise": lambda m: Gaussian()}, "must return a Gaussian with a sigma"),
        ({"noise": Gaussian(np.ones(3))}, r"sigma must have the shape of the data"),
        ({"noise": Gaussian(mask=np.ones(3, bool))}, "mask must have the shape of the"),
        ({"noise": Gaussian(mask=np.zeros(5, bool))}, "mask leaves no data"),
        ({"data": "x"}, "data must be real numbers.*got 'x'"),
        ({"model": {**MODEL, "n": 3}, "free": "n"}, "free: 'n' is int, and only float"),
        (
            {"model": {"a": 1, "b": 2.0, "c": [jnp.array([1, 2])]}},
            r"varies every float, and not the integers of a, c\[0\]; write 1.0",
        ),
        ({"free": 3}, "free must be a path or several, 'bodies.masses' say, got 3"),
        ({"free": ["a", 3]}, r"free must be a path or several.*got \['a', 3\]"),
        ({"free": {3: Free()}}, r"free must be a path or several.*got \(3,\)"),
        ({"free": ()}, "free selects no numbers"),
        ({"free": ["a", "*"]}, "free names 'a' twice"),
        (
            {"noise": Gaussian(), "free": {"a": Free(prior=(0.0, 1.0))}},
            r"noise=Gaussian\(\) cannot be combined with priors",
        ),
        ({"solver": "lm"}, "solver must be an Optax optimizer or an Optimistix"),
        (
            {"solver": optx.BFGS(1e-8, 1e-8), "free": {"a": Free(bounds=(1.0, 2))}},
            "model: a is 1, at or beyond one of its bounds",
        ),
        (
            {
                "solver": optx.GaussNewton(1e-8, 1e-8),
                "noise": lambda m: Gaussian(m["a"]),
            },
            "solver GaussNewton minimises sums of squares only",
        ),
        ({"starts": 0}, "starts must be an integer of at least 1, got 0"),
        ({"starts": 2.5}, "starts must be an integer of at least 1, got 2.5"),
        ({"starts": "x"}, "starts must be an integer of at least 1, got 'x'"),
        (
            {"options": sweeps.SweepOptions()},
            r"options must be an inference.FitOptions\(...\), got SweepOptions\(prog",
        ),
        (
            {"options": {"max_steps": 3}},
            r"options must be an inference.FitOptions\(...\), got \{'max",
        ),
        ({"model": {**MODEL, "a": np.nan}}, "model: a starts at nan"),
    ],
)
def test_invalid_arguments_of_fit_raise_value_error(change, sentence):
    given = {"model": MODEL, "data": DATA, "noise": Gaussian(0.1), **change}
    with pytest.raises(ValueError, match=sentence):
        fit(line, given.pop("model"), given.pop("data"), **given)


@pytest.mark.parametrize(
    ("sigma", "sentence"),
    [
        (0.0, "sigma must be positive, got 0.0; it is a standard deviation"),
        ([1.0, -2.0], "sigma must be positive, got -2.0"),
        (np.array([1.0, np.nan]), "sigma must be positive, got nan"),
        ("x", "sigma must be real numbers.*got 'x'"),
        ({"y": "q"}, "sigma must be real numbers.*got 'q'"),
        (object(), "sigma must be real numbers.*got <object"),
    ],
)
def test_invalid_sigma_raises_value_error(sigma, sentence):
    with pytest.raises(ValueError, match=sentence):
        Gaussian(sigma)


@pytest.mark.parametrize("mask", [np.ones(3), "x"])
def test_mask_that_is_not_boolean_raises_value_error(mask):
    with pytest.raises(ValueError, match="mask must be boolean, True where there is"):
        Gaussian(1.0, mask=mask)


@pytest.mark.parametrize(
    ("sigma", "mask"),
    [
        (np.nan, np.array([True, False])),
        (np.array([1.0, np.nan]), np.array([[True, False], [True, True]])),
        (np.array([1.0, np.nan]), np.array([True, False, False])),
        ({"y": np.array([1.0, np.nan])}, {"y": np.array([False, True])}),
    ],
)
def test_nan_sigma_outside_the_mask_raises_value_error(sigma, mask):
    with pytest.raises(ValueError, match="sigma must be positive, got nan"):
        Gaussian(sigma, mask=mask)


@pytest.mark.parametrize("steps", [0, 2.5, "x"])
def test_max_steps_below_one_raises_value_error(steps):
    with pytest.raises(ValueError, match="max_steps must be an integer of at least 1"):
        FitOptions(max_steps=steps)


def test_estimating_sigma_needs_more_data_than_parameters():
    mask = np.arange(5) < 2
    with pytest.raises(ValueError, match="more data than parameters, got 2 for 2"):
        fisher(line, MODEL, noise=Gaussian(mask=mask), data=DATA)


@pytest.mark.parametrize("act", ["fit", "fisher"])
def test_single_precision_session_warns_once_and_names_the_flag(act):
    def called():
        if act == "fit":
            fit(line, MODEL, DATA, noise=Gaussian(0.1))
        else:
            fisher(line, MODEL, noise=Gaussian(0.1))

    with jax.enable_x64(False), pytest.warns(match=f"{act}.*jax_enable_x64") as seen:
        called()
    assert len(seen) == 1


def test_unknown_jacobian_mode_raises_value_error():
    with pytest.raises(ValueError, match="mode must be 'auto', 'forward' or 'reverse'"):
        fit(line, MODEL, DATA, noise=Gaussian(0.1), solver=LevenbergMarquardt(mode="x"))


def test_integer_data_are_fitted():
    model = {**MODEL, "n": 3}
    whole = fit(line, model, np.arange(5), noise=Gaussian(0.1), free=["a", "b"])
    np.testing.assert_allclose(whole.values, [0, 1], atol=1e-8)
    assert isinstance(whole.model["n"], int) and jnp.isfinite(whole.loss)


@pytest.mark.parametrize("wrap", [lambda z: z, lambda z: {"real": z.real, "z": z}])
def test_complex_prediction_raises_value_error(wrap):
    """A cast would fit its real part and say nothing."""

    def predict(model):
        return wrap(line(model) * jnp.exp(1j * model["a"]))

    data = jax.tree.map(lambda z: np.asarray(z.real), predict(MODEL))
    sentence = r"the prediction must be real numbers, got dtype complex128.*jnp.stack"
    with pytest.raises(ValueError, match=sentence):
        fit(predict, MODEL, data, noise=Gaussian(0.1))
    with pytest.raises(ValueError, match=sentence):
        fisher(predict, MODEL, noise=Gaussian(0.1))
