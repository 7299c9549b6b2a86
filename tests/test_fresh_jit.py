"""What a user's function reads may change between two calls; answers follow it."""

import functools
import math
import os
import sys
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import implicit, pde
from diffsim._fresh_jit import fresh_jit
from diffsim.inference import Gaussian


FACTOR = 1.0
HERE = sys.modules[__name__]


def by_global(x):
    return FACTOR * x


class Line:
    factor = 1.0

    def value(self, x):
        return self.factor * x


class Module(eqx.Module):
    """Its code reads a global; its field is traced."""

    zero: jax.Array

    def __call__(self, x):
        return FACTOR * x + self.zero


def sets(holder, name):
    return lambda value: setattr(holder, name, value)


def entry():
    table = np.ones(2)
    return lambda x: table[1] * x, lambda value: table.__setitem__(1, value)


def attribute():
    space = types.SimpleNamespace(factor=1.0)
    return lambda x: space.factor * x, sets(space, "factor")


def method():
    line = Line()
    return line.value, sets(line, "factor")


def of_class():
    return Line().value, sets(Line, "factor")


TABLE, HOLDER = {"factor": 1.0}, types.SimpleNamespace(factor=1.0)


def default():
    def scaled(x, factor=1.0):
        return factor * x

    return scaled, lambda value: setattr(scaled, "__defaults__", (value,))


def listed():
    factors = [1.0]
    return lambda x: factors[0] * x, lambda value: factors.__setitem__(0, value)


@jax.jit
def compiled_helper(x):
    return FACTOR * x


def environment(value):
    os.environ["FACTOR_OF_A_USER"] = str(value)


def imported(body):
    """A module of a user's, and a function that imports it where it runs."""

    def made():
        module = types.ModuleType("constants_of_a_user")
        module.factor, module.__file__ = 1.0, "constants_of_a_user.py"
        exec("def scaled(x): return factor * x", vars(module))
        sys.modules[module.__name__] = module
        return body, sets(module, "factor")

    return made


def imports_a_module(x):
    import constants_of_a_user as constants  # pyright: ignore

    return constants.factor * x


def imports_a_name(x):
    from constants_of_a_user import factor  # pyright: ignore

    return factor * x


def calls_what_it_imports(x):
    from constants_of_a_user import scaled  # pyright: ignore

    return scaled(x)


def by(function):
    return lambda: (function, sets(HERE, "FACTOR"))


WAYS = {
    "global": by(by_global),
    "global of a function that is called": by(lambda x: by_global(x)),
    "global of a compiled function": by(jax.jit(by_global)),
    "global of a partial function": by(functools.partial(by_global)),
    "global of a batched function": by(lambda x: jax.vmap(by_global)(x[None])[0]),
    "global of a compiled helper": by(lambda x: compiled_helper(x)),
    "global by its name": by(lambda x: globals()["FACTOR"] * x),
    "entry of a global dict": lambda: (
        lambda x: TABLE["factor"] * x,
        lambda value: TABLE.__setitem__("factor", value),
    ),
    "attribute of a global object": lambda: (
        lambda x: HOLDER.factor * x,
        sets(HOLDER, "factor"),
    ),
    "default": default,
    "list": listed,
    "environment": lambda: (
        lambda x: float(os.environ.get("FACTOR_OF_A_USER", "1.0")) * x,
        environment,
    ),
    "global of a module": by(Module(jnp.zeros(()))),
    "entry of an array": entry,
    "attribute": attribute,
    "method": method,
    "attribute of a class": of_class,
    "module that it imports": imported(imports_a_module),
    "name that it imports": imported(imports_a_name),
    "function that it imports": imported(calls_what_it_imports),
}


@pytest.fixture(autouse=True)
def factors():
    yield
    HERE.FACTOR = Line.factor = 1.0


@fresh_jit
def called(function, *x):
    return function(*x)


@pytest.mark.parametrize("way", WAYS)
def test_a_function_is_compiled_for_what_it_reads_now(way):
    function, change = WAYS[way]()
    for factor in (1.0, 3.0, 1.0, 2.0):
        change(factor)
        assert called(function, jnp.ones(())) == factor


def gap(y, args):
    return y - FACTOR * 2


def halfway(y, args):
    return (y + FACTOR * 2) / 2


def square(y, args):
    return (y - FACTOR * 2) ** 2


def scaled(x):
    return x / FACTOR


def source(t, x, u):
    return FACTOR * jnp.ones_like(u)


TWO, NOISE = 2 * jnp.ones(2), Gaussian(0.1)

#: A call, and its answers to factors of 1 and of 4.
CALLS = {
    "root": (lambda: implicit.root(gap, 1.0), 2, 8),
    "fixed_point": (lambda: implicit.fixed_point(halfway, 1.0), 2, 8),
    "minimise": (lambda: implicit.minimise(square, 1.0), 2, 8),
    "least_squares": (lambda: implicit.least_squares(gap, 1.0), 2, 8),
    "linear_solve": (lambda: implicit.linear_solve(scaled, jnp.ones(())), 1, 4),
    "fit": (lambda: ds.fit(by_global, TWO, TWO, noise=NOISE).values[0], 2, 0.5),
    "fisher": (lambda: ds.fisher(by_global, TWO, noise=NOISE).stderr[0], 0.1, 0.025),
    "sweep": (lambda: ds.sweep(by_global, TWO, {"[0]": [1.0]}).outputs[0, 0], 1, 4),
    "simulate": (lambda: simulated(), 0.5, 2),
}


def simulated():
    diffusion, cells = pde.Diffusion(0.1, source), pde.Grid(8)
    run = pde.Evolution(diffusion, jnp.zeros(8), cells, pde.Neumann())
    return ds.simulate(run, 0.5, step=0.5).states[0, 0]


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_that_of_what_the_function_reads_now(name):
    call, before, after = CALLS[name]
    np.testing.assert_allclose(call(), before, rtol=1e-9)
    HERE.FACTOR = 4.0
    np.testing.assert_allclose(call(), after, rtol=1e-9)


def test_what_has_not_changed_is_not_compiled_again(compilations):
    """A count that tracing itself makes is no change."""
    traced, one = [], jnp.ones(())

    def counted(x):
        traced.append(x.shape)
        return FACTOR * x

    assert called(counted, one) == 1.0
    before = compilations()
    for factor in (1.0, 1.0, 2.0):
        HERE.FACTOR = factor
        assert called(counted, one) == factor
    assert compilations() == before


def test_a_function_that_closes_over_a_traced_value_is_compiled():
    def outer(a):
        return called(lambda x: a * x, jnp.ones(()))

    assert jax.jit(jax.grad(outer))(3.0) == 1.0


def test_functions_that_call_each_other_are_compiled():
    def even(x, n=4):
        return x if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return even(x, n - 1) * FACTOR

    assert called(even, jnp.ones(())) == 1.0
    HERE.FACTOR = 3.0
    assert called(even, jnp.ones(())) == 9.0


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
def test_another_number_compiles_nothing(name, compilations):
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
def test_numbers_that_decide_are_followed(make):
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


def test_numbers_in_a_function_keep_its_type():
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


def test_a_power_of_a_negative_number_has_its_derivative():
    """Of the power none is asked for: it would be the logarithm, which is NaN."""
    for power in (2.0, 3.0):
        found = slope(lambda x, power=power: x**power, jnp.asarray(-3.0))
        assert found == power * (-3.0) ** (power - 1)


def test_a_function_follows_what_it_closes_over_when_it_is_differentiated():
    def run(k):
        return called(lambda x: k**2 * x, jnp.asarray(5.0))

    for k in (1.0, 3.0):
        found = jax.grad(run)(k), jax.jacfwd(run)(k), jax.jit(jax.grad(run))(k)
        assert {float(x) for x in found} == {10 * k}
        assert jax.hessian(run)(k) == 10.0
    np.testing.assert_array_equal(jax.vmap(run)(jnp.arange(3.0)), [0.0, 5.0, 20.0])


def test_what_a_function_returns_beside_arrays_is_kept():
    def found(k):
        return called(lambda x: {"a": k * x, "name": "b", "n": 3, "flag": None}, 1.0)

    for k in (2.0, 3.0):
        assert found(k) == {"a": k, "name": "b", "n": 3, "flag": None}


def test_an_error_in_a_function_is_that_of_the_function():
    def wrong(x):
        raise KeyError("of a user")

    for _ in range(2):
        with pytest.raises(KeyError, match="of a user"):
            called(wrong, jnp.ones(()))
