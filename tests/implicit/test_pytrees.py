"""Unknowns of one to three leaves, of which each parameter enters some equations.

`jax.lax.custom_linear_solve` cannot be transposed where only some of its leaves have a
tangent: a parameter in one equation of two was an AssertionError in reverse mode.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from relaxation import Relaxation
from rows import first_plain

from diffsim.implicit import (
    GMRES,
    BiCGStab,
    ImplicitAdjoint,
    Krylov,
    LaggedLU,
    fixed_point,
    least_squares,
    linear_solve,
    minimise,
    root,
)


GUESS = (jnp.array(0.7), jnp.full(2, 0.5), jnp.array([[0.3]]))


def patterns(leaves, parameters):
    """Every table of the equations that each parameter enters."""
    rows = itertools.product((0, 1), repeat=parameters)
    return [np.array(rows) for rows in itertools.product(list(rows), repeat=leaves)]


def weights(pattern, p):
    """One number an equation, a constant where no parameter enters it."""
    return [1.0 + sum(p[i] for i in np.flatnonzero(row)) for row in pattern]


def shifts(y):
    """Half of the leaf before: each equation knows the one before it."""
    return [0.0, *(jnp.sum(a) / 2 for a in y[:-1])]


def by_root(pattern, p, **options):
    """w (y³ + y) = 1 − half of the leaf before."""

    def residual(y, p):
        given = zip(weights(pattern, p), y, shifts(y), strict=True)
        return tuple(w * (a**3 + a) - 1 + b for w, a, b in given)

    return root(residual, GUESS[: len(pattern)], p, **options)


#: Quicker to compile; rules of derivatives do not ask who found the root.
relaxed = functools.partial(by_root, solver=Relaxation())


def cubic(w):
    """By Cardano's formula, one leaf after the other."""
    found = []
    for v, like in zip(w, GUESS, strict=False):
        c = (1 - shifts([*found, 0.0])[-1]) / v
        s = jnp.sqrt(c**2 / 4 + 1 / 27)
        found.append(jnp.cbrt(c / 2 + s) + jnp.cbrt(c / 2 - s) + 0 * like)
    return found


def by_linear_solve(pattern, p):
    """v² y = w² − half of the leaf before, with v in A and w in b."""
    n = len(pattern) // 2
    v, w = weights(pattern[:n], p), weights(pattern[n:], p)

    def product(y):
        given = zip(v, y, shifts(y), strict=True)
        return tuple(c**2 * a + b for c, a, b in given)

    # A leaf of b without parameters is a constant: it gets no zero of theirs.
    b = tuple(c**2 + 0 * like for c, like in zip(w, GUESS, strict=False))
    return linear_solve(product, b)


def triangular(w):
    n, found = len(w) // 2, []
    for v, c, like in zip(w[:n], w[n:], GUESS, strict=False):
        found.append((c**2 - shifts([*found, 0.0])[-1]) / v**2 + 0 * like)
    return found


def of_all(y):
    return sum(jnp.sum(jnp.sin(a)) for a in y)


def of_last(y):
    """The cotangents of the other leaves are symbolic zeros."""
    return jnp.sum(jnp.sin(y[-1]))


@functools.cache
def derivatives(closed_form, loss):
    """Gradient and Hessian by the weights, from which those of every pattern follow."""

    def value(w):
        return loss(closed_form(w))

    return jax.jit(lambda w: (jax.grad(value)(w), jax.hessian(value)(w)))


fwd, rev = jax.jacfwd, jax.jacrev

#: By the first parameter, and then by the last.
MODES = {
    "forward": lambda f, _: fwd(f),
    "reverse": lambda f, _: rev(f),
    "forward over forward": lambda f, last: fwd(fwd(f), last),
    "forward over reverse": lambda f, last: fwd(rev(f), last),
    "reverse over forward": lambda f, last: rev(fwd(f), last),
    "reverse over reverse": lambda f, last: rev(rev(f), last),
}
#: It meets every rule: of a tangent, of its transpose, and of the tangent of that.
TELLING = {"reverse over reverse": MODES["reverse over reverse"]}


def scanned(f):
    def total(*p):
        return jnp.sum(jax.lax.scan(lambda p, _: (p, f(*p)), p, None, length=2)[1]) / 2

    return total


def batched(f):
    """The first of a batch, in which the others do not move."""

    def first(*p):
        pairs = [jnp.stack([a, 2 * jax.lax.stop_gradient(a)]) for a in p]
        return jax.vmap(f)(*pairs)[0]

    return first


def check(solve, closed_form, pattern, *, loss=of_last, modes=TELLING, wrap=None):
    m = pattern.shape[1]
    p = [jnp.asarray(0.3), jnp.asarray(0.2)][:m]

    def value(*p):
        return loss(solve(pattern, p))

    used = value if wrap is None else wrap(value)

    @jax.jit
    def every(p):
        return {name: mode(used, m - 1)(*p) for name, mode in modes.items()}

    gradient, hessian = derivatives(closed_form, loss)(jnp.stack(weights(pattern, p)))
    gradient, hessian = pattern.T @ gradient, pattern.T @ hessian @ pattern
    for name, found in every(p).items():
        want = hessian[0, m - 1] if "over" in name else gradient[0]
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-13, err_msg=name)


def every_other(pattern):
    """All modes for half of the tables, where all but one entry are in every way.

    For the others, what meets every rule.
    """
    return MODES if np.sum(pattern) % 2 else TELLING


def named(pattern):
    return "-".join("".join(map(str, row)) for row in pattern)


def each(leaves, parameters, plain=None):
    """Every table, of which those of other names than `plain` are slow."""

    def row(table):
        slow = plain is not None and named(table) not in plain
        return pytest.param(table, marks=[pytest.mark.slow] if slow else [])

    every = [row(table) for n in leaves for table in patterns(n, parameters)]
    return pytest.mark.parametrize("pattern", every, ids=named)


@pytest.mark.parametrize("pattern", [np.array([[0], [1], [0]])], ids=named)
def test_root_is_differentiable_for_a_parameter_in_any_equations(pattern):
    check(relaxed, cubic, pattern)


@each((2, 4), 1, plain=("1-0", "0-1", "0-1-1-0"))
def test_linear_solve_is_differentiable_for_a_parameter_in_any_part(pattern):
    """The upper half of the table is A, the lower one b."""
    check(by_linear_solve, triangular, pattern)


@pytest.mark.slow
@each((1, 2, 3), 1)
@pytest.mark.parametrize("wrap", [None, batched, jax.checkpoint, scanned])
def test_every_mode_is_right_for_a_parameter_in_any_equations(pattern, wrap):
    if wrap is None:
        check(by_root, cubic, pattern, modes=MODES)
    else:
        check(relaxed, cubic, pattern, modes=every_other(pattern), wrap=wrap)


@pytest.mark.slow
@each((1, 2, 3), 1)
def test_every_mode_is_right_for_a_loss_of_all_unknowns(pattern):
    check(relaxed, cubic, pattern, loss=of_all, modes=MODES)


@pytest.mark.slow
@each((1, 2, 3), 2)
def test_mixed_derivatives_are_right_for_parameters_in_different_equations(pattern):
    """One is differentiated by after the other."""
    check(relaxed, cubic, pattern)


@pytest.mark.slow
@each((6,), 1)
def test_every_mode_is_right_for_any_part_of_a_linear_system(pattern):
    check(by_linear_solve, triangular, pattern, modes=every_other(pattern))


@pytest.mark.slow
@each((2, 4), 1)
def test_linear_solve_derivatives_are_right_for_a_loss_of_all_unknowns(pattern):
    check(by_linear_solve, triangular, pattern, loss=of_all)


ONE = (jnp.ones(()), jnp.ones(()))


def square(y, a):
    """The root is √a, twice."""
    return y[0] ** 2 - a, y[1] - y[0]


def _by_root(**options):
    return lambda a: root(square, ONE, a, **options)


def _by_fixed_point(a):
    return fixed_point(lambda y, a: ((y[0] + a / y[0]) / 2, y[0]), ONE, a)


def _by_minimise(a):
    def objective(y, a):
        return y[0] ** 3 / 3 - a * y[0] + (y[1] - y[0]) ** 2

    return minimise(objective, ONE, a)


def _by_least_squares(a):
    return least_squares(square, ONE, a)


def _by_linear_solve(a):
    """A is constant, and so is a leaf of b."""
    return linear_solve(lambda v: (v[0], v[1] - v[0]), (jnp.sqrt(a), jnp.zeros(())))


def _by_optimistix(a):
    newton = optx.Newton(1e-12, 1e-12)
    return optx.root_find(square, newton, ONE, a, adjoint=ImplicitAdjoint()).value


LAYERS = {
    "refined": _by_root(adjoint=ImplicitAdjoint(LaggedLU())),
    "Optimistix": _by_optimistix,
    # Of these two are plain rows above; the others are roots of other functions.
    "root": _by_root(),
    "linear solve": _by_linear_solve,
    "fixed point": _by_fixed_point,
    "minimum": _by_minimise,
    "least squares": _by_least_squares,
    "by products": _by_root(adjoint=ImplicitAdjoint(Krylov())),
}


@pytest.mark.parametrize("layer", first_plain(LAYERS, 2))
def test_every_layer_is_differentiable_by_a_parameter_in_one_equation(layer):
    solve = LAYERS[layer]

    @jax.jit
    def every(a):
        slope = rev(lambda a: solve(a)[1])
        return slope(a), rev(slope)(a)

    slope, curvature = every(jnp.array(4.0))
    np.testing.assert_allclose(slope, 1 / 4, rtol=1e-9)
    np.testing.assert_allclose(curvature, -1 / 32, rtol=1e-9)


def test_reverse_mode_adjoint_is_right_for_a_parameter_in_one_equation():
    solve = _by_root(adjoint=ImplicitAdjoint(mode="reverse"))
    np.testing.assert_allclose(jax.grad(lambda a: solve(a)[1])(4.0), 0.25, rtol=1e-12)


@pytest.mark.slow
def test_gradient_under_shard_map_is_right_for_a_parameter_in_one_equation():
    mesh = jax.make_mesh((1,), ("run",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("run")

    def each(a):
        shard = jax.vmap(lambda a: _by_root()(a)[1])
        return jax.shard_map(shard, mesh=mesh, in_specs=spec, out_specs=spec)(a)

    slopes = jax.jit(jax.grad(lambda a: jnp.sum(each(a))))(jnp.array([4.0, 1.0]))
    np.testing.assert_allclose(slopes, [0.25, 0.5], rtol=1e-12)


MIXED = (jnp.ones((), jnp.float32), jnp.ones(2))


def mixed(y, a):
    """The root is √a and (a − √a/10)/2, in single and in double precision."""
    return (y[0] ** 2 - a).astype(jnp.float32), 2 * y[1] - a + 0.1 * y[0]


@pytest.mark.parametrize("method", first_plain([BiCGStab(), GMRES()]))
def test_krylov_solvers_handle_leaves_of_mixed_precision(method):
    def solve(a):
        return root(mixed, MIXED, a, adjoint=ImplicitAdjoint(Krylov(method)))

    def last(a):
        found = solve(a)
        return found[1][0], found

    modes = [mode(last, has_aux=True) for mode in (jax.jacfwd, jax.jacrev)]
    (slope, found), (back, _) = jax.jit(lambda a: [both(a) for both in modes])(4.0)
    assert [leaf.dtype for leaf in found] == [jnp.float32, jnp.float64]
    # All of it to single precision, which each equation has its part of.
    np.testing.assert_allclose(found[0], 2, rtol=1e-5)
    np.testing.assert_allclose(found[1], 1.9, rtol=1e-5)
    np.testing.assert_allclose([slope, back], 0.4875, rtol=1e-5)
