"""What a newcomer from NumPy and SciPy writes, and the sentence that answers."""

import math

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import diffsim as ds
from diffsim.inference import Gaussian, fisher, fit
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


MASKED = np.ma.masked_array(DATA, X > 0.5)
OVER = {"a": np.arange(3.0)}
ROWS = {
    "numpy in fit": (lambda: fitted(by_numpy), "jax.numpy"),
    "numpy in fisher": (lambda: fisher(by_numpy, MODEL, noise=NOISE), "jax.numpy"),
    "numpy in sweep": (lambda: sweep(by_numpy, MODEL, OVER), "jax.numpy"),
    "math in fit": (lambda: fitted(by_math), "jax.numpy"),
    "math in fisher": (lambda: fisher(by_math, MODEL, noise=NOISE), "jax.numpy"),
    "math in sweep": (lambda: sweep(by_math, MODEL, OVER), "jax.numpy"),
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
    "array for over": (lambda: sweep(line, MODEL, np.arange(3.0)), "over must map"),
    "unequal lengths": (
        lambda: sweep(line, MODEL, {"a": np.ones(2), "k": np.ones(3)}),
        "same number of runs",
    ),
    "batch of zero": (lambda: sweep(line, MODEL, OVER, batch=0), "batch must"),
}


@pytest.mark.parametrize("row", ROWS)
def test_wrong_usage_is_answered_by_a_sentence(row):
    act, words = ROWS[row]
    with pytest.raises(ValueError, match=words):
        act()


@pytest.fixture(scope="module")
def information():
    return fisher(line, MODEL, noise=NOISE)


def test_information_adds_and_scales_as_matrices_do(information):
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
        np.testing.assert_allclose(found.matrix, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "shape"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive semidefinite"),
    ],
)
def test_only_information_matrices_are_added(information, matrix, words):
    with pytest.raises(ValueError, match=words):
        information + matrix


def test_a_batch_may_be_a_number_of_numpy():
    assert sweep(line, MODEL, OVER, batch=np.int64(2)).outputs.shape == (3, 5)
