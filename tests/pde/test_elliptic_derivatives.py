"""Solutions of elliptic problems have the derivatives of the discrete problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import pde
from diffsim.verify import taylor_test


MULTIGRID_CG = pde.PreconditionedKrylov(pde.Multigrid())


@pytest.mark.slow
def test_nonsymmetric_problem_has_correct_adjoint(elliptic):
    domain = elliptic.plate(
        (elliptic.Cubic(), elliptic.Cubic()), elliptic.boundaries["DN"]
    )
    k, _ = elliptic.coefficients(domain.grid)
    w, f = elliptic.source((8, 6), 1), elliptic.source((8, 6))

    def total(k):
        return jnp.sum(w * pde.poisson(f, domain, coefficient=k) ** 2)

    slope = jax.jit(lambda k: (jax.jvp(total, (k,), (w,))[1], jax.grad(total)(k)))
    forward, bars = slope(k)
    reverse = jnp.sum(w * bars)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10)


def test_lines_have_correct_first_and_second_derivatives(elliptic):
    """By k, α, a wall and f, in both modes, beside differences."""
    grid = pde.Grid(7, 0.1, 0.9)
    f, w, (x,) = elliptic.source((7,)), elliptic.source((7,), 1), grid.centers

    def total(p):
        line = pde.Domain(grid, ((pde.Robin(1.0, 0.4, p[2]), pde.Dirichlet(0.3)),))
        k = jnp.exp(p[0] * x)
        u = pde.helmholtz(p[3] * f, line, alpha=p[1], coefficient=k, throw=False)
        return jnp.sum(w * u**3)

    @jax.jit
    def derivatives(p):
        return total(p), jax.grad(total)(p), jax.hessian(total)(p)

    p, h = jnp.array([0.4, 0.8, 0.1, 1.2]), 1e-5
    ends = [[derivatives(p + s * h * e) for s in (1, -1)] for e in jnp.eye(4)]
    slopes = [jax.tree.map(lambda a, b: (a - b) / (2 * h), *pair) for pair in ends]
    for found, exact in zip(
        derivatives(p)[1:], zip(*slopes, strict=True), strict=False
    ):
        # The differences are good to h² and to rounding over h.
        np.testing.assert_allclose(found, jnp.stack(exact), rtol=1e-7, atol=1e-10)


def manufactured_error(p, n):
    """The error of u = p sin(...) + ..., for a k and an α that know p."""

    def u(x):
        return jnp.sin(p * x[0] + x[1]) * jnp.exp(x[1] / 2) + p * x[0] ** 2

    def k(x):
        return jnp.exp(p * x[0] * x[1]) + 0.3

    def flux(x):
        return k(x) * jax.grad(u)(x)

    def right(x):
        return (1 + p * x[0]) * u(x) - jnp.trace(jax.jacfwd(flux)(x))

    def at(function):
        return lambda x: jax.vmap(function, -1)(x.reshape(2, -1)).reshape(x.shape[1:])

    slope = jax.grad(u)
    walls = (
        (
            pde.Dirichlet(lambda t, x: at(u)(x)),
            pde.Neumann(lambda t, x: at(lambda x: slope(x)[0])(x)),
        ),
        (
            pde.Robin(1.0, 0.5, lambda t, x: at(lambda x: u(x) - slope(x)[1] / 2)(x)),
            pde.Dirichlet(lambda t, x: at(u)(x)),
        ),
    )
    grid = pde.Grid((n, 4 * n // 3), (0.1, 0.2), (1.0, 1.3))
    x = grid.centers
    found = pde.helmholtz(
        at(right)(x),
        pde.Domain(grid, walls),
        alpha=1 + p * x[0],
        coefficient=at(k)(x),
        throw=False,
    )
    return found - at(u)(x)


@pytest.mark.slow
def test_solutions_and_derivatives_have_order_two():
    def norms(n):
        both = jax.jit(
            lambda p: jax.jvp(lambda p: manufactured_error(p, n), (p,), (1.0,))
        )
        return [f(np.asarray(e)) for e in both(1.1) for f in (np.std, np.ptp)]

    orders = np.log2(np.divide(norms(48), norms(96)))
    np.testing.assert_allclose(orders, 2, atol=0.1)


def problem(elliptic, walls, uniform, solver):
    domain = elliptic.plate(*(elliptic.boundaries[name] for name in walls), (6, 8))
    k, alpha = elliptic.coefficients(domain.grid)
    f = elliptic.source(domain.grid.shape)
    if uniform:
        k, alpha = jnp.asarray(1.3), jnp.asarray(0.7)

    def solved(f, alpha, k, domain):
        return pde.helmholtz(
            f, domain, alpha=alpha, coefficient=k, solver=solver, throw=False
        )

    return solved, (f, alpha, k, domain)


@pytest.mark.parametrize(
    ("walls", "uniform", "solver"),
    [
        pytest.param(("RD", "periodic"), True, None, marks=pytest.mark.slow),
        pytest.param(("DN", "NR"), False, None, marks=pytest.mark.slow),
        pytest.param(("RR", "ND"), False, MULTIGRID_CG, marks=pytest.mark.slow),
        pytest.param(("RR", "ND"), True, pde.Multigrid(), marks=pytest.mark.slow),
        pytest.param(("RR", "ND"), True, None, marks=pytest.mark.slow),
    ],
)
def test_gradients_are_correct_for_every_parameter(elliptic, walls, uniform, solver):
    solved, inputs = problem(elliptic, walls, uniform, solver)
    found = taylor_test(solved, *inputs)
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "no effect" for leaf in found.leaves)


@pytest.mark.slow
def test_derivatives_of_singular_problem_are_correct(elliptic):
    domain = elliptic.plate(
        elliptic.boundaries["NN"], elliptic.boundaries["periodic"], (6, 8)
    )
    k, _ = elliptic.coefficients(domain.grid)

    def solved(f, k, domain):
        f = elliptic.balance(f, domain, k)
        return pde.poisson(f, domain, coefficient=k, throw=False)

    found = taylor_test(solved, elliptic.source((6, 8)), k, domain)
    assert found.passed, found
    assert found.disagreement < 1e-10


@pytest.mark.slow
def test_second_derivatives_match_differences_of_first_ones(elliptic):
    domain = elliptic.plate(
        elliptic.boundaries["DN"], elliptic.boundaries["periodic"], (4, 6)
    )
    f, w = elliptic.source((4, 6)), elliptic.source((4, 6), 1)

    def total(p):
        k = jnp.exp(p[0] * domain.grid.centers[0])
        return jnp.sum(w * pde.helmholtz(f, domain, alpha=p[1], coefficient=k) ** 3)

    p, h = jnp.array([0.4, 0.8]), 1e-5
    found = [
        jax.hessian(total)(p),
        jax.jacrev(jax.jacfwd(total))(p),
        jax.jacrev(jax.jacrev(total))(p),
    ]
    slope = jax.jit(jax.grad(total))
    exact = [(slope(p + h * e) - slope(p - h * e)) / (2 * h) for e in jnp.eye(2)]
    for hessian in found:
        # The differences are good to h² and to rounding over h.
        np.testing.assert_allclose(hessian, jnp.stack(exact), rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_compiled_and_batched_solutions_match_single_ones(elliptic):
    solved, (f, alpha, k, domain) = problem(elliptic, ("DN", "periodic"), False, None)

    def total(f, k):
        return jnp.sum(solved(f, alpha, k, domain) ** 3)

    slopes = jax.value_and_grad(total, (0, 1))
    compiled = jax.jit(slopes)
    fs, ks = jnp.stack([f, f**2]), jnp.stack([k, k + 1])
    alone = [compiled(f, k) for f, k in zip(fs, ks, strict=True)]
    together = jax.vmap(compiled)(fs, ks)
    batch = [jax.tree.map(lambda a, i=i: a[i], together) for i in (0, 1)]
    for found, exact in [(slopes(f, k), alone[0]), *zip(batch, alone, strict=True)]:
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
            # Iterations stop at 2e-12, on other paths of rounding.
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
