"""Ascher's methods and Crank–Nicolson's: implicit stages at fixed steps."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.integrators import ARS222, ARS443, CrankNicolson
from diffsim.simulations import IMEXTerm


ASCHER = [ARS222, ARS443]
EVERY = [*ASCHER, CrankNicolson]
#: ARS222 is as much to compile and differs by coefficients alone.
SOME = [pytest.param(ARS222, marks=pytest.mark.slow), ARS443, CrankNicolson]
ORDERS = [(ARS443, 3), (CrankNicolson, 2), (ARS222, 2)]


class Growth(ds.AbstractSimulation):
    """y' = k y − s y², of which k y is stiff; for one that is `whole` all of it is."""

    k: jax.Array
    s: jax.Array
    whole: bool = eqx.field(static=True, default=False)
    #: By Newton's method, which knows nothing of the parts.
    plain: bool = eqx.field(static=True, default=False)
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones_like(self.k)

    def terms(self):
        def slow(t, y, args):
            return -args.s * y**2

        def fast(t, y, args):
            return args.k * y

        def both(t, y, args):
            return fast(t, y, args) + slow(t, y, args)

        if self.plain and self.whole:
            return diffrax.ODETerm(both)
        if self.plain:
            return diffrax.MultiTerm(diffrax.ODETerm(slow), diffrax.ODETerm(fast))
        return (
            IMEXTerm(both, _root)
            if self.whole
            else IMEXTerm(fast, _line, explicit=slow)
        )

    def default_method(self):
        return ds.Method(ARS443(), step=0.1)


def _line(t, rhs, length, guess, args):
    return rhs / (1 - length * args.k)


def _root(t, rhs, length, guess, args):
    """Of the parabola length s y² + (1 − length k) y = rhs."""
    b = 1 - length * args.k
    return 2 * rhs / (b + jnp.sqrt(b**2 + 4 * length * args.s * rhs))


K = np.array([0.7, -1.5, -40.0])


def growth(solver, s=0.8, k=K, *, plain=False):
    whole = solver is CrankNicolson
    return Growth(jnp.asarray(k), jnp.asarray(s), whole, plain)


def exact(s, t):
    return jnp.exp(K * t) / (1 + s / K * (jnp.exp(K * t) - 1))


def ran(solver, s, t, step):
    run = growth(solver, s, jnp.asarray(K, jnp.result_type(s)))
    return ds.simulate(run, t, ds.Method(solver(), step)).states


@pytest.mark.parametrize(("solver", "order"), first_plain(ORDERS, 2))
def test_errors_of_values_and_derivatives_fall_at_the_order(solver, order):
    def errors(step):
        given = (0.8,), (1.0,)
        found = jax.jvp(lambda s: ran(solver, s, 1.5, step), *given)
        known = jax.jvp(lambda s: exact(s, 1.5), *given)
        return np.abs(np.subtract(found, known))

    coarse, fine = errors(1 / 64), errors(1 / 128)
    np.testing.assert_allclose(np.log2(coarse / fine)[:, :2], order, atol=0.1)
    # What is stiff has decayed, or is (1 + z/2)/(1 − z/2) a step: 0.52 to the 96th.
    assert np.all(coarse[:, 2] < 1e-12)


def full(tableau):
    """Both matrices with their diagonals, as they are published."""
    diagonal = np.diag(np.arange(tableau.stages) > 0)
    return tableau.implicit + tableau.gamma * diagonal, tableau.explicit


def test_coefficients_are_the_published_ones():
    """Sections 2.6 and 2.8 of Ascher, Ruuth and Spiteri."""
    gamma = (2 - np.sqrt(2)) / 2
    delta = 1 - 1 / (2 * gamma)
    implicit, explicit = full(ARS222.tableau)
    np.testing.assert_allclose(
        implicit, [[0, 0, 0], [0, gamma, 0], [0, 1 - gamma, gamma]], rtol=1e-15
    )
    np.testing.assert_allclose(
        explicit, [[0, 0, 0], [gamma, 0, 0], [delta, 1 - delta, 0]], rtol=1e-15
    )
    implicit, explicit = full(ARS443.tableau)
    np.testing.assert_allclose(ARS443.tableau.nodes, [0, 1 / 2, 2 / 3, 1 / 2, 1])
    np.testing.assert_allclose(implicit[-1], [0, 3 / 2, -3 / 2, 1 / 2, 1 / 2])
    np.testing.assert_allclose(explicit[-1], [1 / 4, 7 / 4, 3 / 4, -7 / 4, 0])


@pytest.mark.parametrize(("solver", "order"), ORDERS)
def test_coefficients_satisfy_the_order_conditions(solver, order):
    """Those of each part, and those that couple them."""
    tableau = solver.tableau
    parts = [a for a in full(tableau) if a is not None]
    weights = [tableau.weights, tableau.explicit_weights][: len(parts)]
    c = tableau.nodes
    for a in parts:
        np.testing.assert_allclose(a.sum(axis=1), c, atol=1e-15)
    for b, a in zip(weights, parts, strict=True):
        np.testing.assert_allclose([b.sum(), b @ c], [1, 1 / 2], rtol=1e-15)
        np.testing.assert_array_equal(a[-1], b)
        if order == 3:
            coupled = [b @ other @ c for other in parts]
            np.testing.assert_allclose([b @ c**2, *coupled], [1 / 3, 1 / 6, 1 / 6])


def multiplier(solver, z):
    """R(z) = 1 + z b (1 − z A)⁻¹ 1 of the implicit part."""
    a, b = full(solver.tableau)[0], solver.tableau.weights
    ones = np.ones(len(b))
    return 1 + z * b @ np.linalg.solve(np.eye(len(b)) - z * a, ones)


@pytest.mark.parametrize("solver", EVERY)
def test_implicit_parts_are_a_stable_and_ars_is_l_stable(solver):
    axis = [abs(multiplier(solver, 1j * y)) for y in np.geomspace(1e-2, 1e3, 50)]
    assert max(axis) <= 1 + 1e-12
    far = abs(multiplier(solver, -1e8))
    assert far == pytest.approx(1.0) if solver is CrankNicolson else far < 1e-7


def driven(t, y, args):
    return jnp.cos(2 * t) - 0.3 * y**2


@pytest.mark.parametrize("solver", EVERY)
def test_two_steps_match_the_butcher_tableau(solver):
    """By NumPy, from the published form, with a clock in both parts."""
    k, h, t = np.array([1.0, 50.0]), 0.2, 0.4
    split = solver is not CrankNicolson

    class Driven(Growth):
        t0: float = t

        def terms(self):
            def fast(t, y, args):
                return -args.k * y + jnp.sin(3 * t)

            def solve(t, rhs, length, guess, args):
                return (rhs + length * jnp.sin(3 * t)) / (1 + length * args.k)

            return IMEXTerm(fast, solve, explicit=driven if split else None)

    a, hat = full(solver.tableau)
    b, bhat = solver.tableau.weights, solver.tableau.explicit_weights
    y = np.ones(2)
    for n in range(2):
        stages, others = [], []
        for i, node in enumerate(solver.tableau.nodes):
            now = t + (n + node) * h
            base = y + h * sum((a[i, j] * stages[j] for j in range(i)), np.zeros(2))
            if split:
                base = base + h * sum((hat[i, j] * others[j] for j in range(i)), 0 * y)
            z = (base + h * a[i, i] * np.sin(3 * now)) / (1 + h * a[i, i] * k)
            stages.append(-k * z + np.sin(3 * now))
            others.append(np.cos(2 * now) - 0.3 * z**2)
        y = y + h * (b @ stages + (bhat @ others if split else 0))
    found = ds.simulate(
        Driven(jnp.asarray(k), jnp.asarray(0.0)), t + 2 * h, ds.Method(solver(), h)
    )
    np.testing.assert_allclose(found.states, y, rtol=1e-13)


@pytest.mark.parametrize("solver", first_plain([CrankNicolson, ARS443, ARS222]))
def test_newton_and_direct_stage_solves_give_the_same_steps(solver):
    method = ds.Method(solver(), 0.1)
    times = [-0.2, 0.13, 0.5]
    runs = [
        ds.simulate(growth(solver, k=K[:2], plain=plain), times, method).states
        for plain in (False, True)
    ]
    # The tolerance of a stage is 2e-12 of it.
    np.testing.assert_allclose(*runs, rtol=1e-11)


class Notes(list):
    """A list that may be static: JAX hashes it."""

    __hash__ = object.__hash__


@pytest.mark.parametrize("solver", SOME)
def test_step_evaluates_the_implicit_solve_once_a_stage(solver):
    """The last slopes of a step are the first ones of the next."""
    solved, moved = Notes(), Notes()

    class Counted(Growth):
        def terms(self):
            inner = Growth.terms(self)

            def solve(*given):
                jax.debug.callback(lambda _: solved.append(1), given[0])
                return inner.solve(*given)

            def explicit(*given):
                jax.debug.callback(lambda _: moved.append(1), given[0])
                return inner.explicit(*given)

            known = None if self.whole else explicit
            return IMEXTerm(inner.implicit, solve, explicit=known)

    given = growth(solver)
    run = Counted(given.k, given.s, given.whole)
    ds.simulate(run, 1.0, ds.Method(solver(), 0.1)).states.block_until_ready()
    jax.effects_barrier()
    stages = solver.tableau.stages - 1
    assert len(solved) == 10 * stages
    assert len(moved) == (0 if given.whole else 10 * stages + 1)


@pytest.mark.parametrize("solver", SOME)
def test_stage_derivatives_are_recomputed_after_a_jump(solver):
    run, y = growth(solver), jnp.asarray([1.0, 0.3, 2.0])
    t, terms = jnp.asarray([0.0, 0.1]), growth(solver).terms()
    fresh = solver().init(terms, *t, y, run)
    stale = solver().init(terms, *t, 3 * y, run)

    def step(memory, jumped):
        return solver().step(terms, *t, y, run, memory, jumped)[0]

    expected = step(fresh, jnp.asarray(False))
    for jumped in (True, jnp.asarray(True)):
        np.testing.assert_allclose(step(stale, jumped), expected, rtol=1e-14)
    assert not np.allclose(step(stale, False), expected)


def heat(D, space, n=8):
    grid = pde.Grid(n, 0.0, 2 * np.pi)
    wave = jnp.cos(2 * grid.centers[0])
    return pde.Evolution(pde.Diffusion(D), wave, grid, discretization=space)


@pytest.mark.parametrize(
    "space",
    [
        pytest.param(pde.FiniteVolume(), id="cells"),
        pytest.param(pde.Fourier(), id="modes", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("solver", first_plain([CrankNicolson, ARS443, ARS222]))
def test_fourier_mode_decays_by_the_stability_function(solver, space):
    """(1 + z/2)/(1 − z/2) a step for Crank–Nicolson, value and derivative by D."""
    n, h, steps, D = 8, 0.3, 5, 0.7
    dx = 2 * np.pi / n
    rate = -4.0 if isinstance(space, pde.Fourier) else 2 * (np.cos(2 * dx) - 1) / dx**2

    def after(D):
        run = heat(D, space)
        return ds.simulate(run, steps * h, ds.Method(solver(), h)).states[0]

    def factor(z):
        if solver is CrankNicolson:
            return (1 + z / 2) / (1 - z / 2)
        return multiplier(solver, z)

    z, wave = h * D * rate, heat(D, space).initial[0]
    (value, forward), reverse = jax.jit(
        lambda D: (jax.jvp(after, (D,), (1.0,)), jax.jacrev(after)(D))
    )(D)
    np.testing.assert_allclose(value, factor(z) ** steps * wave, atol=1e-12)
    small = 1e-6
    slope = (factor(z + small) - factor(z - small)) / (2 * small)
    if solver is CrankNicolson:
        slope = 1 / (1 - z / 2) ** 2
    slope = steps * factor(z) ** (steps - 1) * slope * z / D * wave
    # Of the others the multiplier is differentiated by differences.
    atol = 1e-10 if solver is CrankNicolson else 1e-8
    for derivative in (forward, reverse):
        np.testing.assert_allclose(derivative, slope, atol=atol)


@pytest.mark.slow
def test_dense_output_in_diffrax_has_the_order_of_the_solver():
    adjoint = diffrax.RecursiveCheckpointAdjoint()
    run, t = growth(ARS443, k=K[:2]), np.array([0.137, 0.5])
    errors = [
        ds.simulate(run, t, ds.Method(ARS443(), h, adjoint=adjoint)).states
        - np.stack([exact(0.8, s)[:2] for s in t])
        for h in (1 / 16, 1 / 32)
    ]
    # Hermite's cubic is of order 4 beside the 3 of the step; t moves in it, too.
    assert np.max(np.abs(errors[1])) < np.max(np.abs(errors[0])) / 6


@pytest.mark.parametrize("solver", first_plain([CrankNicolson, ARS443, ARS222]))
def test_single_precision_stays_single(solver):
    found = ran(solver, jnp.float32(0.8), 0.5, 0.05)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, ran(solver, 0.8, 0.5, 0.05), atol=2e-6)
