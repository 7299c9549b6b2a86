"""Every linear solver solves with A and with its transpose."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from rows import first_plain

from diffsim.implicit import (
    CG,
    FGMRES,
    GMRES,
    MINRES,
    Banded,
    BiCGStab,
    BlockTridiagonal,
    Dense,
    Diagonal,
    ForwardAdjointSolvers,
    ImplicitAdjoint,
    Krylov,
    LaggedLU,
    LineaxSolver,
    MinimumNorm,
    Tridiagonal,
    linear_solve,
    root,
)


def banded(n, lower, upper, seed=0):
    matrix = np.random.default_rng(seed).normal(size=(n, n))
    matrix = np.triu(np.tril(matrix, upper), -lower)
    return jnp.asarray(matrix + 3 * (lower + upper) * np.eye(n))


def blocks(n, m, seed=0):
    matrix = np.random.default_rng(seed).normal(size=(n, m, n, m))
    apart = np.abs(np.arange(n)[:, None] - np.arange(n)) > 1
    matrix = np.where(apart[:, None, :, None], 0, matrix).reshape(n * m, n * m)
    return jnp.asarray(matrix + 4 * m * np.eye(n * m))


FULL = banded(7, 6, 6)
PLAIN = np.asarray(FULL)
SPD = jnp.asarray(PLAIN @ PLAIN.T)
INDEFINITE = jnp.asarray(PLAIN + PLAIN.T - 30 * np.eye(7))


def jacobi(v):
    return v / jnp.diag(SPD)


TABLE = {
    "Dense": (Dense(), FULL, (7,)),
    "Dense, one": (Dense(), jnp.asarray(PLAIN[:1, :1]), (1,)),
    "Dense, two": (Dense(), jnp.asarray([[0.0, 2.0], [3.0, 1.0]]), (2,)),
    "Dense, three": (Dense(), jnp.asarray(PLAIN[[2, 0, 1], :3]), (3,)),
    "LaggedLU": (LaggedLU(), FULL, (7,)),
    "MinimumNorm": (MinimumNorm(), FULL, (7,)),
    "LineaxSolver": (LineaxSolver(lx.GMRES(1e-13, 1e-13)), FULL, (7,)),
    "GMRES": (Krylov(), FULL, (7,)),
    "GMRES, restarted": (Krylov(GMRES(restart=4)), FULL, (7,)),
    "FGMRES": (Krylov(FGMRES(), preconditioner=jacobi), SPD, (7,)),
    "BiCGStab": (Krylov(BiCGStab()), FULL, (7,)),
    "BiCGStab, helped": (Krylov(BiCGStab(), preconditioner=jacobi), SPD, (7,)),
    "CG": (Krylov(CG()), SPD, (7,)),
    "CG, helped": (Krylov(CG(), preconditioner=jacobi), SPD, (7,)),
    "MINRES": (Krylov(MINRES()), INDEFINITE, (7,)),
    "MINRES, helped": (Krylov(MINRES(), preconditioner=jacobi), SPD, (7,)),
    "Split": (ForwardAdjointSolvers(Dense(), Krylov()), FULL, (7,)),
    "Tridiagonal": (Tridiagonal(), banded(7, 1, 1), (7,)),
    "Banded": (Banded(2, 1), banded(7, 2, 1), (7,)),
    "Banded, one side": (Banded(0, 3), banded(8, 0, 3), (8,)),
    "BlockTridiagonal": (BlockTridiagonal(), blocks(5, 3), (5, 3)),
    "BlockTridiagonal, even": (BlockTridiagonal(), blocks(6, 2), (6, 2)),
    "BlockTridiagonal, one": (BlockTridiagonal(), blocks(1, 2), (1, 2)),
}


@eqx.filter_jit
def solutions(linear_solver, matrix, b, *, transposed=False):
    """A⁻¹ b and A⁻ᵀ b by what was prepared from products with A, or with Aᵀ."""

    def operator(v):
        return (matrix @ v.reshape(-1)).reshape(v.shape)

    def turned(v):
        return (matrix.T @ v.reshape(-1)).reshape(v.shape)

    given = turned if transposed else operator
    state = linear_solver.prepare(given, b, transposed=transposed)
    ahead, _ = linear_solver.solve(state, operator, b)
    back, _ = linear_solver.solve_transpose(state, turned, b)
    return ahead, back


#: Slow are what others of a kind hold. What factors reads Aᵀ as it reads A, and turns
#: it; a method of products reads nothing.
AGAIN = {"GMRES", "BiCGStab", "Banded, one side", "BlockTridiagonal"}
FACTORING = Dense | LaggedLU | MinimumNorm | Tridiagonal | Banded | BlockTridiagonal
EACH = [(n, isinstance(TABLE[n][0], FACTORING)) for n in TABLE if n not in AGAIN]
OTHERS = [row for row in itertools.product(TABLE, (True, False)) if row not in EACH]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "transposed"), first_plain(EACH + OTHERS, len(EACH)))
def test_system_and_transpose_are_solved(name, transposed):
    linear_solver, matrix, shape = TABLE[name]
    b = jnp.asarray(np.random.default_rng(1).normal(size=shape))
    found = solutions(linear_solver, matrix, b, transposed=transposed)
    for x, A in zip(found, (matrix, matrix.T), strict=True):
        exact = np.linalg.solve(A, np.ravel(b))
        np.testing.assert_allclose(np.ravel(x), exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "name", first_plain(["GMRES", "BiCGStab", "CG", "MINRES", "Dense"], 4)
)
def test_zero_right_hand_side_gives_zero(name):
    linear_solver, matrix, shape = TABLE[name]
    for x in solutions(linear_solver, matrix, jnp.zeros(shape)):
        np.testing.assert_array_equal(x, 0)


@pytest.mark.parametrize(
    "linear_solver",
    [
        Tridiagonal(),
        pytest.param(Banded(1, 1), marks=pytest.mark.slow),
        pytest.param(Diagonal(), marks=pytest.mark.slow),
        pytest.param(BlockTridiagonal(), marks=pytest.mark.slow),
        pytest.param(
            ForwardAdjointSolvers(Diagonal(), Dense()), marks=pytest.mark.slow
        ),
    ],
)
def test_matrix_outside_the_declared_structure_gives_nan(linear_solver):
    shape = (6, 1) if isinstance(linear_solver, BlockTridiagonal) else (6,)
    matrix = banded(6, 1, 1).at[0, 4].set(0.3)

    def solve(t, mode="primitive"):
        def residual(y, t):
            return (matrix @ y.reshape(-1)).reshape(shape) - t

        adjoint = ImplicitAdjoint(linear_solver, mode)
        return root(residual, jnp.zeros(shape), t, adjoint=adjoint, throw=False)

    def total(t, mode):
        return jnp.sum(solve(t, mode))

    @jax.jit
    def slopes(t):
        modes = "primitive", "reverse"
        return jax.jacfwd(solve)(t), [jax.grad(total)(t, mode) for mode in modes]

    ahead, backs = slopes(1.0)
    assert np.all(np.isnan(ahead))
    for back in backs:
        if isinstance(linear_solver, ForwardAdjointSolvers):
            exact = np.sum(np.linalg.solve(matrix, np.ones(6)))
            np.testing.assert_allclose(back, exact, rtol=1e-12)
        else:
            assert np.isnan(back)


@pytest.mark.parametrize("linear_solver", [Banded(1, 1), Diagonal()])
def test_system_outside_the_declared_structure_has_no_solution(linear_solver):
    """As of `BlockTridiagonal`, which is to small blocks what `Banded` is to rows."""
    matrix = banded(6, 1, 1).at[0, 4].set(0.3)
    given = {"linear_solver": linear_solver, "throw": False}
    found = linear_solve(lambda v: matrix @ v, jnp.ones(6), **given)
    assert np.all(np.isnan(found))


def test_diverging_refinement_gives_nan_in_every_entry():
    """In a diagonal system NaN reaches no other entry by itself."""
    b = jnp.ones(7).at[3].set(jnp.nan)
    linear_solver, matrix = LaggedLU(Diagonal()), jnp.diag(jnp.arange(1.0, 8.0))
    for x in solutions(linear_solver, matrix, b):
        assert np.all(np.isnan(x))


def test_bicgstab_restarts_after_breakdown():
    """Of what conserves a sum, one is an eigenvector of the transpose."""
    x = jnp.linspace(0, 1, 40)

    def operator(v):
        around = jnp.pad(v, 1, mode="edge")
        return (
            v
            - jnp.diff(jnp.linspace(1, 9, 41) * jnp.diff(around))
            + 0.1 * (jnp.roll(x * v, 1) - x * v)
        )

    found, _ = Krylov(BiCGStab()).solve(None, operator, jnp.ones(40))
    np.testing.assert_allclose(operator(found), 1, rtol=1e-10)


def test_leading_axes_are_independent_systems():
    bands = np.random.default_rng(2).normal(size=(3, 7)) + np.array([[0], [6], [0]])

    def operator(v):
        below, middle, above = bands
        up, down = jnp.roll(v, -1, axis=-1), jnp.roll(v, 1, axis=-1)
        up, down = up.at[..., -1].set(0), down.at[..., 0].set(0)
        return below * down + middle * v + above * up

    b = jnp.asarray(np.random.default_rng(3).normal(size=(2, 7)))

    def solution(b, linear_solver):
        return linear_solver.solve(linear_solver.prepare(operator, b), operator, b)[0]

    for linear_solver in (Tridiagonal(), Banded(1, 1)):
        x = jax.jit(lambda b, s=linear_solver: solution(b, s))(b)
        np.testing.assert_allclose(operator(x), b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "linear_solver",
    [
        Dense(),
        pytest.param(LaggedLU(), marks=pytest.mark.slow),
        pytest.param(Krylov(max_steps=2), marks=pytest.mark.slow),
        Krylov(MINRES(), max_steps=2),
    ],
)
def test_unsolvable_system_gives_nan(linear_solver):
    small = jnp.asarray([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]])
    b = jnp.asarray([1.0, 0.0, 2.0])
    beside = jnp.zeros((5, 5)).at[:3, :3].set(small).at[[3, 4], [3, 4]].set(1)
    for matrix, rhs in ((small, b), (beside, jnp.append(b, jnp.ones(2)))):
        for x in solutions(linear_solver, matrix, rhs):
            assert np.all(np.isnan(x))


@pytest.mark.parametrize("n", [2, 3, 7])
def test_badly_scaled_rows_and_columns_are_solved(n):
    rows, columns = 10.0 ** np.linspace(-9, 9, n), 10.0 ** np.linspace(0, 6, n)
    full, x = PLAIN[:n, :n], PLAIN[0, :n]
    matrix = jnp.asarray(rows[:, None] * full * columns)
    found, _ = solutions(Dense(), matrix, jnp.asarray(rows * (full @ x)))
    np.testing.assert_allclose(found * columns, x, rtol=1e-10)


def test_minimum_norm_solver_gives_the_pseudoinverse_solution():
    matrix = jnp.asarray([[1.0, 1.0], [2.0, 2.0]])
    ahead, back = solutions(MinimumNorm(), matrix, jnp.ones(2))
    np.testing.assert_allclose(ahead, np.linalg.pinv(matrix) @ np.ones(2), rtol=1e-13)
    np.testing.assert_allclose(back, np.linalg.pinv(matrix.T) @ np.ones(2), rtol=1e-13)


def diffusion(u, k):
    """A nonlinear two-point boundary-value problem, three diagonals."""
    wide = jnp.pad(u, 1)
    return k * (wide[2:] - 2 * u + wide[:-2]) - 0.1 * u**3 + 0.01


@functools.cache
def squares(linear_solver):
    """Gradient and Hessian of the sum of squares, by the conductivity."""

    def total(k):
        return jnp.sum(
            root(diffusion, jnp.zeros(20), k, adjoint=ImplicitAdjoint(linear_solver))
            ** 2
        )

    return jax.jit(lambda k: (jax.grad(total)(k), jax.hessian(total)(k)))(0.7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "linear_solver", [LaggedLU(), Tridiagonal(), Banded(1, 1), Krylov()]
)
def test_newton_uses_the_linear_solver_of_the_adjoint(linear_solver):
    """The default solver steps by the linear solver that the derivative is taken by."""
    np.testing.assert_allclose(squares(linear_solver), squares(Dense()), rtol=1e-9)


def factorizations(function, *given):
    return jax.jit(function).lower(*given).compile().as_text().count("getrf")


@pytest.mark.parametrize(
    ("linear_solver", "count"), first_plain([(LaggedLU(), 1), (Dense(), 2)])
)
@pytest.mark.parametrize("mode", first_plain([jax.grad, jax.jacfwd, jax.hessian]))
def test_derivatives_need_at_most_one_more_factorization(linear_solver, count, mode):
    """One is Newton's own, in its loop."""
    adjoint = ImplicitAdjoint(linear_solver)

    def loss(k):
        return jnp.sum(root(diffusion, jnp.zeros(20), k, adjoint=adjoint) ** 2)

    assert 0 < factorizations(mode(loss), 0.7) <= count * factorizations(loss, 0.7)


@pytest.mark.parametrize("layer", first_plain([linear_solve, root]))
def test_preconditioner_may_depend_on_traced_values(layer):
    def product(d, y):
        return d * y + 0.1 * jnp.roll(y, 1)

    def solve(diagonal):
        helped = Krylov(BiCGStab(), preconditioner=lambda v: v / diagonal)
        solver, ones = ForwardAdjointSolvers(helped, Krylov(BiCGStab())), jnp.ones(5)
        if layer is linear_solve:
            product_of = functools.partial(product, diagonal)
            return linear_solve(product_of, ones, linear_solver=solver)
        adjoint = ImplicitAdjoint(solver)
        return root(lambda y, d: product(d, y) - 1, ones, diagonal, adjoint=adjoint)

    several = np.random.default_rng(4).uniform(1, 2, size=(3, 5))

    def slope(diagonal):
        inverse = np.linalg.inv(np.diag(diagonal) + 0.1 * np.roll(np.eye(5), 1, axis=0))
        return -inverse * (inverse @ np.ones(5))

    modes = [jax.vmap(mode(solve)) for mode in (jax.jacfwd, jax.jacrev)]
    found = jax.jit(lambda some: [mode(some) for mode in modes])(several)
    np.testing.assert_allclose(found, 2 * [list(map(slope, several))], rtol=1e-10)


@pytest.mark.parametrize("refinements", first_plain([1, 0]))
def test_residual_with_reverse_mode_only_has_a_gradient(refinements):
    @jax.custom_vjp
    def cubed(y):
        return y**3

    cubed.defvjp(lambda y: (y**3, y), lambda y, bar: (3 * y**2 * bar,))

    adjoint = ImplicitAdjoint(mode="reverse", refinements=refinements)

    def solve(a):
        return root(lambda y, a: cubed(y) + 2 * y - a, jnp.ones(3), a, adjoint=adjoint)

    at = jnp.asarray([0.3, 1.0, 4.0])
    y, pull = jax.vjp(solve, at)
    np.testing.assert_allclose(y**3 + 2 * y, at, rtol=1e-14)
    np.testing.assert_allclose(pull(jnp.ones(3))[0], 1 / (3 * y**2 + 2), rtol=1e-13)


def test_row_scales_have_no_derivative_and_solutions_the_right_one():
    """A maximum that is computed anew may be none: 0/0 where unoptimized code ran."""
    matrix, b = jnp.eye(4) + jnp.arange(16.0).reshape(4, 4) / 30, jnp.arange(4.0)

    def row_scales(a):
        return Dense().prepare(lambda v: jnp.dot(a, v), b)[0]

    def answer(a):
        dense, operator = Dense(), lambda v: jnp.dot(a, v)
        return dense.solve(dense.prepare(operator, b), operator, b)[0]

    modes = (jax.jacfwd, answer), (jax.jacrev, answer), (jax.jacfwd, row_scales)
    *slopes, rows = jax.jit(lambda a: [mode(f)(a) for mode, f in modes])(matrix)
    assert not np.any(rows)
    inverse = np.linalg.inv(matrix)
    exact = -inverse[:, :, None] * (inverse @ b)
    for slope in slopes:
        np.testing.assert_allclose(slope, exact, rtol=1e-12, atol=1e-14)
