"""Functions of users: layers inside layers, and what is no function of y."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.implicit import (
    Newton,
    fixed_point,
    least_squares,
    linear_solve,
    minimise,
    root,
)


def test_a_layer_inside_another_raises_nothing_by_itself():
    """Of a batch it is asked for members that have ended, and then has no answer."""

    def inner(a):
        return minimise(lambda z, b: (z - b * b) ** 2 + 0.1 * jnp.cosh(z), 0.0, a)

    def outer(a):
        return root(lambda z, a: z - inner(z * a) - a, 1.0, a)

    def direct(a):
        """The equation of both as one."""

        def both(z, a):
            slope = 2 * (z[1] - (z[0] * a) ** 2) + 0.1 * jnp.sinh(z[1])
            return jnp.stack([z[0] - z[1] - a, slope])

        return root(both, jnp.ones(2), a)[0]

    at = jnp.array([0.2, 0.22])
    for found, exact in ((outer, direct), (jax.grad(outer), jax.grad(direct))):
        np.testing.assert_allclose(jax.vmap(found)(at), jax.vmap(exact)(at), rtol=1e-10)


def test_a_layer_that_fails_inside_another_is_a_failure_of_that():
    def inner(a):
        return root(lambda z, a: z**2 + 1 + a**2, 1.0, a, max_steps=8)

    with pytest.raises(RuntimeError, match="Nonfinite"):
        root(lambda z, _: z - inner(z), 1.0)
    with pytest.raises(RuntimeError, match="A linear system could not be solved"):
        linear_solve(lambda v: v * inner(1.0), jnp.ones(2))


LAYERS = {
    "residual": root,
    "function": fixed_point,
    "objective": minimise,
    "residuals": least_squares,
}
OF_PYTHON = {
    "calls NumPy or SciPy": lambda y, _: np.sin(y),
    "decides by a value": lambda y, _: y - 1 if y > 0 else y,
    "makes a Python number": lambda y, _: float(y) - 1,
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sentence", OF_PYTHON)
def test_a_function_that_jax_cannot_trace_is_named(name, sentence):
    with pytest.raises(ValueError, match=f"{name} {sentence}"):
        LAYERS[name](OF_PYTHON[sentence], 1.0)


@pytest.mark.parametrize("name", LAYERS)
def test_a_solver_that_is_none_is_named(name):
    with pytest.raises(ValueError, match=r"got the class Newton; call it, Newton\("):
        LAYERS[name](lambda y, _: y**2, 1.0, solver=Newton)
    with pytest.raises(ValueError, match=r"solver must be a solver of .*, got 'hybr'"):
        LAYERS[name](lambda y, _: y**2, 1.0, solver="hybr")


@pytest.mark.parametrize("name", ["residual", "function", "residuals"])
def test_a_function_that_returns_a_plain_number_is_named(name):
    with pytest.raises(ValueError, match=f"{name} must return arrays made of y, got"):
        LAYERS[name](lambda y, _: 1.0, 1.0)
