"""Batching with the batch axis last agrees with `jax.vmap` on random programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._jaxpr._batch_axis import supports_batch_last
from diffsim._jaxpr._batch_last import batch_last


_RUNS, _SIZE = 5, 6


def _shapes(rng):
    """Operations that move numbers about, for matrices (2, 3)."""
    order = rng.choice(["C", "F"])
    axis = int(rng.integers(2))
    picked = rng.integers(0, 2, 2)
    return [
        lambda x: jnp.ravel(x, order=order).reshape(2, 3),
        lambda x: x.T.reshape(2, 3, order=order),
        lambda x: jnp.roll(x, 1, axis=axis),
        lambda x: jnp.flip(x, axis),
        lambda x: x[picked],
        lambda x: jnp.concatenate([x[:, 1:], x[:, :1]], axis=1),
        lambda x: jnp.broadcast_to(x[:, :1], (2, 3)),
        lambda x: jnp.pad(x, ((0, 0), (1, 0)))[:, :3],
        lambda x: x.at[picked[0], axis].add(0.5),
        lambda x: jax.lax.dynamic_update_slice(x, x[:1, :1] * 2, (axis, axis)),
        lambda x: jnp.where(x > 0.3, x, jnp.arange(3.0)),
        lambda x: jnp.moveaxis(jnp.stack([x, -x], axis=axis), axis, 0)[0],
    ]


def _numbers(rng):
    """Operations that change numbers and keep them of order one."""
    axis = int(rng.integers(2))
    weights = jnp.asarray(rng.normal(size=(3, 3)) / 3)
    order = rng.choice(["C", "F"])
    return [
        lambda x: jnp.sin(x + 0.2),
        lambda x: jnp.tanh(x) * 1.5,
        lambda x: x / (1 + x**2),
        lambda x: x - jnp.mean(x, axis=axis, keepdims=True),
        lambda x: jnp.max(x, axis=axis, keepdims=True) * 0.5 + 0.1 * x,
        lambda x: x @ weights,
        lambda x: jnp.cumsum(x, axis=axis) / 3,
        lambda x: jnp.sort(x, axis=axis),
        lambda x: jnp.clip(x, -1, x[0, 0]),
        lambda x: jnp.einsum("ij,ik->jk", x, x)[:2] / 2,
        lambda x: jnp.linalg.solve(2 * jnp.eye(2) + 0.1 * x[:, :2], x),
        lambda x: jax.checkpoint(jnp.cos)(x),
        lambda x: jnp.reshape(x * jnp.ones((2, 3)), (3, 2), order=order).T,
        lambda x: jax.lax.fori_loop(0, 2, lambda i, c: jnp.cos(c + i), x),
    ]


def _program(seed):
    """A scan, perhaps of a scan, over a few operations; all inputs and outputs."""
    rng = np.random.default_rng(seed)

    def chosen():
        return [
            rng.choice(np.asarray(menu(rng), dtype=object))
            for menu in rng.permutation([_shapes, _numbers, _numbers, _shapes])
        ]

    before, body, inside = chosen(), chosen(), chosen()
    length, reverse, nested = (
        int(rng.integers(1, 4)),
        bool(rng.integers(2)),
        rng.random(),
    )
    constant = jnp.asarray(rng.normal(size=(2, 3)))

    def through(operations, x):
        for operation in operations:
            x = operation(x)
        return x

    def step(carry, row):
        x, still, count = carry
        x = through(body, x + row) + 0.1 * still
        if nested < 0.3:
            x, _ = jax.lax.scan(lambda c, _: (through(inside, c), c[0]), x, length=2)
        return (x, still, count + 1), (x[0], count * row[0, 0])

    def program(row):
        start = through(before, row.reshape(2, 3))
        rows = jnp.linspace(0, 1, length * 6).reshape(length, 2, 3)
        rows = rows * row[0] if nested < 0.6 else rows
        return jax.lax.scan(step, (start, constant, 0), rows, reverse=reverse)

    return program, rng.uniform(-1, 1, (_RUNS, _SIZE))


def _check(seeds):
    """Several programs are one, which is compiled in half the time of each alone."""
    programs, rows = zip(*map(_program, seeds), strict=True)
    rows = np.stack(rows, 1)

    def together(x):
        return [program(x[i]) for i, program in enumerate(programs)]

    assert supports_batch_last(jax.make_jaxpr(together)(rows[0]))
    expected = jax.jit(jax.vmap(together))(rows)
    found = jax.jit(batch_last(together))(jnp.moveaxis(rows, 0, -1))
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert a.dtype == b.dtype
        # sums of a few terms in another order
        np.testing.assert_allclose(np.moveaxis(a, -1, 0), b, rtol=1e-10, atol=1e-11)


def test_random_programs_agree_with_vmap():
    _check(range(5))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 400, 20))
def test_three_hundred_random_programs_agree_with_vmap(start):
    _check(range(start, start + 20))
