"""Batching with the batch axis last computes what `jax.vmap` computes."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import batching, mlir

import diffsim as ds
from diffsim._jaxpr import _batch_axis, _inspection
from diffsim._jaxpr._batch_axis import equations_left_to_vmap, supports_batch_last
from diffsim._jaxpr._batch_last import batch_last
from diffsim._jaxpr._inspection import largest_in_loops
from diffsim._jaxpr._primitives import custom_derivative


_RATES = np.random.default_rng(0).uniform(0.5, 1.5, (7, 3))


def _leapfrog(row):
    """State (2, 3) beside a counter that no run shares in."""

    def step(carry, scale):
        x, v, n = carry
        d = x[:, None] - x[None, :]
        r2 = jnp.sum(d * d, -1) + jnp.eye(3)
        v = v - 0.01 * scale * jnp.sum(row[:, None] * d / r2[..., None] ** 1.5, 1)
        return (x + 0.01 * v, v, n + 1), jnp.stack([v[0, 0], n * 1.0])

    start = jnp.arange(9.0).reshape(3, 3) ** 0.5
    (x, v, n), rows = jax.lax.scan(step, (start, 0 * start, 0), jnp.linspace(1, 2, 20))
    return {"x": x, "v": v.T, "n": n, "rows": rows}


def _nested(row):
    """A carry that becomes batched in the inner loop only."""

    def inner(carry, _):
        return (carry[0] * row[0] + carry[1], carry[1]), carry[0]

    def outer(carry, _):
        return jax.lax.scan(inner, carry, None, length=3)

    return jax.lax.scan(outer, (jnp.ones(2), jnp.zeros(2)), None, length=2)


def _operations(row):
    """Every rule beside loops: shapes, joins, picks, sums, products, selections."""
    x = jnp.outer(row, jnp.arange(1.0, 3.0))
    _, last = jax.lax.scan(lambda c, _: (c + row, c), row, None, length=2, reverse=True)
    return (
        jnp.concatenate([x, jnp.ones((1, 2))]),
        jnp.stack([row, jnp.zeros(3)]),
        x.T.reshape(2, 3)[:, 1:],
        x[jnp.asarray([2, 0])],
        x.at[0].set(5.0).at[1].add(row[0]),
        jnp.where(row > 1, row, -1.0),
        jnp.where(True, row[0], 2.0),
        jnp.clip(row, 0.8, row[0]),
        x.T @ x,
        jnp.arange(6.0).reshape(2, 3) @ row,
        row @ row,
        jnp.sort(row),
        jnp.argmax(row),
        jnp.cumsum(row),
        jnp.max(x, axis=0, keepdims=True),
        jnp.pad(row, 1)[::-1],
        row**2 + 2.0**row + row.astype(jnp.float32),
        jnp.linalg.norm(row),
        last,
    )


def _with_gradient(row):
    return jax.value_and_grad(lambda r: jnp.sum(_leapfrog(r)["x"] ** 2))(row)


def _with_rule(row):
    @jax.custom_jvp
    def double(x):
        return 2 * x

    double.defjvp(lambda x, dx: (double(x[0]), 2 * dx[0]))

    def step(carry, _):
        return jax.checkpoint(double)(carry) * row, None

    return jax.lax.scan(step, row, None, length=3)[0]


@jax.custom_batching.custom_vmap
def _all_large(x):
    return jnp.all(x > 0.6)


@_all_large.def_vmap
def _all_large_of_batch(axis_size, in_batched, x):
    return _all_large(x), False


@jax.custom_batching.custom_vmap
def _doubled(x):
    return 2 * x


@_doubled.def_vmap
def _doubled_batch(axis_size, in_batched, x):
    return 2 * x, True


def _branching(row):
    """Branches that all runs take together, one of which knows of no run."""

    def step(carry, n):
        c = jax.lax.cond(_all_large(row), lambda c: c + row, lambda c: 3 * c, carry)
        by_turn = [lambda c: 1.1 * c, _doubled, lambda c: jnp.ones(3)]
        return jax.lax.switch(n % 3, by_turn, c), jax.lax.cond(
            n > 2, lambda: n * 1.0, lambda: 0.5
        )

    return jax.lax.scan(step, row, jnp.arange(5))


def _sealed(row):
    def step(carry, _):
        one = custom_derivative(lambda x, r: [x * r], lambda y, x, dx: dx, carry, row)
        return one[0], None

    return jax.lax.scan(step, row, None, length=3)[0]


def _five_bodies(row):
    """What a GPU is given by the thousand: leapfrog at fixed steps."""
    masses = jnp.array([1.0, 1e-3, 3e-4, 4e-5, 5e-5]).at[1].mul(row[0])
    x = jnp.zeros((5, 3)).at[:, 0].set(jnp.array([0.0, 5.2, 9.5, 19.2, 30.0]))
    v = jnp.zeros((5, 3)).at[1:, 1].set(x[1:, 0] ** -0.5)
    system = ds.nbody.NBody(ds.nbody.Bodies(masses, x, v))
    method = ds.Method(ds.integrators.Leapfrog(), step=0.5)
    return ds.simulate(system, np.array([5.0, 10.0]), method, throw=False).states


def _scanned(operation):
    return lambda row: jax.lax.scan(
        lambda c, r: (operation(c), c + r), row, jnp.linspace(0, 1, 4)
    )


def _column_major(row):
    """`ravel(order="F")` is a reshape with a parameter that reorders."""

    def step(c, _):
        return jnp.ravel(jnp.outer(c, jnp.arange(1.0, 4.0)), order="F")[:3] + c, c

    return jax.lax.scan(step, row, None, length=3)


def _assert_equals_vmap(function, rates=_RATES, **how):
    expected = jax.jit(jax.vmap(function))(rates)
    found = jax.jit(batch_last(function, **how))(jnp.asarray(rates.T))
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert a.dtype == b.dtype
        # a few roundings in another order
        np.testing.assert_allclose(np.moveaxis(a, -1, 0), b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "function",
    [_leapfrog, _nested, _operations, _with_gradient, _with_rule, _branching, _sealed],
)
def test_batch_last_equals_vmap(function):
    jaxpr = jax.make_jaxpr(function)(_RATES[0])
    assert supports_batch_last(jaxpr)
    assert not equations_left_to_vmap(jaxpr)
    _assert_equals_vmap(function)


def _of_few_numbers(row):
    """Every rule of loops by elements, beside a counter that no run shares in."""

    def step(carry, _):
        x, n, even = carry
        y = jnp.concatenate([x[:, 1:], x[:, :1]], 1).T.reshape(3, 2)[::-1]
        d = jnp.stack([y[:, 0], row]) + jnp.arange(6.0).reshape(2, 3) * n
        low, high = jnp.min(d, axis=1), jnp.max(d, axis=1)
        some = jnp.all(d > 0, axis=0) | jnp.any(d > 2)
        x = jnp.where(some, x + 0.1 * d / jnp.sum(d * d), 0.9 * x)
        a, b = jnp.split(x, 2)
        x = jnp.concatenate([a + low[0], b - jnp.prod(high) ** 0.2])
        return (x, n + 1, ~even), None

    start = jnp.arange(6.0).reshape(2, 3), 0, True
    return jax.lax.scan(step, start, None, length=4)[0]


def _carried_by_elements(function):
    """Shapes of what each loop carries."""
    closed = jax.make_jaxpr(batch_last(function, by_elements=True))(_RATES.T)
    loops = [e for e in _inspection.equations(closed) if e.primitive.name == "scan"]
    return [{v.aval.shape for v in eqn.outvars} for eqn in loops]


@pytest.mark.gpu
@pytest.mark.parametrize("function", [_of_few_numbers, _five_bodies])
def test_loops_by_elements_equal_vmap(function):
    assert {(7,), ()} in _carried_by_elements(function)
    _assert_equals_vmap(function, by_elements=True)


def _of_nothing(row):
    """A carry without a number beside one, and a sum over it."""

    def step(carry, _):
        x, none = carry
        return (x + jnp.sum(x) + jnp.sum(none), none), None

    return jax.lax.scan(step, (row, jnp.zeros((0, 3))), None, length=3)[0]


@pytest.mark.parametrize(
    "function",
    [
        _leapfrog,
        _nested,
        _operations,
        _with_gradient,
        _branching,
        _sealed,
        _of_nothing,
    ],
)
def test_other_loops_stay_whole_beside_those_by_elements(function):
    _assert_equals_vmap(function, by_elements=True)


# What a later release of JAX may bring: an operation that nobody here has heard of.
_rotated = jax.extend.core.Primitive("rotated")


@_rotated.def_impl
def _rotate(x, *, by):
    return jnp.roll(x, by, axis=-1)


_rotated.def_abstract_eval(lambda x, *, by: x)
mlir.register_lowering(_rotated, mlir.lower_fun(_rotate, multiple_results=False))
batching.primitive_batchers[_rotated] = lambda inputs, axes, *, by: (
    _rotated.bind(jnp.moveaxis(inputs[0], axes[0], 0), by=by),
    0,
)


@pytest.mark.parametrize(
    ("function", "reasons"),
    [
        (_column_major, {"reshape with dimensions": 1}),
        (_scanned(lambda c: _rotated.bind(c, by=1)), {"unknown operation rotated": 1}),
        (
            _scanned(lambda c: jnp.linalg.cholesky(jnp.outer(c, c) + jnp.eye(3))[2]),
            None,
        ),
        (lambda row: _scanned(lambda c: c * row[0])(row), {}),
    ],
    ids=["unknown parameter", "unknown operation", "factorization", "known"],
)
def test_unsupported_operations_are_batched_by_vmap(function, reasons):
    jaxpr = jax.make_jaxpr(function)(_RATES[0])
    assert supports_batch_last(jaxpr)
    if reasons is None:
        # which operations a factorization is made of differs between releases
        assert "unknown operation cholesky" in equations_left_to_vmap(jaxpr)
    else:
        assert equations_left_to_vmap(jaxpr) == reasons
    _assert_equals_vmap(function)


def test_operations_with_unknown_parameters_are_batched_by_vmap(monkeypatch):
    """Every operation and loop, as if one of its parameters had never been seen."""
    monkeypatch.setattr(_batch_axis, "_OF_AN_ELEMENT", frozenset())
    monkeypatch.setattr(
        _batch_axis, "_SHAPES", dict.fromkeys(_batch_axis._SHAPES, frozenset())
    )
    _assert_equals_vmap(_operations)
    monkeypatch.setattr(_inspection, "_SCAN_PARAMETERS", frozenset(["jaxpr"]))
    jaxpr = jax.make_jaxpr(_leapfrog)(_RATES[0])
    assert equations_left_to_vmap(jaxpr)["scan of unknown structure"] == 1
    for function in (_leapfrog, _nested, _operations):
        _assert_equals_vmap(function)


def test_loops_carry_the_batch_axis_last():
    jaxpr = jax.make_jaxpr(batch_last(_leapfrog))(jnp.asarray(_RATES.T))
    (scan,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    carried = [v.aval.shape for v in scan.outvars[:3]]
    # the counter is the same for all
    assert carried == [(3, 3, 7), (3, 3, 7), ()]


def test_loop_independent_of_the_batch_is_not_batched():
    def function(row):
        total, _ = jax.lax.scan(lambda c, _: (c * 1.1, None), 1.0, None, length=5)
        return total * row

    jaxpr = jax.make_jaxpr(batch_last(function))(jnp.asarray(_RATES.T))
    (scan,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    assert scan.outvars[0].aval.shape == ()


def test_branch_of_all_runs_stays_one():
    jaxpr = jax.make_jaxpr(batch_last(_branching))(jnp.asarray(_RATES.T))
    conds = [e for e in _inspection.equations(jaxpr) if e.primitive.name == "cond"]
    assert [eqn.invars[0].aval.shape for eqn in conds] == [(), (), ()]
    # A number that no run changes.
    assert conds[-1].outvars[0].aval.shape == ()


@pytest.mark.parametrize(
    "function",
    [
        lambda row: row + 1,
        lambda row: jax.lax.while_loop(lambda x: x[0] < 9, lambda x: 2 * x, row),
        lambda row: jax.lax.scan(lambda c, _: (jnp.fft.fft(c).real, 0), row, length=3),
        lambda row: jax.lax.scan(lambda c, _: (c, jax.debug.print("x")), row, length=3),
        _scanned(lambda c: jax.lax.cond(c[0] > 1, lambda: 1.1 * c, lambda: c - 0.1)),
    ],
    ids=["no loop", "while", "fft", "effect", "cond"],
)
def test_functions_without_benefit_are_left_to_vmap(function, request):
    jaxpr = jax.make_jaxpr(function)(_RATES[0])
    assert not supports_batch_last(jaxpr)
    assert equations_left_to_vmap(jaxpr) == {request.node.callspec.id: 1}


def test_largest_array_is_that_of_the_innermost_loop():
    def function(row):
        def inner(c, _):
            return c + jnp.sum(c[:, None] * c[None, :], 1), None

        def outer(c, _):
            return jax.lax.scan(inner, c, None, length=2)[0], jnp.zeros((50, 50))

        return jax.lax.scan(outer, row, None, length=2)

    assert largest_in_loops(jax.make_jaxpr(function)(_RATES[0])) == 9 * 8
