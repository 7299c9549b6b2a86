"""Batched tangents of mutual attraction equal single ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import _tuning
from diffsim.nbody._forces._direct_sum import mutual_sum


def _system(bodies):
    rng = np.random.default_rng(3)
    x, gm = rng.normal(size=(3, bodies)), rng.uniform(0.1, 1, bodies)
    return jnp.asarray(x), jnp.asarray(gm), jnp.asarray(0.02)


def _derivatives(bodies):
    given = _system(bodies)
    every = (0, 1, 2)
    return jax.jit(
        lambda *given: [
            jax.jacfwd(mutual_sum, every)(*given),
            jax.jacrev(mutual_sum, every)(*given),
            jax.jacfwd(jax.jacrev(mutual_sum, every), every)(*given),
            jax.vmap(lambda k: jax.jacfwd(mutual_sum)(given[0] * k, *given[1:]))(
                jnp.array([1.0, 1.3])
            ),
        ]
    )(*given)


@pytest.mark.parametrize("bodies", first_plain([5, 2]))
def test_batched_tangents_equal_those_by_the_jacobian_matrix(bodies, monkeypatch):
    found = {}
    for many in (1, 10**9):
        monkeypatch.setattr(_tuning, "TANGENTS_OF_PAIRS_BY_MATRIX", many)
        found[many] = _derivatives(bodies)
    for a, b in zip(*map(jax.tree.leaves, found.values()), strict=True):
        scale = np.max(np.abs(b))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * max(scale, 1))


def test_batched_tangents_compile_to_matrix_products():
    x, gm, eps2 = _system(10)

    def along(dx):
        return jax.jvp(lambda x: mutual_sum(x, gm, eps2), (x,), (dx,))[1]

    def is_product(count):
        lowered = jax.jit(jax.vmap(along)).lower(jnp.ones((count, 3, 10)))
        return "dot_general" in lowered.as_text()

    assert [is_product(count) for count in (3, 30)] == [False, True]
