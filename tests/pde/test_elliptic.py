"""Elliptic problems: the discrete operator, inverted and differentiated."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from rows import first_plain

from diffsim import RESULTS, pde
from diffsim._results import failures_as_nan
from diffsim.implicit import CG, GMRES, Krylov
from diffsim.pde._elliptic._differentiable_solve import solve_elliptic
from diffsim.pde._elliptic._helmholtz_operator import helmholtz_operator


NAMES = "periodic", "DD", "DN", "ND", "NN", "OI", "RD", "NR", "RR"
MULTIGRID_CG = pde.PreconditionedKrylov(pde.Multigrid())


def by_matrix(f, domain, alpha, k):
    """By SciPy: A from α u − ∇·(k ∇u), what it makes of zero on the other side."""
    shape = domain.grid.shape

    def operator(u):
        return alpha * u - pde.diffusion(u, k, domain)

    made = jax.jit(lambda u: (operator(u), jax.jacfwd(operator)(u)))(jnp.zeros(shape))
    matrix = np.asarray(made[1]).reshape(f.size, f.size)
    right = np.ravel(f - made[0])
    if np.all(matrix.sum(1) == 0) or np.abs(matrix.sum(1)).max() < 1e-10:
        # Only differences are determined: the mean is zero, by one more equation.
        one = np.ones((1, f.size))
        matrix = np.block([[matrix, one.T], [one, np.zeros((1, 1))]])
        right = np.append(right, 0)
    u = scipy.sparse.linalg.spsolve(scipy.sparse.csc_matrix(matrix), right)
    return u[: f.size].reshape(shape)


def check(elliptic, domain, alpha, k, solver):
    f = elliptic.source(domain.grid.shape)
    if isinstance(alpha, float) and alpha == 0:
        f = elliptic.balance(f, domain, k)
    u = pde.helmholtz(f, domain, alpha=alpha, coefficient=k, solver=solver, throw=True)
    exact = by_matrix(f, domain, alpha, k)
    # Iterations stop at residuals of 2e-12.
    np.testing.assert_allclose(u, exact, rtol=0, atol=1e-10 * np.abs(exact).max())


def test_solution_matches_sparse_matrix(elliptic):
    domain = elliptic.plate(elliptic.boundaries["periodic"], elliptic.boundaries["RD"])
    k, alpha = elliptic.coefficients(domain.grid)
    check(elliptic, domain, 0.0, 1.3, None)
    check(elliptic, domain, alpha, k, None)


#: Every kind beside two others, and what leaves a constant open beside itself.
BESIDE = [
    *itertools.pairwise([*NAMES, "periodic"]),
    ("periodic", "periodic"),
    ("NN", "NN"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), BESIDE)
def test_solution_matches_sparse_matrix_for_all_boundaries(elliptic, first, second):
    domain = elliptic.plate(elliptic.boundaries[first], elliptic.boundaries[second])
    k, alpha = elliptic.coefficients(domain.grid)
    check(elliptic, domain, 0.0, 1.3, None)
    check(elliptic, domain, 2.0, 1.3, None)
    check(elliptic, domain, 0.0, k, None)
    check(elliptic, domain, alpha, k, None)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [pde.Multigrid(), MULTIGRID_CG])
@pytest.mark.parametrize(
    ("first", "second"), [("periodic", "OI"), ("NN", "NN"), ("RR", "DN")]
)
def test_multigrid_solution_matches_sparse_matrix(elliptic, first, second, solver):
    domain = elliptic.plate(
        elliptic.boundaries[first], elliptic.boundaries[second], (16, 12)
    )
    k, alpha = elliptic.coefficients(domain.grid)
    check(elliptic, domain, 0.0, 1.3, solver)
    check(elliptic, domain, 0.0, k, solver)
    check(elliptic, domain, alpha, k, solver)


@pytest.mark.parametrize("walls", first_plain(["periodic", "RD", "NN"], 2))
def test_lines_are_solved_by_tridiagonal_elimination(elliptic, walls):
    domain = pde.Domain(pde.Grid(7, 0.1, 0.9), (elliptic.boundaries[walls],))
    k, alpha = elliptic.coefficients(domain.grid)
    check(elliptic, domain, alpha if walls == "RD" else 0.0, k, None)


@pytest.mark.slow
def test_three_dimensional_problems_are_solved(elliptic):
    grid = pde.Grid((4, 6, 5), 0.0, (1.0, 1.4, 0.9))
    domain = pde.Domain(
        grid,
        (
            elliptic.boundaries["periodic"],
            elliptic.boundaries["DN"],
            elliptic.boundaries["RR"],
        ),
    )
    k, alpha = elliptic.coefficients(grid)
    check(elliptic, domain, 0.0, 1.3, None)
    check(elliptic, domain, alpha, k, None)
    check(elliptic, domain, alpha, k, MULTIGRID_CG)


def test_nonsymmetric_ghosts_are_solved_by_gmres(elliptic):
    domain = elliptic.plate(
        (elliptic.Cubic(), elliptic.Cubic()), elliptic.boundaries["DN"]
    )
    k, alpha = elliptic.coefficients(domain.grid)
    check(elliptic, domain, alpha, k, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver", [None, pde.PreconditionedKrylov(krylov=Krylov(GMRES()))]
)
def test_robin_boundaries_of_opposite_signs_are_solved(elliptic, solver):
    domain = elliptic.plate(
        (pde.Robin(-8.0, 1.0, 0.1), pde.Dirichlet(0.2)), elliptic.boundaries["DN"]
    )
    check(elliptic, domain, 0.0, 1.3, solver)


@pytest.mark.parametrize("n", [1, 2])
def test_robin_boundaries_of_opposite_signs_are_solved_on_few_cells(n):
    """On one cell: (α - 2 (a - 1)/Δx²) u = f + 2 b g/Δx², as a ghost is a u + b g."""
    ends = pde.Domain(pde.Grid(n), (pde.Robin(-1.0, 1.0, 0.1), pde.Neumann(0.3)))

    def excess(u):
        return 0.5 * u - pde.laplacian(u, ends) - 1

    exact = np.linalg.solve(jax.jacfwd(excess)(jnp.zeros(n)), -excess(jnp.zeros(n)))
    if n == 1:
        np.testing.assert_allclose(exact, -(1 + 0.2 + 0.3) / (2 - 0.5), rtol=1e-14)
    found = pde.helmholtz(jnp.ones(n), ends, alpha=0.5)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_leading_axes_are_independent_problems(elliptic):
    domain = elliptic.plate(
        (pde.Dirichlet(jnp.array([0.1, -0.2])), pde.Neumann()),
        elliptic.boundaries["periodic"],
    )
    f = elliptic.source((2, 8, 6))
    found = pde.helmholtz(f, domain, alpha=0.3)
    for i, value in enumerate((0.1, -0.2)):
        alone = elliptic.plate(
            (pde.Dirichlet(value), pde.Neumann()), elliptic.boundaries["periodic"]
        )
        one = pde.helmholtz(f[i], alone, alpha=0.3)
        np.testing.assert_allclose(found[i], one, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_precision_is_that_of_the_right_hand_side(elliptic):
    domain = elliptic.plate(elliptic.boundaries["periodic"], elliptic.boundaries["RD"])
    k, alpha = elliptic.coefficients(domain.grid)
    f = elliptic.source((8, 6))
    full = pde.helmholtz(f, domain, alpha=alpha, coefficient=k)
    f = f.astype(jnp.float32)
    half = pde.helmholtz(f, domain, alpha=alpha, coefficient=k)
    assert half.dtype == jnp.float32
    np.testing.assert_allclose(half, full, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "solver", first_plain([pde.FastDiagonalization(), pde.TridiagonalElimination()])
)
def test_direct_solvers_leave_residual_at_machine_precision(elliptic, solver):
    line = isinstance(solver, pde.TridiagonalElimination)
    shape = (256,) if line else (96, 128)
    grid = pde.Grid(shape)
    domain = pde.Domain(
        grid, (elliptic.boundaries["RD"], elliptic.boundaries["DN"])[: len(shape)]
    )
    f = elliptic.source(shape)
    u = pde.poisson(f, domain, solver=solver)
    left = -pde.diffusion(u, 1.0, domain) - f
    size = 4 * len(shape) * max(shape) ** 2 * jnp.max(jnp.abs(u))
    assert jnp.max(jnp.abs(left)) < 1e-13 * size


def test_incompatible_data_raise(elliptic):
    domain = elliptic.plate(elliptic.boundaries["NN"], elliptic.boundaries["periodic"])
    f = elliptic.source((8, 6))
    with pytest.raises(ValueError, match="f and the boundary values must balance"):
        pde.poisson(f, domain)
    with pytest.raises(Exception, match="do not balance"):
        jax.block_until_ready(jax.jit(lambda f: pde.poisson(f, domain))(f))
    with failures_as_nan():
        assert np.all(np.isnan(pde.poisson(f, domain)))
    found = pde.poisson_solution(f, domain, throw=False)
    assert found.status == RESULTS.incompatible_data
    assert np.all(np.isnan(found.value))
    # Rounding is none of it, nor an α that is small.
    assert np.all(np.isfinite(pde.poisson(elliptic.balance(f, domain), domain)))
    u = pde.helmholtz(f, domain, alpha=1e-6)
    passing = pde.diffusion(jnp.zeros_like(f), 1.0, domain)
    np.testing.assert_allclose(jnp.mean(u), jnp.mean(f + passing) / 1e-6, rtol=1e-6)


@pytest.mark.parametrize("batch", first_plain([((2, 2),), ((3,),), ((1,),)]))
def test_incompatible_field_leaves_the_rest_of_its_batch_alone(elliptic, batch):
    domain = elliptic.plate(elliptic.boundaries["NN"], elliptic.boundaries["periodic"])
    count = int(np.prod(batch))
    fields = [
        elliptic.balance(elliptic.source((8, 6), seed), domain) for seed in range(count)
    ]
    alone = jnp.stack([pde.poisson(f, domain) for f in fields])
    f = jnp.stack(fields).at[-1].add(1.0).reshape(*batch, 8, 6)
    found = pde.poisson_solution(f, domain, throw=False)
    value = found.value.reshape(count, 8, 6)
    np.testing.assert_allclose(value[:-1], alone[:-1], rtol=1e-12, atol=1e-14)
    assert np.all(np.isnan(value[-1]))
    assert found.residual.shape == found.iterations.shape == batch
    status = np.ravel(found.status == RESULTS.incompatible_data)
    np.testing.assert_array_equal(status, np.arange(count) == count - 1)
    last = ", ".join(str(n - 1) for n in batch)
    sentence = rf"f\[{last}\] and the boundary values .* balance"
    with pytest.raises(ValueError, match=sentence):
        pde.poisson(f, domain)
    with pytest.raises(Exception, match="do not balance"):
        jax.block_until_ready(jax.jit(lambda f: pde.poisson(f, domain))(f))


@pytest.mark.slow
def test_batch_axes_are_as_vmap(elliptic):
    """Values, derivatives and statuses; one field unbalanced, one not finite."""
    domain = elliptic.plate(elliptic.boundaries["NN"], elliptic.boundaries["periodic"])
    k, _ = elliptic.coefficients(domain.grid)
    f = jnp.stack(
        [
            elliptic.balance(elliptic.source((8, 6), seed), domain, k)
            for seed in range(4)
        ]
    )
    f = f.at[1].add(1.0).at[2, 0, 0].set(jnp.nan)

    def solve(f):
        return pde.poisson_solution(f, domain, coefficient=k, throw=False)

    good = jnp.array([0, 3])

    def total(f):
        found = solve(f)
        return jnp.sum(found.value[good] ** 2), found

    (_, together), gradient = jax.jit(jax.value_and_grad(total, has_aux=True))(f)
    each = jax.vmap(solve)(f)
    np.testing.assert_allclose(together.value, each.value, rtol=1e-10, atol=1e-12)
    for name in ("successful", "incompatible_data", "non_finite"):
        item = getattr(RESULTS, name)
        np.testing.assert_array_equal(together.status == item, each.status == item)
    assert list(map(bool, together.status == RESULTS.successful)) == [1, 0, 0, 1]
    assert np.all(np.isfinite(gradient[good]))


def test_residual_is_relative_to_each_field_of_a_batch(elliptic):
    """Beside one 1e12 times as large, what is left of it would seem rounding."""
    domain = elliptic.plate(pde.Neumann(), elliptic.boundaries["periodic"])
    k, _ = elliptic.coefficients(domain.grid)
    solver = pde.PreconditionedKrylov(krylov=Krylov(CG(), max_steps=1))
    rough = elliptic.balance(elliptic.source((8, 6)), domain, k)
    f = jnp.stack([1e12 * pde.diffusion(rough, k, domain), rough])
    options = {"coefficient": k, "solver": solver, "throw": False}
    alone = pde.poisson_solution(rough, domain, **options)
    assert alone.status == RESULTS.no_linear_solution
    found = pde.poisson_solution(f, domain, **options)
    assert (found.status == RESULTS.no_linear_solution)[1]
    np.testing.assert_allclose(found.residual[1], alone.residual, rtol=1e-9)


@pytest.mark.slow
def test_solution_of_singular_problem_has_zero_mean(elliptic):
    domain = elliptic.plate(elliptic.boundaries["NN"], elliptic.boundaries["periodic"])
    k, _ = elliptic.coefficients(domain.grid)
    for c in (1.3, k):
        f = elliptic.balance(elliptic.source((8, 6)), domain, c)
        u = pde.poisson(f, domain, coefficient=c)
        assert abs(jnp.mean(u)) < 1e-13 * jnp.max(jnp.abs(u))


def test_derivative_of_singular_problem_uses_projected_operator(elliptic):
    """du = −A⁺ P (dα u), also where α du has a mean."""
    domain = elliptic.plate(
        elliptic.boundaries["NN"], elliptic.boundaries["periodic"], (4, 6)
    )
    f = elliptic.balance(elliptic.source((4, 6)), domain)
    change = elliptic.source((4, 6), 1)

    def solved(alpha):
        return pde.helmholtz(f, domain, alpha=alpha, throw=False)

    u, du = jax.jit(lambda a: jax.jvp(solved, (a,), (change,)))(jnp.zeros((4, 6)))
    closed = elliptic.plate(pde.Neumann(), pde.Periodic(), (4, 6))
    operator = jax.jit(jax.jacfwd(lambda u: -pde.diffusion(u, 1.0, closed)))
    matrix = operator(u).reshape(24, 24)
    exact = -np.linalg.pinv(matrix, rcond=1e-10) @ np.ravel(change * u)
    np.testing.assert_allclose(np.ravel(du), exact, atol=1e-11)


def test_guess_saves_iterations_and_changes_no_derivative(elliptic):
    domain = elliptic.plate(elliptic.boundaries["DN"], elliptic.boundaries["periodic"])
    k, alpha = elliptic.coefficients(domain.grid)
    b = elliptic.source((8, 6))

    def solved(b, guess):
        system = helmholtz_operator(domain, k, alpha, b.dtype, regular=True)
        return solve_elliptic(system, b, solver=pde.PreconditionedKrylov(), guess=guess)

    u, steps = jax.jit(solved)(b, None)
    again, fewer = jax.jit(solved)(b, u)
    assert steps > 5 and fewer <= 1
    np.testing.assert_allclose(again, u, rtol=1e-10)
    guess, along = 0.9 * u, elliptic.source((8, 6), 1)

    @jax.jit
    def slopes(b, guess):
        cold = jax.jvp(lambda b: solved(b, None)[0], (b,), (along,))
        warm = jax.jvp(lambda b: solved(b, guess)[0], (b,), (along,))
        dead = jax.jvp(lambda g: solved(b, g)[0], (guess,), (along,))
        return cold[1], warm[1], dead[1]

    cold, warm, dead = slopes(b, guess)
    np.testing.assert_allclose(cold, warm, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(dead, 0)


def test_failures_have_results(elliptic):
    domain = elliptic.plate(elliptic.boundaries["DN"], elliptic.boundaries["RR"])
    k, _ = elliptic.coefficients(domain.grid)
    f = elliptic.source((8, 6))
    late = pde.PreconditionedKrylov(krylov=Krylov(CG(), max_steps=2))
    found = pde.poisson_solution(f, domain, coefficient=k, solver=late, throw=False)
    assert found.status == RESULTS.no_linear_solution
    assert np.all(np.isnan(found.value))
    found = pde.poisson_solution(f.at[0, 0].set(jnp.inf), domain, throw=False)
    assert found.status == RESULTS.non_finite
    found = pde.poisson_solution(f, domain)
    assert found.status == RESULTS.successful
    assert found.residual < 1e-11


def test_fast_diagonalization_refuses_boundaries_that_are_not_symmetric(elliptic):
    wide = pde.Domain(pde.Grid((4, 6)), elliptic.Cubic())
    with pytest.raises(ValueError, match="take Preconditioned"):
        pde.poisson(np.ones((4, 6)), wide, solver=pde.FastDiagonalization())


def test_batched_problems_match_single_ones_without_jit():
    """Where one of what is judged is batched and the other is not."""
    domain = pde.Domain(pde.Grid((4, 5)), pde.Dirichlet())
    f = jnp.arange(1.0, 4.0)[:, None, None] * jnp.ones((3, 4, 5))
    found = jax.vmap(lambda f: pde.poisson(f, domain))(f)
    each = jnp.stack([pde.poisson(a, domain) for a in f])
    np.testing.assert_allclose(found, each, rtol=1e-13)
