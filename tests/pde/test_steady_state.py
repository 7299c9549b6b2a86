"""Steady states in finite volumes: closed forms and derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import diffsim as ds
from diffsim import RESULTS, implicit, pde
from diffsim.verify import taylor_test


class Fire(eqx.Module):
    """λ eᵘ."""

    strength: jax.Array

    def __call__(self, t, x, u):
        return self.strength * jnp.exp(u)


def rod(strength, n, start=0.0):
    """Bratu's problem: Δu + λ eᵘ = 0 between walls where u = 0."""
    fire = pde.Diffusion(1.0, Fire(jnp.asarray(strength)))
    grid = pde.Grid(n)
    return pde.Evolution(fire, start + jnp.zeros(n), grid, pde.Dirichlet(0.0))


def bratu_by_scipy(strength, n):
    """The discrete problem by tridiagonal Newton steps, and its derivative by λ."""
    bands = np.ones((3, n))
    bands[1] = -2
    bands[1, [0, -1]] = -3  # the ghost is the negative of the cell
    bands *= n**2
    u = np.zeros(n)
    for _ in range(20):
        left = bands[1] * u
        left[1:] += n**2 * u[:-1]
        left[:-1] += n**2 * u[1:]
        jacobian = bands.copy()
        jacobian[1] += strength * np.exp(u)
        u -= scipy.linalg.solve_banded((1, 1), jacobian, left + strength * np.exp(u))
    return u, scipy.linalg.solve_banded((1, 1), jacobian, -np.exp(u))


def bratu(strength, n, *, upper=False):
    """The closed form, in the centers of cells."""
    wide = np.sqrt(2 * strength)
    ends = (5.0, 30.0) if upper else (0.0, 4.0)
    theta = scipy.optimize.brentq(lambda s: s - wide * np.cosh(s / 4), *ends)
    x = (np.arange(n) + 0.5) / n
    return -2 * np.log(np.cosh((x - 0.5) * theta / 2) / np.cosh(theta / 4))


def weighted(n):
    """A smooth functional of u, by λ, and its weights."""
    x = pde.Grid(n).centers[0]
    w = jnp.exp(x) / n
    return lambda s: jnp.sum(w * pde.steady_state(rod(s, n), throw=False)[0]), w


@pytest.mark.slow
def test_bratu_solution_and_derivative_have_order_two():
    """Forward on the coarse and in reverse on the fine grid."""
    (coarse, _), (fine, _) = weighted(16), weighted(32)
    found = [
        jax.jit(lambda s: jax.jvp(coarse, (s,), (1.0,)))(2.0),
        jax.jit(jax.value_and_grad(fine))(2.0),
    ]
    errors, h = [], 1e-5
    for n, both in zip((16, 32), found, strict=True):
        w = weighted(n)[1]
        exact = [w @ a for a in bratu_by_scipy(2.0, n)]
        # All stop at a relative 2e-12.
        np.testing.assert_allclose(both, exact, rtol=1e-10)
        high, middle, low = (w @ bratu(s, n) for s in (2 + h, 2.0, 2 - h))
        errors.append([both[0] - middle, both[1] - (high - low) / (2 * h)])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2, atol=0.1)


def test_no_steady_state_beyond_fold_leaves_rest_of_batch_alone():
    w = weighted(16)[1]

    def solve(strength):
        found = pde.steady_state_solution(rod(strength, 16), throw=False)
        return jnp.sum(w * found.value[0]), found

    # The fold is at 3.5138, 3.51 on so many cells.
    strengths = jnp.array([1.0, 3.4, 4.0])
    solved = jax.jit(jax.vmap(jax.value_and_grad(solve, has_aux=True)))
    (_, found), slopes = solved(strengths)
    values, statuses, residuals = found.value[:, 0], found.status, found.residual
    np.testing.assert_array_equal(
        statuses == RESULTS.successful, np.array([True, True, False])
    )
    assert (statuses == RESULTS.no_steady_state)[2]
    assert np.all(np.isnan(values[2])) and np.all(residuals[:2] < 1e-11)
    for strength, value in zip(strengths[:2], values[:2], strict=True):
        # Nearer the fold what is left of a residual is 10 times as much of a state.
        exact = bratu_by_scipy(float(strength), 16)[0]
        np.testing.assert_allclose(value, exact, rtol=1e-10)
    # All stop at a relative 2e-12.
    np.testing.assert_allclose(slopes[0], w @ bratu_by_scipy(1.0, 16)[1], rtol=1e-10)
    assert np.isnan(slopes[2])
    assert "as beyond a fold" in RESULTS[RESULTS.no_steady_state]


def test_undetermined_steady_state_fails_with_result():
    def heated(source):
        heat = pde.Diffusion(0.1, source * jnp.ones(16))
        start = jnp.linspace(0.0, 1.0, 16)
        return pde.Evolution(heat, start, pde.Grid(16), pde.Neumann())

    for source, status in [
        (0.0, RESULTS.steady_state_not_determined),
        (1.0, RESULTS.no_steady_state),
    ]:
        found = pde.steady_state_solution(heated(source), throw=False)
        assert np.all(np.isnan(found.value)) and found.status == status
    at = lambda run: run.equation.diffusivity  # noqa: E731
    wrong = eqx.tree_at(at, heated(0.0), jnp.asarray(-0.1))
    found = pde.steady_state_solution(wrong, throw=False)
    assert found.status == RESULTS.invalid_parameter
    with pytest.raises(RuntimeError, match="Others may be right beside it"):
        pde.steady_state(heated(0.0))


@pytest.mark.slow
def test_linear_steady_state_matches_poisson():
    grid = pde.Grid((8, 6), (0.0, 0.2), (1.0, 1.4))
    x, y = grid.centers
    walls = (pde.Dirichlet(0.3), pde.Neumann(0.2)), pde.Neumann(-0.1)
    k, s = jnp.exp(jnp.sin(3 * x) + y), x - y**2
    plate = pde.Evolution(pde.Diffusion(k, s), x, grid, walls)
    found = pde.steady_state_solution(plate)
    exact = pde.poisson(s, plate.domain, coefficient=k)
    np.testing.assert_allclose(found.value[0], exact, rtol=1e-10)
    assert found.status == RESULTS.successful and found.iterations < 10


class Power(eqx.Module):
    """D of u that Kirchhoff's transform makes linear: ∫D du = (eᵃᵘ − 1)/a."""

    a: jax.Array

    def __call__(self, t, x, u):
        return jnp.exp(self.a * u)


@pytest.mark.slow
def test_nonlinear_diffusion_matches_kirchhoff_transform():
    """u = ln(1 + x (eᵃ − 1))/a between walls at 0 and 1, of order 2."""

    def errors(n):
        grid = pde.Grid((n, 4))
        walls = (pde.Dirichlet(0.0), pde.Dirichlet(1.0)), pde.Neumann()

        def field(a):
            heat = pde.Diffusion(Power(a))
            start = jnp.zeros(grid.shape)
            plate = pde.Evolution(heat, start, grid, walls)
            return pde.steady_state(plate, throw=False)[0]

        def exact(a):
            return jnp.log(1 + grid.centers[0] * (jnp.exp(a) - 1)) / a

        # Of a steeper one, e^{2u}, the same on 128 cells.
        found = jax.jit(lambda a: jax.jvp(field, (a,), (1.0,)))(0.5)
        wanted = jax.jvp(exact, (0.5,), (1.0,))
        return [np.abs(a - b).max() for a, b in zip(found, wanted, strict=True)]

    orders = np.log2(np.divide(errors(16), errors(32)))
    np.testing.assert_allclose(orders, 2, atol=0.1)


@pytest.mark.slow
def test_conductivity_rising_a_hundredfold_converges():
    grid = pde.Grid(64)
    walls = ((pde.Dirichlet(0.0), pde.Dirichlet(1.0)),)
    heat = pde.Diffusion(Power(jnp.asarray(5.0)))
    found = pde.steady_state(pde.Evolution(heat, jnp.zeros(64), grid, walls))[0]
    exact = np.log(1 + grid.centers[0] * np.expm1(5)) / 5
    # 1/12 Δx² u'''' is 0.03 in the first cell.
    np.testing.assert_allclose(found, exact, atol=0.03)


@pytest.mark.slow
def test_newton_krylov_finds_the_unstable_upper_branch():
    """Unstable, hence for a solver that does not go where time does."""
    middle = []
    for n in (32, 64):
        start = 4 * jnp.sin(jnp.pi * pde.Grid(n).centers[0])
        hot = rod(1.0, n, start)
        newton = implicit.NewtonKrylov()
        found = pde.steady_state(hot, solver=newton, attracting=False)[0]
        middle.append(np.abs(found - bratu(1.0, n, upper=True)).max())
    assert middle[1] < 1e-3
    np.testing.assert_allclose(np.log2(middle[0] / middle[1]), 2, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("below", "above"), [(6.7, 6.9)])
def test_fold_of_bratu_on_a_square_matches_literature(below, above):
    """At λ = 6.808124, and at 6.79 on 16² cells, below by Δx²."""
    grid = pde.Grid((16, 16))

    def status(strength):
        fire = pde.Diffusion(1.0, Fire(strength))
        plate = pde.Evolution(fire, jnp.zeros(grid.shape), grid, pde.Dirichlet(0.0))
        return pde.steady_state_solution(plate, throw=False).status

    found = jax.jit(jax.vmap(status))(jnp.array([below, above]))
    np.testing.assert_array_equal(found == RESULTS.successful, [True, False])


def front():
    """A population between an inhabited and a hostile wall."""
    grid = pde.Grid(24)
    walls = ((pde.Dirichlet(1.0), pde.Dirichlet(0.0)),)
    return pde.Evolution(pde.FisherKPP(0.01, 1.0), 0.1 + jnp.zeros(24), grid, walls)


@pytest.mark.slow
def test_long_run_approaches_the_steady_state():
    found = pde.steady_state(front())
    late = ds.simulate(front(), 60.0).states
    # What moves most slowly has decayed by e^-60; the tolerance of the run is 1e-8.
    np.testing.assert_allclose(found, late, atol=1e-6)


def layer():
    """u = (e^{vx/D} − 1)/(e^{v/D} − 1)."""
    grid = pde.Grid(64)
    D, x = 0.1, grid.centers[0]
    walls = ((pde.Dirichlet(0.0), pde.Dirichlet(1.0)),)
    law = pde.AdvectionDiffusion(D, 1.0, scheme=pde.Central())
    return pde.Evolution(law, 0 * x, grid, walls), np.expm1(x / D) / np.expm1(1 / D)


def shock():
    """u = −A tanh(A x/2ν)."""
    grid = pde.Grid(64, -1.0, 1.0)
    nu, x = 0.1, grid.centers[0]
    A = scipy.optimize.brentq(lambda A: A * np.tanh(A / (2 * nu)) - 1, 0.5, 2.0)
    walls = ((pde.Dirichlet(1.0), pde.Dirichlet(-1.0)),)
    return pde.Evolution(pde.Burgers(nu), -x, grid, walls), -A * np.tanh(A * x / 2 / nu)


def kink():
    """u = tanh(x √(r/2D)), held by walls that are near it: free ones wander."""
    grid = pde.Grid(64, -1.0, 1.0)
    x, wide = grid.centers[0], 0.1**0.5
    end = np.tanh(1 / wide)
    walls = ((pde.Dirichlet(-end), pde.Dirichlet(end)),)
    return pde.Evolution(pde.AllenCahn(0.05), x, grid, walls), np.tanh(x / wide)


def soup():
    """u = (1 − √(1 − 4 (F + k)²/F))/2, v = F (1 − u)/(F + k) everywhere."""
    F, k = 0.06, 0.05
    u = (1 - np.sqrt(1 - 4 * (F + k) ** 2 / F)) / 2
    exact = np.array([u, F * (1 - u) / (F + k)])[:, None, None] * np.ones((2, 8, 6))
    grid = pde.Grid((8, 6), 0.0, 0.1)
    start = exact + 0.02 * np.sin(np.arange(96.0)).reshape(2, 8, 6)
    return pde.Evolution(pde.GrayScott(F, k), start, grid), exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "error"), [(layer, 3e-3), (shock, 1e-4), (kink, 1e-3), (soup, 1e-11)]
)
def test_steady_states_match_closed_forms(case, error):
    """Up to the order of their schemes."""
    simulation, exact = case()
    found = pde.steady_state(simulation)
    np.testing.assert_allclose(np.squeeze(found), exact, atol=error)


def plate(dtype=jnp.float64):
    """Everything at once on a few cells."""
    grid = pde.Grid((5, 4), jnp.zeros(2, dtype), jnp.asarray([1.2, 1.0], dtype))
    warm = pde.Diffusion(Power(jnp.asarray(0.7)), Fire(jnp.asarray(1.5)))
    walls = (pde.Dirichlet(0.3), pde.Neumann(0.2)), pde.Robin(1.0, 0.4, 0.1)
    return pde.Evolution(warm, jnp.zeros(grid.shape, dtype), grid, walls)


@pytest.mark.slow
def test_gradients_are_correct_for_every_parameter():
    def state(equation, boundary, grid):
        start = jnp.zeros(grid.shape)
        other = pde.Evolution(equation, start, grid, boundary)
        return pde.steady_state(other, throw=False)

    given = plate()
    found = taylor_test(state, given.equation, given.boundary, given.grid)
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "no effect" for leaf in found.leaves)


@pytest.mark.slow
def test_initial_guess_has_no_derivative():
    def total(start):
        other = eqx.tree_at(lambda p: p.initial, plate(), start)
        return jnp.sum(pde.steady_state(other, throw=False) ** 2)

    np.testing.assert_array_equal(jax.grad(total)(plate().initial), 0)


@pytest.mark.slow
def test_compiled_and_batched_states_match_single_ones():
    def total(a):
        other = eqx.tree_at(lambda p: p.equation.diffusivity.a, plate(), a)
        return jnp.sum(pde.steady_state(other, throw=False) ** 3)

    slope = jax.value_and_grad(total)
    a = jnp.array([0.4, 0.7])
    together = jax.jit(jax.vmap(slope))(a)
    alone = [jax.jit(slope)(x) for x in a]
    # Iterations stop at 2e-12, on other paths of rounding.
    np.testing.assert_allclose(together, np.transpose(alone), rtol=1e-10)
    np.testing.assert_allclose(slope(a[0]), alone[0], rtol=1e-10)


@pytest.mark.slow
def test_second_derivatives_match_differences_of_first_ones():
    def total(p):
        other = eqx.tree_at(
            lambda s: (s.equation.diffusivity.a, s.equation.source.strength),
            plate(),
            (p[0], p[1]),
        )
        return jnp.sum(pde.steady_state(other, throw=False) ** 3)

    slope = jax.grad(total)

    @jax.jit
    def derivatives(p):
        forward, found = jax.jacfwd(lambda p: (slope(p),) * 2, has_aux=True)(p)
        return found, forward, jax.jacrev(slope)(p)

    p, h = jnp.array([0.7, 1.5]), 1e-5
    moved = [[derivatives(p + s * e)[0] for s in (h, -h)] for e in jnp.eye(2)]
    exact = jnp.stack([(ahead - behind) / (2 * h) for ahead, behind in moved])
    for hessian in derivatives(p)[1:]:
        # The differences are good to h² and to rounding over h.
        np.testing.assert_allclose(hessian, exact, rtol=1e-7)


@pytest.mark.slow
def test_precision_is_that_of_the_guess():
    half = pde.steady_state(plate(jnp.float32))
    assert half.dtype == jnp.float32
    np.testing.assert_allclose(half, pde.steady_state(plate()), rtol=1e-5)


@pytest.mark.slow
def test_coefficients_are_fitted_through_steady_states():
    """Inside `fit` a trial beyond the fold is NaN and not the end of it."""

    def predict(fire):
        simulation = pde.Evolution(
            pde.Diffusion(1.0, fire), jnp.zeros(16), pde.Grid(16), pde.Dirichlet(0.0)
        )
        return pde.steady_state(simulation)

    data = predict(Fire(jnp.asarray(3.0)))
    noise = ds.inference.Gaussian(0.01)
    found = ds.fit(predict, Fire(jnp.asarray(0.5)), data, noise=noise)
    np.testing.assert_allclose(found.model.strength, 3.0, rtol=1e-6)
