"""Thirty ways of JAX to use a root, by each linear solver: all derivatives are right.

The rows guard against what other rules for implicit functions get wrong: a `custom_jvp`
is written out by partial evaluation inside `scan`, and its second derivative goes
through the solver's iterations without a word; a `custom_vjp` has no forward mode;
`linear_call` has no batching rule; a factorization that is shared by both solves may
be transposed twice, or batched along the wrong axis; and loops of other libraries carry
values of another type than `shard_map` wants.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relaxation import Relaxation
from rows import first_plain

from diffsim.implicit import (
    BracketedNewton,
    Dense,
    Diagonal,
    ImplicitAdjoint,
    Krylov,
    LaggedLU,
    NewtonKrylov,
    root,
    root_solution,
)


P0 = jnp.array([0.3, 0.7, -0.4])
DIRECTION = jnp.array([1.0, -0.5, 0.25])
POINTS = P0 + jnp.linspace(0, 0.4, 2)[:, None]
MESH = jax.make_mesh((1,), ("run",), axis_types=(jax.sharding.AxisType.Auto,))
SPEC = jax.sharding.PartitionSpec("run")


def residual(y, theta):
    """(2 + a) y + rotated y = z with z³ + z = b, and things that are not floats."""
    z = 2 * y + theta["a"] * y + theta["turn"] @ y
    power, nothing = theta["n"], theta["nothing"]
    assert nothing is None
    return z**power + z - theta["b"]


def theta_of(p):
    turn = jnp.array([[0.0, 0.5], [-0.5, 0.0]])
    return {"a": p[0], "b": p[1:], "turn": turn, "n": jnp.array(3), "nothing": None}


def closed_form(p):
    """Cardano's root of z³ + z = b, and Cramer's rule."""
    b = p[1:]
    s = jnp.sqrt(b**2 / 4 + 1 / 27)
    z = jnp.cbrt(b / 2 + s) + jnp.cbrt(b / 2 - s)
    d = 2 + p[0]
    return jnp.stack([d * z[0] - 0.5 * z[1], 0.5 * z[0] + d * z[1]]) / (d**2 + 0.25)


def explicit(**options):
    return lambda p: root(residual, jnp.zeros(2), theta_of(p), **options)


def closed_over(**options):
    return lambda p: root(
        lambda y, _: residual(y, theta_of(p)), jnp.zeros(2), **options
    )


def loss(solve):
    return lambda p: jnp.sum(jnp.sin(solve(p)) ** 2)


def along(f):
    return lambda p: jax.jvp(f, (p,), (DIRECTION,))[1]


def linearized(f):
    return lambda p: jax.linearize(f, p)[1](DIRECTION)


def transposed(f):
    def turned(p):
        y, push = jax.linearize(f, p)
        return jax.linear_transpose(push, p)(y)[0]

    return turned


def scanned(solve):
    def step(p, _):
        y = solve(p)
        return 0.99 * p + 1e-3 * jnp.sum(y), y

    return lambda p: jnp.sum(jax.lax.scan(step, p, None, length=2)[1] ** 2)


def checkpointed_while(solve):
    def total(p):
        def step(carry):
            n, p = carry
            return n + 1, 0.99 * p + 1e-2 * jnp.sum(solve(p))

        start = (jnp.array(0), p)
        loop = eqx.internal.while_loop
        found = loop(lambda c: c[0] < 2, step, start, max_steps=4, kind="checkpointed")
        return jnp.sum(found[1] ** 2)

    return total


def branched(f):
    return lambda p: jax.lax.cond(p[0] > 0, f, lambda p: 0 * p[0], p)


def converted(f):
    return lambda p: eqx.filter_closure_convert(f, p)(p)


def sharded(f, *, check_vma=True):
    def run(points):
        shard = jax.shard_map(
            f, mesh=MESH, in_specs=SPEC, out_specs=SPEC, check_vma=check_vma
        )
        return shard(points)

    return run


def total(f):
    return lambda points: jnp.sum(f(points) ** 2)


grad, hessian, jit, vmap = jax.grad, jax.hessian, jax.jit, jax.vmap
fwd, rev = jax.jacfwd, jax.jacrev

ROWS = {
    "value": (lambda s: s, P0),
    "jit": (jit, P0),
    "vmap": (lambda s: jit(vmap(s)), POINTS),
    "jvp": (lambda s: jit(along(s)), P0),
    "linearize": (linearized, P0),
    "linear transpose": (lambda s: jit(transposed(s)), P0),
    "forward": (fwd, P0),
    "reverse": (rev, P0),
    "jit of forward": (lambda s: jit(fwd(s)), P0),
    "jit of reverse": (lambda s: jit(rev(s)), P0),
    "vmap of forward": (lambda s: jit(vmap(fwd(s))), POINTS),
    "vmap of reverse": (lambda s: jit(vmap(rev(s))), POINTS),
    "vmap of gradient": (lambda s: jit(vmap(grad(loss(s)))), POINTS),
    "gradient of vmap": (lambda s: jit(grad(total(vmap(s)))), POINTS),
    "forward over reverse": (lambda s: jit(fwd(rev(loss(s)))), P0),
    "reverse over reverse": (lambda s: jit(rev(rev(loss(s)))), P0),
    "forward over forward": (lambda s: jit(fwd(fwd(loss(s)))), P0),
    "reverse over forward": (lambda s: jit(rev(fwd(loss(s)))), P0),
    "vmap of Hessian": (lambda s: jit(vmap(hessian(loss(s)))), POINTS),
    "third order": (lambda s: jit(along(hessian(loss(s)))), P0),
    "gradient of checkpoint": (lambda s: jit(grad(jax.checkpoint(loss(s)))), P0),
    "gradient of scan": (lambda s: jit(grad(scanned(s))), P0),
    "forward of scan": (lambda s: jit(fwd(scanned(s))), P0),
    "Hessian of scan": (lambda s: jit(hessian(scanned(s))), P0),
    "gradient of cond": (lambda s: jit(grad(branched(loss(s)))), P0),
    "gradient of checkpointed while": (lambda s: jit(grad(checkpointed_while(s))), P0),
    "closure convert": (lambda s: jit(converted(s)), P0),
    "shard": (lambda s: jit(sharded(vmap(s))), POINTS),
    "forward in shard": (lambda s: jit(sharded(vmap(fwd(s)))), POINTS),
    "gradient of shard": (lambda s: jit(grad(total(sharded(vmap(s))))), POINTS),
    "gradient of unchecked shard": (
        lambda s: jit(grad(total(sharded(vmap(s), check_vma=False)))),
        POINTS,
    ),
}
#: Where who finds the root matters: without a derivative, and inside of `shard_map`.
OF_THE_SEARCH = ("value", "jit", "vmap", "closure convert")
OF_THE_SEARCH += tuple(row for row in ROWS if "shard" in row)
ADJOINTS = {
    "dense": {"adjoint": ImplicitAdjoint(Dense())},
    "stale": {"adjoint": ImplicitAdjoint(LaggedLU())},
    "krylov": {"adjoint": ImplicitAdjoint(Krylov())},
}


@functools.cache
def exact(row):
    make, at = ROWS[row]
    return jit(make(closed_form))(at)


def check(row, solve):
    make, at = ROWS[row]
    np.testing.assert_allclose(make(solve)(at), exact(row), rtol=1e-9, atol=1e-11)


#: Where other derivative rules fail. The others are among the slow rows.
TELLING = [
    "linear transpose",
    "reverse over reverse",
    "vmap of Hessian",
    "third order",
    "Hessian of scan",
    "gradient of checkpointed while",
    "closure convert",
    "forward in shard",
    "gradient of shard",
    "gradient of unchecked shard",
]


def quick(row):
    """No derivative goes through the search, so one that is quick to compile does."""
    return {} if row in OF_THE_SEARCH else {"solver": Relaxation()}


@pytest.mark.parametrize("row", TELLING)
def test_critical_transformations_have_the_right_derivative(row):
    adjoint = ADJOINTS["stale" if "unchecked" in row else "dense"]
    check(row, explicit(**adjoint, **quick(row)))


#: What a residual closes over becomes an argument before a linear solver is asked: each
#: transformation is tried with every solver and in both ways, and each solver in both.
TRIPLES = [
    (told, adjoint, row)
    for i, row in enumerate(ROWS)
    for adjoint in ADJOINTS
    for told in (explicit, closed_over)
    if adjoint == "dense" or (told is explicit) == ((i + (adjoint == "stale")) % 2 == 0)
]


@pytest.mark.slow
@pytest.mark.parametrize(("told", "adjoint", "row"), TRIPLES)
def test_every_transformation_is_right_with_every_linear_solver(told, adjoint, row):
    # Newton by Krylov leaves no matrix to its adjoint, and is slow to compile.
    solver = quick(row) if adjoint == "krylov" else {}
    check(row, told(**ADJOINTS[adjoint], **solver))


@pytest.mark.parametrize(
    "row", first_plain(["Hessian of scan", "reverse over reverse"])
)
def test_derivative_does_not_depend_on_that_of_the_solver(row):
    """A bisection has derivative zero, and is what a `custom_jvp` would go through."""

    def solve(p):
        z = root(
            lambda z, b: z**3 + z - b,
            jnp.zeros(2),
            p[1:],
            solver=BracketedNewton(-2.0, 2.0),
            adjoint=ImplicitAdjoint(Diagonal()),
        )
        d = 2 + p[0]
        y = [d * z[0] - 0.5 * z[1], 0.5 * z[0] + d * z[1]]
        return jnp.stack(y) / (d**2 + 0.25)

    check(row, solve)


@pytest.mark.parametrize(
    "adjoint",
    [
        ImplicitAdjoint(),
        ImplicitAdjoint(LaggedLU()),
        pytest.param(ImplicitAdjoint(Krylov()), marks=pytest.mark.slow),
    ],
)
def test_zero_cotangent_gives_zero_gradient(adjoint):
    found = jax.jit(jax.grad(lambda p: 0 * jnp.sum(explicit(adjoint=adjoint)(p))))(P0)
    np.testing.assert_array_equal(found, jnp.zeros(3))


def test_singular_member_of_a_batch_leaves_the_others_unchanged():
    def solve(a):
        found = root_solution(
            lambda y, a: a * (y**3 + y - 1), jnp.ones(1), a, throw=False
        )
        return found.value[0], found.condition

    at = jnp.array([1.0, 0.0, 2.0])
    (value, condition), slope = jax.jit(
        lambda a: (jax.vmap(solve)(a), jax.vmap(jax.grad(lambda a: solve(a)[0]))(a))
    )(at)
    fine = np.array([True, False, True])
    np.testing.assert_array_equal(np.isfinite(value), fine)
    np.testing.assert_allclose(slope, np.where(fine, 0, np.nan), atol=1e-15)
    np.testing.assert_array_equal(np.isfinite(condition), fine)


@pytest.mark.slow
def test_hessian_by_inexact_newton_in_a_scan_is_right():
    check(
        "Hessian of scan",
        explicit(solver=NewtonKrylov(), adjoint=ImplicitAdjoint(Krylov())),
    )
