"""Compiled functions follow the globals and attributes that they read."""

import functools
import math
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import implicit, pde
from diffsim._jit._fresh_jit import fresh_jit
from diffsim.inference import Free, Gaussian


FACTOR = 1.0
HERE = sys.modules[__name__]


def by_global(x):
    return FACTOR * x


class Module(eqx.Module):
    """Its code reads a global; its field is traced."""

    zero: jax.Array

    def __call__(self, x):
        return FACTOR * x + self.zero


class Line:
    def value(self, x):
        return FACTOR * x


#: A function that reads a global, wrapped.
WRAPPED = {
    "compiled": jax.jit(by_global),
    "compiled by Equinox": eqx.filter_jit(by_global),
    "partial": functools.partial(by_global),
    "batched": lambda x: jax.vmap(by_global)(x[None])[0],
    "module": Module(jnp.zeros(())),
    "method": Line().value,
}


@pytest.fixture(autouse=True)
def factors():
    yield
    HERE.FACTOR = 1.0


@fresh_jit
def called(function, *x):
    return function(*x)


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrapped_function_follows_the_current_values_it_reads(kind):
    for factor in (1.0, 3.0, 1.0, 2.0):
        HERE.FACTOR = factor
        assert called(WRAPPED[kind], jnp.ones(())) == factor


def test_static_floats_are_told_apart_by_their_sign():
    """0.0 == -0.0, and of a not-a-number nothing is the same."""

    def angle(x, start):
        return math.atan2(start, -1.0) * x

    one = jnp.ones(())
    assert called(angle, one, 0.0) == pytest.approx(math.pi)
    assert called(angle, one, -0.0) == pytest.approx(-math.pi)


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
EIGHT = jnp.zeros(8)
WALLED = pde.Domain(pde.Grid(8), pde.Dirichlet(lambda t, x: FACTOR))

#: A call, and its answers to factors of 1 and of 4.
CALLS = {
    "root": (lambda: implicit.root(gap, 1.0), 2, 8),
    "fixed_point": (lambda: implicit.fixed_point(halfway, 1.0), 2, 8),
    "minimise": (lambda: implicit.minimise(square, 1.0), 2, 8),
    "least_squares": (lambda: implicit.least_squares(gap, 1.0), 2, 8),
    "linear_solve": (lambda: implicit.linear_solve(scaled, jnp.ones(())), 1, 4),
    "fit": (lambda: transformed(), 2, 0.5),
    "fisher": (lambda: ds.fisher(by_global, TWO, noise=NOISE).stderr[0], 0.1, 0.025),
    "sweep": (lambda: ds.sweep(by_global, TWO, {"[0]": [1.0]}).outputs[0, 0], 1, 4),
    "simulate": (lambda: simulated(), 0.5, 2),
    "laplacian": (lambda: pde.laplacian(EIGHT, WALLED)[0], 128, 512),
    "diffusion": (lambda: pde.diffusion(EIGHT, 1.0, WALLED)[0], 128, 512),
    "gradient": (lambda: pde.gradient(EIGHT, WALLED)[0, 0], -32 / 3, -128 / 3),
    "probe": (lambda: pde.probe(EIGHT, [0.0], WALLED), 1, 4),
    "energy": (lambda: pde.energy(*waves()), 16, 256),
}


def waves():
    system = pde.Evolution(pde.Wave(1.0), (EIGHT, EIGHT), WALLED.grid, WALLED.boundary)
    return system, jnp.zeros((2, 8))


def stretched(x):
    return FACTOR * x**3


def shrunk(z):
    return (z / FACTOR) ** (1 / 3)


def transformed():
    """The parameter is the same in whatever coordinate it is searched for."""
    free = {"a": Free(transform=(stretched, shrunk))}
    found = ds.fit(lambda p: by_global(p["a"]), {"a": 1.5}, 2.0, noise=NOISE, free=free)
    return found.values[0]


def simulated():
    diffusion, cells = pde.Diffusion(0.1, source), pde.Grid(8)
    run = pde.Evolution(diffusion, jnp.zeros(8), cells, pde.Neumann())
    return ds.simulate(run, 0.5, step=0.5).states[0, 0]


@pytest.mark.parametrize("name", CALLS)
def test_public_call_follows_the_current_values_its_function_reads(name):
    call, before, after = CALLS[name]
    np.testing.assert_allclose(call(), before, rtol=1e-9)
    HERE.FACTOR = 4.0
    np.testing.assert_allclose(call(), after, rtol=1e-9)


def test_unchanged_function_is_not_recompiled(compilations):
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


def test_mutually_recursive_functions_are_compiled():
    def even(x, n=4):
        return x if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return even(x, n - 1) * FACTOR

    assert called(even, jnp.ones(())) == 1.0
    HERE.FACTOR = 3.0
    assert called(even, jnp.ones(())) == 9.0


def two_roots(a):
    """One function object, which reads something else at each of its calls."""
    k = a

    def cubed(y, args):
        return y**3 - k

    first = implicit.root(cubed, 1.0)
    k = 8 * a
    return jnp.stack([first, implicit.root(cubed, 1.0)])


def test_fit_follows_functions_created_inside_the_prediction():
    one = jnp.ones(())
    found = ds.fit(two_roots, 1.2 * one, jnp.array([1.0, 2.0]), noise=NOISE)
    np.testing.assert_allclose(found.values, 1.0, rtol=1e-6)
    error = ds.fisher(two_roots, one, noise=NOISE).stderr[0]
    np.testing.assert_allclose(error, 0.1 / np.hypot(1 / 3, 2 / 3), rtol=1e-9)


@fresh_jit
def slope(function, x):
    """Hands the function one that is made anew in every call."""
    return jax.grad(lambda y: function(lambda z: z * y, y))(x)


def test_functions_that_are_handed_new_functions_are_called_and_followed(monkeypatch):
    def product(multiplied, y):
        return FACTOR * multiplied(y)

    for _ in range(2):
        assert slope(product, 3.0) == 6.0
    monkeypatch.setattr(HERE, "FACTOR", 2.0)
    assert slope(product, 3.0) == 12.0


@fresh_jit
def sum_of_powers(function, x):
    """Calls the function in more ways than are traced."""
    return sum(function(x, power) for power in range(8))


def test_functions_that_are_called_in_very_many_ways_are_called_and_followed(
    monkeypatch,
):

    def power(x, exponent):
        return FACTOR * x * (exponent == 2)

    assert sum_of_powers(power, jnp.array(3.0)) == 3.0
    monkeypatch.setattr(HERE, "FACTOR", 2.0)
    assert sum_of_powers(power, jnp.array(3.0)) == 6.0
