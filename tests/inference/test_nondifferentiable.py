"""Functions without forward or reverse mode, and the errors they raise."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from rows import first_plain

from diffsim.inference import FitOptions, Gaussian, LevenbergMarquardt, fisher, fit


X = np.linspace(0, 1, 5)
DATA = np.ones(5)
MODEL = {"a": 1.1}
NOISE = Gaussian(0.1)
ADAM = optax.adam(1e-2)


@jax.custom_vjp
def reversed_only(x):
    return jnp.sin(x)


reversed_only.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x),))


def by_rule(model):
    return reversed_only(model["a"] * X)


def by_callback(model):
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return jax.pure_callback(np.sin, shape, model["a"] * X)


def by_loop(model):
    def step(state):
        return state[0] + 1, state[1] * model["a"]

    return jax.lax.while_loop(lambda state: state[0] < 3, step, (0, jnp.ones(5)))[1]


def uncertain(model):
    return Gaussian(reversed_only(model["a"]))


def fitted(predict, noise=NOISE, **options):
    return fit(predict, MODEL, DATA, noise=noise, **options)


def informed(predict, **options):
    return fisher(predict, MODEL, noise=NOISE, **options)


REVERSE = r"^predict \(by_rule\) has reverse mode only, because of a jax\.custom_vjp"
FORWARD = r"^predict \(by_loop\) has forward mode only, because of a jax\.lax\.while"
CALLBACK = r"^predict \(by_callback\) calls out of JAX by pure_callback.*custom_jvp"
ROWS = {
    "rule in fit": (lambda: fitted(by_rule), f"{REVERSE}.*mode='reverse'"),
    "rule in fits": (lambda: fitted(by_rule, starts=2), f"{REVERSE}.*mode='reverse'"),
    "rule in a descent": (
        lambda: fitted(by_rule, solver=ADAM),
        f"{REVERSE}.*covariance=False.*custom_jvp",
    ),
    "rule in noise": (
        lambda: fitted(lambda m: m["a"] * X, uncertain),
        "^predict or noise has reverse mode only",
    ),
    "rule in fisher": (lambda: informed(by_rule), f"{REVERSE}.*custom_jvp.*observed"),
    "callback in fit": (lambda: fitted(by_callback), CALLBACK),
    "callback in a descent": (lambda: fitted(by_callback, solver=ADAM), CALLBACK),
    "callback in fisher": (lambda: informed(by_callback), CALLBACK),
    "loop in a descent": (
        lambda: fitted(by_loop, solver=ADAM),
        rf"{FORWARD}.* the default solver.* jax\.lax\.scan",
    ),
    "loop in fisher": (
        lambda: informed(by_loop, kind="observed", data=DATA),
        rf"{FORWARD}.* kind='expected'.* jax\.lax\.scan",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_function_without_the_needed_mode_raises_value_error(row):
    act, words = ROWS[row]
    with pytest.raises(ValueError, match=words) as caught:
        act()
    said = "custom_vjp function|callbacks do not support|Reverse-mode"
    with pytest.raises((TypeError, ValueError), match=said):
        raise caught.value.__cause__ or caught.value


@pytest.mark.parametrize(
    "options",
    first_plain(
        [
            {"solver": LevenbergMarquardt(mode="reverse")},
            {"solver": LevenbergMarquardt(mode="reverse"), "starts": 2},
            {"solver": ADAM, "options": FitOptions(covariance=False)},
        ]
    ),
)
def test_reverse_mode_only_function_is_fitted_by_the_suggested_options(options):
    found = fit(by_rule, MODEL, np.sin(X), noise=NOISE, **options)
    # Adam stops where two updates in a row are below 1e-10.
    np.testing.assert_allclose(found.values, 1.0, rtol=1e-6)


def test_reverse_mode_only_function_has_an_observed_information():
    data = np.sin(1.1 * X)
    found = informed(by_rule, kind="observed", data=data)
    # Where nothing is left of the data both are the same.
    slope = X * np.cos(1.1 * X) / 0.1
    np.testing.assert_allclose(found.matrix, [[slope @ slope]], rtol=1e-12)


def test_forward_mode_only_function_is_fitted_by_the_default_solver():
    # three factors of a
    np.testing.assert_allclose(fitted(by_loop).values, 1.0, rtol=1e-8)
