"""Optimistix's own functions, differentiated by the adjoint of `implicit`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from rows import first_plain

from diffsim.implicit import ImplicitAdjoint, LaggedLU


def cardano(a):
    """The root of y³ + y = a."""
    s = jnp.sqrt(a**2 / 4 + 1 / 27)
    return jnp.cbrt(a / 2 + s) + jnp.cbrt(a / 2 - s)


def by_newton(a):
    """That of y = cos(y) / 2 + a, differentiated through all of eight steps."""
    y = 0.3
    for _ in range(8):
        y = y - (y - 0.5 * jnp.cos(y) - a) / (1 + 0.5 * jnp.sin(y))
    return y


CALLS = {
    "root_find": (lambda y, a: y**3 + y - a, optx.Newton, cardano),
    "fixed_point": (
        lambda y, a: 0.5 * jnp.cos(y) + a,
        optx.FixedPointIteration,
        by_newton,
    ),
    "minimise": (lambda y, a: y**4 / 4 + y**2 / 2 - a * y, optx.BFGS, cardano),
    "least_squares": (
        lambda y, a: y**3 + y - a,
        optx.LevenbergMarquardt,
        cardano,
    ),
}


def solved(name, adjoint):
    """a ↦ y, as the third entry of `CALLS`."""
    function, solver, _ = CALLS[name]

    def solve(a):
        find = getattr(optx, name)
        return find(function, solver(1e-11, 1e-11), 0.3, a, adjoint=adjoint).value

    return solve


def scanned(solve):
    def step(a, _):
        y = solve(a)
        return a + 0.1 * y, y

    return lambda a: jnp.sum(jax.lax.scan(step, a, None, length=2)[1] ** 2)


ADJOINTS = [ImplicitAdjoint(), ImplicitAdjoint(LaggedLU(), "reverse")]
#: The layer is the same one, whichever function it is in.
ROWS = [("root_find", ADJOINTS[0]), ("minimise", ADJOINTS[1])]
ROWS += [row for row in itertools.product(CALLS, ADJOINTS) if row not in ROWS]


@pytest.mark.parametrize(("name", "adjoint"), first_plain(ROWS, 2))
def test_gradients_and_hessians_in_a_scan_are_right(name, adjoint):
    if adjoint.mode == "reverse":
        derivatives = (jax.grad,)
    else:
        derivatives = (jax.grad, jax.hessian, lambda f: jax.jacrev(jax.jacrev(f)))

    def every(solve):
        return jax.jit(lambda a: [d(scanned(solve))(a) for d in derivatives])(0.4)

    found = every(solved(name, adjoint))
    exact = every(CALLS[name][2])
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_optimistix_solution_keeps_result_and_stats():
    found = optx.root_find(
        CALLS["root_find"][0],
        optx.Newton(1e-11, 1e-11),
        0.3,
        0.4,
        adjoint=ImplicitAdjoint(),
    )
    assert found.result == optx.RESULTS.successful
    assert found.stats["num_steps"] > 2


def test_max_steps_of_optimistix_is_respected():
    found = optx.root_find(
        CALLS["root_find"][0],
        optx.Newton(1e-11, 1e-11),
        9.0,
        0.4,
        adjoint=ImplicitAdjoint(),
        max_steps=2,
        throw=False,
    )
    assert found.result == optx.RESULTS.nonlinear_max_steps_reached
    assert found.stats["num_steps"] == 2
