"""Elliptic solvers: eigenvectors, V-cycles and preconditioners."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import pde
from diffsim.pde._elliptic._helmholtz_operator import (
    PreparedOperator,
    helmholtz_operator,
)
from diffsim.pde._elliptic._multigrid import (
    coarsen,
    prolong,
    restrict,
    transfer_weights,
)
from diffsim.pde._elliptic._tensor_eigenbasis import eigenvectors_1d


MULTIGRID_CG = pde.PreconditionedKrylov(pde.Multigrid())


@pytest.mark.parametrize("beta", first_plain([1e-20, 0.0]))
def test_robin_without_slope_is_dirichlet_to_machine_precision(beta):
    grid, f = pde.Grid((6, 5)), np.ones((6, 5))

    def found(alpha):
        return pde.poisson(f, pde.Domain(grid, pde.Robin(alpha, beta)), throw=False)

    alphas = jnp.asarray(np.random.default_rng(0).uniform(0.1, 10.0, 200))
    exact = pde.poisson(f, pde.Domain(grid, pde.Dirichlet()))
    np.testing.assert_allclose(jax.vmap(found)(alphas), [exact] * 200, rtol=1e-12)


@pytest.mark.parametrize(
    "solver", first_plain([pde.Multigrid(), pde.PreconditionedKrylov()])
)
def test_solution_scales_with_tiny_and_huge_data(solver):
    """In float32 their squares are zero and infinite."""
    # More cells than are solved for directly.
    grid = pde.Grid((48, 48), np.zeros(2, np.float32), np.ones(2, np.float32))
    x, y = grid.centers
    cold, f = pde.Domain(grid, pde.Dirichlet()), jnp.sin(5 * x) * jnp.cos(3 * y)

    def found(size):
        k = 1 + 0.5 * jnp.sin(3 * x + y)
        return pde.poisson(size * f, cold, coefficient=k, solver=solver) / size

    one = found(jnp.float32(1))
    assert one.dtype == jnp.float32
    for size in (1e-30, 1e-18, 1e18, 1e30):
        scaled = found(jnp.float32(size))
        np.testing.assert_allclose(scaled, one, atol=2e-6 * np.max(np.abs(one)))
    np.testing.assert_array_equal(found(jnp.float32(1)) * 0, 0 * f)


@pytest.mark.parametrize("n", first_plain([1, 5, 64], 2))
@pytest.mark.parametrize(
    ("kinds", "low", "high"),
    [
        (("even", "even"), 1.0, 1.0),
        (("odd", "odd"), -1.0, -1.0),
        (("even", "odd"), 1.0, -1.0),
        (("odd", "even"), -1.0, 1.0),
        (("other", "odd"), 0.4, -1.0),
        (("even", "other"), 1.0, 0.0),
        (("other", "other"), 0.99, -0.7),
        (("other", "other"), 1.0, 1.0),
        (("other", "odd"), -1.0, -1.0),
    ],
)
def test_eigenvectors_are_orthonormal_and_diagonalize_second_differences(
    kinds, low, high, n
):
    walls = tuple(jnp.full((1, 1), a) for a in (low, high))
    vectors, values = eigenvectors_1d(kinds, walls, n, jnp.float64)
    matrix = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    matrix[0, 0] -= low
    matrix[-1, -1] -= high
    # Phases of up to n π are rounded.
    tolerance = 4e-16 * (n + 4)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=tolerance)
    product = matrix @ vectors.T
    np.testing.assert_allclose(product, vectors.T * values, atol=4 * tolerance)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=tolerance)


def plate(n, walls, contrast=1.0, wave=5.0):
    grid = pde.Grid((n, n))
    x, y = grid.centers
    k = jnp.exp(np.log(contrast) / 2 * jnp.sin(wave * x + 1) * jnp.cos(wave * y))
    domain = pde.Domain(grid, walls)
    return domain, k if contrast > 1 else jnp.asarray(1.0)


@pytest.mark.parametrize(
    "walls",
    [
        (pde.Dirichlet(), (pde.Neumann(), pde.Robin(1.0, 0.3))),
        pytest.param(pde.Periodic(), marks=pytest.mark.slow),
    ],
)
def test_v_cycle_reduces_error_sixfold(walls):
    domain, k = plate(32, walls)
    cycle = pde.Multigrid(1)

    @jax.jit
    def sizes(x):
        system = helmholtz_operator(domain, k, 0.0, jnp.float64)
        known = PreparedOperator(system, cycle.prepare(system))

        def step(x, _):
            x = x - cycle.apply_preconditioner(known, system(x))
            return x, jnp.sqrt(jnp.sum(x * system(x)))

        return jax.lax.scan(step, system.project_mean_free(x), None, length=12)[1]

    found = sizes(jax.random.normal(jax.random.key(0), (32, 32)))
    assert (found[-1] / found[-5]) ** 0.25 < 0.165


def test_restriction_is_transpose_of_prolongation():
    domain = pde.Domain(
        pde.Grid((16, 12)), (pde.Periodic(), (pde.Dirichlet(), pde.Robin(1.0, 0.2)))
    )
    k = 10.0 ** np.random.default_rng(0).uniform(-3, 3, (16, 12))
    system = helmholtz_operator(domain, k, 0.0, jnp.float64)
    smaller, weights = coarsen(system), transfer_weights(system)
    assert smaller.shape == (8, 6)
    keys = jax.random.split(jax.random.key(0))
    fine, rough = (
        jax.random.normal(key, shape)
        for key, shape in zip(keys, ((16, 12), (8, 6)), strict=True)
    )
    restricted = jax.jit(lambda u: restrict(u, system, weights))(fine)
    prolonged = jax.jit(lambda u: prolong(u, system, weights))(rough)
    left = np.sum(np.asarray(restricted) * np.asarray(rough)) * 4
    right = np.sum(np.asarray(fine) * np.asarray(prolonged))
    np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize(
    "solver", first_plain([pde.FastDiagonalization(), pde.Multigrid()])
)
def test_preconditioners_are_symmetric_positive_definite(solver):
    grid = pde.Grid((16, 6), 0.0, (1.0, 0.7))
    walls = (pde.Dirichlet(), pde.Robin(1.0, 0.3))
    domain = pde.Domain(grid, (walls, pde.Periodic()))
    x, y = grid.centers

    @jax.jit
    def inverse(columns):
        system = helmholtz_operator(domain, jnp.exp(3 * x * y), y, jnp.float64)
        known = PreparedOperator(system, solver.prepare(system))
        return jax.vmap(
            lambda e: solver.apply_preconditioner(known, e.reshape(16, 6)).ravel()
        )(columns)

    matrix = np.asarray(inverse(jnp.eye(96)))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-14 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix).min() > 0


def iterations(n, solver, contrast, wave=5.0):
    domain, k = plate(n, (pde.Dirichlet(), pde.Neumann()), contrast, wave)
    f = jax.random.normal(jax.random.key(0), (n, n))
    found = pde.poisson_solution(f, domain, coefficient=k, solver=solver)
    return int(found.iterations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "contrast", "most"),
    [
        (pde.PreconditionedKrylov(), 1000.0, 24),
        (pde.Multigrid(), 1.0, 17),
        (pde.Multigrid(), 1000.0, 25),
        (MULTIGRID_CG, 1.0, 11),
        (MULTIGRID_CG, 1000.0, 13),
    ],
)
def test_iterations_are_independent_of_resolution(solver, contrast, most):
    found = [iterations(n, solver, contrast) for n in (32, 128)]
    assert max(found) <= most
    assert abs(found[1] - found[0]) <= 2
