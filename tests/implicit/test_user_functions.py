"""Functions of users: nested layers, and functions that JAX cannot trace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.implicit import (
    ImplicitAdjoint,
    fixed_point,
    least_squares,
    minimise,
    root,
)


@pytest.mark.parametrize("layer", first_plain([root, minimise]))
def test_nested_layers_under_vmap_do_not_raise(layer):
    """Of a batch it is asked for members that have ended, and then has no answer."""

    def energy(z, b):
        return (z - b * b) ** 2 + 0.1 * jnp.cosh(z)

    def inner(a):
        return layer(energy if layer is minimise else jax.grad(energy), 0.0, a)

    def outer(a):
        return root(lambda z, a: z - inner(z * a) - a, 1.0, a)

    def direct(a):
        """The equation of both as one."""

        def both(z, a):
            slope = 2 * (z[1] - (z[0] * a) ** 2) + 0.1 * jnp.sinh(z[1])
            return jnp.stack([z[0] - z[1] - a, slope])

        return root(both, jnp.ones(2), a)[0]

    at = jnp.array([0.2, 0.22])
    found, exact = (
        jax.jit(jax.vmap(jax.value_and_grad(f)))(at) for f in (outer, direct)
    )
    np.testing.assert_allclose(found, exact, rtol=1e-10)


@jax.custom_vjp
def reversed_only(x):
    return jnp.sin(x)


reversed_only.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x),))


def by_rule(y, a):
    return y + reversed_only(y) / 2 - a


def by_callback(y, a):
    shape = jax.ShapeDtypeStruct((), y.dtype)
    return y + jax.pure_callback(np.sin, shape, y) / 2 - a


def by_loop(y, a):
    def halved(state):
        return state[0] + 1, state[1] / 2

    return jax.lax.while_loop(lambda state: state[0] < 3, halved, (0, y))[1] - a


REVERSE = ImplicitAdjoint(mode="reverse")
UNDIFFERENTIABLE = {
    "rule in root": (
        root,
        by_rule,
        {},
        "^residual .* adjoint=implicit.ImplicitAdjoint",
    ),
    "rule in fixed_point": (
        fixed_point,
        by_rule,
        {},
        "^function .* adjoint=implicit.ImplicitAdjoint",
    ),
    "rule in least_squares": (
        least_squares,
        by_rule,
        {"adjoint": REVERSE},
        "^residuals .*has reverse mode only.*custom_jvp.* implicit.minimise",
    ),
    "callback in root": (root, by_callback, {}, "^residual .*calls out of JAX"),
    "loop in root": (root, by_loop, {}, "^residual .*has forward mode only.*scan"),
}


@pytest.mark.parametrize("row", UNDIFFERENTIABLE)
def test_nondifferentiable_function_raises_value_error(row):
    layer, function, options, words = UNDIFFERENTIABLE[row]
    with pytest.raises(ValueError, match=words) as caught:
        jax.grad(lambda a: layer(function, 1.0, a, **options))(0.5)
    assert isinstance(caught.value.__cause__, TypeError | ValueError)


def test_reverse_mode_only_function_is_solved_by_the_suggested_options():
    def plain(y, a):
        return y + jnp.sin(y) / 2 - a

    def squared(y, a):
        return by_rule(y, a) ** 2 / 2

    exact = jax.value_and_grad(lambda a: root(plain, 1.0, a))(0.5)
    by_reverse = jax.value_and_grad(lambda a: root(by_rule, 1.0, a, adjoint=REVERSE))(
        0.5
    )
    by_minimum = jax.value_and_grad(lambda a: minimise(squared, 1.0, a))(0.5)
    # the tolerance of Newton's method, and its square root polished once
    np.testing.assert_allclose(by_reverse, exact, rtol=1e-12)
    np.testing.assert_allclose(by_minimum, exact, rtol=1e-10)
