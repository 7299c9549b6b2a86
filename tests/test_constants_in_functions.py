"""Constants in a user's function are inputs of its compiled program."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._jit._fresh_jit import fresh_jit


@fresh_jit
def called(function, *x):
    return function(*x)


NUMBERS = 0.7, 1.3, -2.0, 1e-9
#: Functions with a number in them, which are another function for each.
MAKERS = {
    "scalar": lambda k: lambda x: k * x,
    "NumPy scalar": lambda k: (lambda k: lambda x: k * x)(np.float64(k)),
    "two on one line": lambda k: (lambda x: x + k, lambda x: x - k)[0],
    "array": lambda k: (lambda k: lambda x: jnp.sum(k) * x)(np.full(3, k)),
    "traced array": lambda k: (lambda k: lambda x: jnp.sum(k) * x)(jnp.full(3, k)),
    "entry": lambda k: (lambda k: lambda x: k[1] * x)(np.full(3, k)),
    "power": lambda k: lambda x: x**k,
    "Python arithmetic": lambda k: lambda x: math.exp(k) * x,
    "choice": lambda k: lambda x: jnp.where(x > k, x, k),
    "output": lambda k: lambda x: k,
    "module of its own": lambda k: Constant(k),
    "partial": lambda k: functools.partial(lambda k, x: k * x, k),
    "batched": lambda k: jax.vmap(lambda x: k * x),
    "derivative": lambda k: jax.grad(lambda x: jnp.sum(k * x**2)),
}


class Constant(eqx.Module):
    """A float that a user declares."""

    value: float

    def __call__(self, x):
        return self.value * x


@pytest.mark.parametrize("name", MAKERS)
def test_changed_constant_does_not_recompile(name, compilations):
    make, x = MAKERS[name], jnp.array([0.3, 2.0])
    called(make(0.5), x)
    before = compilations()
    found = [np.asarray(called(make(k), x)) for k in NUMBERS]
    assert compilations() == before
    for k, y in zip(NUMBERS, found, strict=True):
        np.testing.assert_allclose(y, make(k)(x), rtol=1e-15)


def branches(k):
    return lambda x: x if k > 0 else -x


def repeats(k):
    return lambda x: functools.reduce(lambda y, _: 2 * y, range(int(k)), x)


def rooted(k):
    return lambda x: math.sqrt(abs(k)) * x


def relu(k):
    return lambda x: jax.nn.relu(k * x)


def scanned(k):
    return lambda x: jax.lax.scan(lambda y, _: (k * y, None), x, None, 2)[0]


def branched(k):
    return lambda x: jax.lax.cond(x[0] > 0, lambda: k * x, lambda: x)


class Deciding(eqx.Module):
    """Its code wants to know the number."""

    value: float

    def __call__(self, x):
        return x if self.value > 0 else -x


@pytest.mark.parametrize(
    "make", [branches, repeats, rooted, relu, scanned, branched, Deciding]
)
def test_constants_that_steer_control_flow_take_effect(make):
    x = jnp.array([0.3, 2.0])
    for k in (1.0, 3.0, -1.5, 3.0):
        np.testing.assert_allclose(called(make(k), x), make(k)(x), rtol=1e-15)


@pytest.mark.parametrize("make", [relu, scanned, branched, branches])
def test_the_same_function_is_compiled_once(make, compilations):
    function, x = make(2.0), jnp.array([0.3, 2.0])
    called(function, x)
    before = compilations()
    called(function, x)
    assert compilations() == before


def test_constants_in_a_function_do_not_promote_its_dtype():
    x = jnp.ones(2, jnp.float32)
    functions = lambda x: 0.3 * x, lambda x: jnp.where(x > 0.5, 0.3, x), lambda x: 0.3
    for function in functions:
        for _ in range(2):
            assert (called(function, x) + x).dtype == jnp.float32


@fresh_jit
def slope(function, x):
    """By tangents of all that there is, as loops and rules of libraries take them."""
    still = jax.tree.map(jnp.zeros_like, function)
    return jax.jvp(lambda f, x: f(x), (function, x), (still, jnp.ones_like(x)))[1]


def test_power_of_a_negative_number_has_its_derivative():
    """Of the power none is asked for: it would be the logarithm, which is NaN."""
    for power in (2.0, 3.0):
        found = slope(lambda x, power=power: x**power, jnp.asarray(-3.0))
        assert found == power * (-3.0) ** (power - 1)


def test_derivatives_by_closed_over_values_are_right():
    def run(k):
        return called(lambda x: k**2 * x, jnp.asarray(5.0))

    for k in (1.0, 3.0):
        found = jax.grad(run)(k), jax.jacfwd(run)(k), jax.jit(jax.grad(run))(k)
        assert {float(x) for x in found} == {10 * k}
        assert jax.hessian(run)(k) == 10.0
    np.testing.assert_array_equal(jax.vmap(run)(jnp.arange(3.0)), [0.0, 5.0, 20.0])


def test_outputs_that_are_not_arrays_are_returned():
    def found(k):
        return called(lambda x: {"a": k * x, "name": "b", "n": 3, "flag": None}, 1.0)

    for k in (2.0, 3.0):
        assert found(k) == {"a": k, "name": "b", "n": 3, "flag": None}


def test_exception_in_a_function_propagates_unchanged():
    def wrong(x):
        raise KeyError("of a user")

    for _ in range(2):
        with pytest.raises(KeyError, match="of a user"):
            called(wrong, jnp.ones(()))
