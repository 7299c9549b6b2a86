"""Finite volume stencils and their transposes, beside plain indexing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._jaxpr._materialize import materialize
from diffsim.pde import Dirichlet, Inflow, Neumann, Outflow, Robin
from diffsim.pde._boundaries import SignedReflection
from diffsim.pde._stencils import average, difference, divergence, face_neighbors


SPACING = jnp.asarray(0.1)
WALLS = [(Dirichlet(), Robin(1.0, 0.7)), None, (Neumann(), Outflow())]


def plain(u, ends, given, width):
    """The same by `take`, for JAX to differentiate."""
    found = []
    for i, (pair, values) in enumerate(zip(ends, given, strict=True)):
        axis = i - len(ends)
        n = u.shape[axis]
        if pair is None:
            padded = jnp.take(u, np.arange(-width, n + width) % n, axis)
        else:
            cells = [np.arange(n), n - 1 - np.arange(n)]
            low, high = (
                _ghosts(u, axis, ghosts, value, order)
                for ghosts, value, order in zip(pair, values, cells, strict=True)
            )
            padded = jnp.concatenate([jnp.flip(low, axis), u, high], axis)
        views = [
            jnp.take(padded, np.arange(k, k + n + 1), axis) for k in range(2 * width)
        ]
        found.append(views)
    return found


def _ghosts(u, axis, ghosts, value, order):
    own = jnp.moveaxis(
        jnp.take(u, order[: ghosts.interior_weights.shape[1]], axis), axis, 0
    )
    value = jnp.moveaxis(value, axis, 0)
    inside = jnp.tensordot(ghosts.interior_weights, own, 1)
    return jnp.moveaxis(
        inside + ghosts.boundary_weight.reshape(-1, *[1] * (u.ndim - 1)) * value,
        0,
        axis,
    )


def case(shape, ndim, width, order):
    keys = iter(jax.random.split(jax.random.key(0), 10))
    ends, given = [], []
    for i, pair in enumerate(WALLS[:ndim]):
        if pair is None:
            ends.append(None)
            given.append(None)
            continue
        wall = list(shape)
        wall[len(shape) - ndim + i] = 1
        ends.append(tuple(kind.ghosts(SPACING, width, order) for kind in pair))
        given.append(tuple(jax.random.normal(next(keys), wall) for _ in pair))
    return jax.random.normal(next(keys), shape), ends, given


@pytest.mark.parametrize(
    ("width", "order"),
    [
        (1, 2),
        pytest.param(1, 3, marks=pytest.mark.slow),
        pytest.param(2, 4, marks=pytest.mark.slow),
        (3, 2),
    ],
)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((2, 8), marks=pytest.mark.slow),
        pytest.param((2, 8, 7), marks=pytest.mark.slow),
        (2, 4, 3),
        pytest.param((1, 8, 7, 6), marks=pytest.mark.slow),
        pytest.param((8, 7), marks=pytest.mark.slow),
    ],
)
def test_face_neighbors_and_derivatives_match_plain_indexing(shape, width, order):
    ndim = min(len(shape), 3) if len(shape) == 2 and shape[0] == 8 else len(shape) - 1
    inputs = case(shape, ndim, width, order)
    leaves = jax.tree.leaves(jax.jit(lambda *given: plain(*given, width))(*inputs))
    weights = [np.cos(np.arange(a.size) ** 2).reshape(a.shape) for a in leaves]

    def loss(function):
        def total(u, ends, given):
            found = jax.tree.leaves(function(u, ends, given, width))
            pairs = zip(found, weights, strict=True)
            return sum(jnp.sum(jnp.sin(a) * w) for a, w in pairs)

        return total

    found = jax.jit(lambda *given: face_neighbors(*given, width))(*inputs)
    for a, b in zip(jax.tree.leaves(found), leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    ours, theirs = (
        jax.tree.leaves(jax.jit(jax.grad(loss(f), (0, 1, 2)))(*inputs))
        for f in (face_neighbors, plain)
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.slow
def test_second_derivatives_and_batches_match_plain_indexing():
    u, ends, given = case((1, 6, 5), 2, 1, 2)

    def total(function):
        def of(u):
            found = jax.tree.leaves(function(u, ends, given, 1))
            return sum(jnp.sum(jnp.sin(a)) for a in found)

        return of

    for derivative in (jax.hessian, lambda f: jax.jacrev(jax.jacfwd(f))):
        ours, theirs = (derivative(total(f))(u) for f in (face_neighbors, plain))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    batch = jnp.stack([u, 2 * u, -u])
    together = jax.vmap(jax.grad(total(face_neighbors)))(batch)
    alone = [jax.grad(total(face_neighbors))(a) for a in batch]
    np.testing.assert_allclose(together, jnp.stack(alone), rtol=1e-14, atol=1e-14)


def test_face_to_cell_maps_have_correct_transposes():
    keys = jax.random.split(jax.random.key(1), 3)
    x = jax.random.normal(keys[0], (2, 6, 4))
    y = jax.random.normal(keys[1], (2, 5, 5))
    cells = jax.random.normal(keys[2], (2, 5, 4))
    found = divergence([x, y])
    np.testing.assert_allclose(
        found, np.diff(x, axis=1) + np.diff(y, axis=2), rtol=1e-13, atol=1e-13
    )
    maps = [
        (lambda a: divergence([a, y]) - divergence([0 * a, y]), x),
        (lambda a: difference(a, -1), y),
        (lambda a: average(a, -2), x),
    ]
    for function, at in maps:
        (turned,) = jax.linear_transpose(function, at)(cells)
        left, right = jnp.sum(function(at) * cells), jnp.sum(at * turned)
        np.testing.assert_allclose(left, right, rtol=1e-12)
    np.testing.assert_allclose(average(x, -2), (x[:, 1:] + x[:, :-1]) / 2, rtol=1e-14)


def test_ghosts_beyond_inflow_hold_its_value():
    inflow = Inflow(2.5)
    ends = [(inflow.ghosts(SPACING, 2, 4), Outflow().ghosts(SPACING, 2, 4))]
    u = jnp.arange(1.0, 6.0)
    given = [(jnp.full((1,), 2.5), jnp.zeros(1))]
    ((first, second, *_),) = face_neighbors(u, ends, given, 2)
    np.testing.assert_array_equal(first[:2], 2.5)
    np.testing.assert_array_equal(second[:2], [2.5, 1.0])


def test_signed_reflection_negates_odd_channels():
    mirror = SignedReflection((False, True))
    ends = [(mirror.ghosts(SPACING, 2, 4), mirror.ghosts(SPACING, 2, 4))]
    u = jnp.stack([jnp.arange(1.0, 6.0), jnp.arange(1.0, 6.0)])
    given = [(jnp.zeros((1, 1)), jnp.zeros((1, 1)))]

    def views(u):
        return jnp.stack(face_neighbors(u, ends, given, 2)[0])

    first, second, _, last = views(u)
    np.testing.assert_array_equal(first[:, :2], [[2.0, 1.0], [-2.0, -1.0]])
    np.testing.assert_array_equal(second[:, :1], [[1.0], [-1.0]])
    np.testing.assert_array_equal(last[:, -2:], [[5.0, 4.0], [-5.0, -4.0]])
    bars = jnp.cos(jnp.arange(48.0)).reshape(4, 2, 6)
    (turned,) = jax.vjp(views, u)[1](bars)
    np.testing.assert_allclose(jnp.sum(turned * u), jnp.sum(bars * views(u)))


def flux_made_once(u):
    return materialize(u * u - u)


def rise(u):
    return jnp.diff(flux_made_once(u))


def tangent(u):
    return jax.jvp(rise, (u,), (u,))[1]


def transposed(u):
    return jax.vjp(flux_made_once, u)[1](jnp.sin(u))[0]


def test_materialize_is_the_identity_with_its_derivatives():
    u = jnp.linspace(0.1, 0.2, 1000)
    np.testing.assert_array_equal(flux_made_once(u), u * u - u)
    np.testing.assert_allclose(tangent(u), jnp.diff((2 * u - 1) * u), atol=1e-15)
    np.testing.assert_allclose(transposed(u), (2 * u - 1) * jnp.sin(u), rtol=1e-14)


@pytest.mark.parametrize("function", [rise, tangent, transposed])
def test_materialize_writes_an_array_on_cpus_only(function):
    """An update that XLA took away would hold nothing up."""
    traced = jax.jit(function).trace(jnp.linspace(0.1, 0.2, 1000))
    programs = {p: traced.lower(lowering_platforms=(p,)) for p in ("cpu", "cuda")}
    for platform, program in programs.items():
        assert ("dynamic_update_slice" in program.as_text()) == (platform == "cpu")
    if jax.default_backend() == "cpu":
        assert "dynamic-update-slice" in programs["cpu"].compile().as_text()
