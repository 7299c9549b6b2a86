"""The gradient of a run holds no array of all pairs, read from the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody
from diffsim.integrators import Leapfrog
from diffsim.simulations import Checkpointed, Method, Reversible, simulate


_BODIES, _STEPS = 200, 3


def inner_jaxprs(value):
    """The jaxprs among the parameters of an equation."""
    for item in value if isinstance(value, tuple | list) else [value]:
        item = getattr(item, "jaxpr", item)
        if hasattr(item, "eqns"):
            yield item


def largest_array(jaxpr):
    """Entries of the largest array that any equation makes, however deep."""
    largest = 0
    for equation in jaxpr.eqns:
        sizes = [np.prod(getattr(v.aval, "shape", ())) for v in equation.outvars]
        largest = max(largest, *map(int, sizes), 0)
        for value in equation.params.values():
            for inner in inner_jaxprs(value):
                largest = max(largest, largest_array(inner))
    return largest


def loss(adjoint, steps=_STEPS):
    random = np.random.default_rng(0)
    x, v = random.normal(size=(2, _BODIES, 3))
    method = Method(Leapfrog(), 0.01, adjoint=adjoint)

    def of(masses, positions):
        bodies = nbody.Bodies(masses, positions, v)
        system = nbody.NBody(bodies, nbody.Gravity(softening=0.1))
        states = simulate(system, 0.01 * steps, method, throw=False).states
        return jnp.sum(states.positions**2)

    return of, (jnp.ones(_BODIES) / _BODIES, jnp.asarray(x))


@pytest.mark.parametrize(
    "adjoint",
    first_plain([Reversible(), None, Checkpointed()]),
    ids=lambda a: type(a).__name__,
)
def test_gradient_holds_no_array_of_all_pairs(adjoint):
    of, at = loss(adjoint)
    jaxpr = jax.make_jaxpr(jax.grad(of, (0, 1)))(*at).jaxpr
    # States of every step, twice and more: far from 200² = 40 000.
    assert largest_array(jaxpr) < _BODIES**2 / 4
    assert largest_array(jaxpr) >= 3 * _BODIES


def test_jaxpr_search_finds_an_array_of_all_pairs():
    def all_pairs(x):
        return jax.lax.scan(
            lambda c, _: (c + jnp.sum((x[:, None] - x) ** 2), None), 0.0, None, 2
        )[0]

    jaxpr = jax.make_jaxpr(jax.jit(all_pairs))(jnp.ones(_BODIES)).jaxpr
    assert largest_array(jaxpr) == _BODIES**2


def test_compiled_gradient_holds_no_array_of_all_pairs():
    # What JAX moves out of a differentiated loop shows only in the compiled program.
    of, at = loss(None)
    compiled = jax.jit(jax.grad(of, (0, 1))).lower(*at).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 8 * _BODIES**2
