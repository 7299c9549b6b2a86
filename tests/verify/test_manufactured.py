"""Manufactured solutions: their source terms, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from diffsim.verify import Manufactured


def test_source_is_the_residual_of_the_manufactured_solution():
    """u = sin(3x + t) in ∂u/∂t = D u'' + s: s = cos(3x + t) + 9 D sin(3x + t)."""

    def fields(D, t, x):
        case = Manufactured(
            lambda t, x: jnp.sin(3 * x[0] + t),
            lambda u, t, x: D * jnp.trace(jax.hessian(u)(x)),
        )
        return case.values(t, x), case.slope(t, x), case.source(t, x, x)

    x = jnp.linspace(0.0, 1.0, 5)
    angle = 3 * x + 0.2
    wave, turned = np.sin(angle), np.cos(angle)
    exact = wave, 3 * turned, turned + 0.9 * wave
    for found, known in zip(fields(0.1, 0.2, x[None]), exact, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-13)
    by_diffusivity = jax.jacfwd(fields)(0.1, 0.2, x[None])[2]
    np.testing.assert_allclose(by_diffusivity, 9 * wave, rtol=1e-13)


def test_components_come_first_and_coordinates_keep_their_shape():
    """(u, v) = (t x y, x²) that turn into one another."""
    case = Manufactured(
        lambda t, x: jnp.stack([t * x[0] * x[1], x[0] ** 2]),
        lambda u, t, x: jnp.stack([u(x)[1], -u(x)[0]]),
    )
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(2, 3, 4)))
    a, b = np.asarray(x)
    np.testing.assert_allclose(case.values(2.0, x), [2 * a * b, a**2])
    np.testing.assert_allclose(case.slope(2.0, x, 1), [2 * a, 0 * a])
    np.testing.assert_allclose(case.source(2.0, x), [a * b - a**2, 2 * a * b])


def test_dtype_is_that_of_the_coordinates():
    case = Manufactured(lambda t, x: t * x[0], lambda u, t, x: jax.grad(u)(x)[0])
    x = jnp.ones((1, 3), jnp.float32)
    for found in (case.values(2.0, x), case.slope(2.0, x), case.source(2.0, x)):
        assert found.dtype == jnp.float32
