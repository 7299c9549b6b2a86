"""Single precision in a float64 session warns once, with the names."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.inference import Gaussian, fisher, fit


X = np.arange(5.0)
SINGLE = np.float32


def line(model):
    return model["a"] + model["b"][0] * X


def acts(model, data):
    def fitted():
        return fit(line, model, data, noise=Gaussian(0.1))

    def known():
        return fisher(line, model, noise=Gaussian(0.1), data=data)

    return {"fit": fitted, "fisher": known}


@pytest.mark.parametrize(
    ("model", "data", "names"),
    [
        (
            {"a": jnp.ones((), SINGLE), "b": [jnp.ones((), SINGLE)]},
            X,
            r"model.a \(float32\), model.b\[0\] \(float32\);",
        ),
        ({"a": 1.0, "b": [2.0]}, X.astype(SINGLE), r"session: data \(float32\);"),
        (
            {"a": jnp.ones(()), "b": [SINGLE(2)], "unused": jnp.ones(3, jnp.float16)},
            X,
            r"session: model.b\[0\] \(float32\), model.unused \(float16\);",
        ),
    ],
    ids=["model", "data", "some"],
)
@pytest.mark.parametrize("act", first_plain(["fisher", "fit"]))
def test_single_precision_arrays_are_listed_in_one_warning(model, data, names, act):
    with pytest.warns(UserWarning, match=names) as record:
        acts(model, data)[act]()
    assert len(record) == 1 and str(record[0].message).startswith(act)


@pytest.mark.parametrize("act", ["fit", "fisher"])
def test_doubles_and_integers_raise_no_warning(act):
    model = {"a": 1.0, "b": [jnp.ones(())], "count": np.arange(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = ["a", "b"]
        if act == "fit":
            fit(line, model, X.astype(int), noise=Gaussian(SINGLE(0.1)), free=free)
        else:
            jax.jit(lambda m: fisher(line, m, noise=Gaussian(0.1), free=free).stderr)(
                model
            )


@pytest.mark.parametrize("act", [fit, fisher])
def test_single_precision_session_warns_once_and_names_the_flag(act):
    x = np.arange(5.0)
    given, words = (x,) if act is fit else (), f"{act.__name__}.*jax_enable_x64"
    with jax.enable_x64(False), pytest.warns(match=words) as seen:
        act(lambda m: m["a"] * x, {"a": 1.0}, *given, noise=Gaussian(0.1))
    assert len(seen) == 1


def test_integer_data_are_fitted():
    model, free = {"a": 1.0, "b": [2.0], "n": 3}, ["a", "b"]
    whole = fit(line, model, np.arange(5), noise=Gaussian(0.1), free=free)
    np.testing.assert_allclose(whole.values, [0, 1], atol=1e-8)
    assert isinstance(whole.model["n"], int) and jnp.isfinite(whole.loss)
