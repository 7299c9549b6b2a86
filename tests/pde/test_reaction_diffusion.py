"""Reaction–diffusion in finite volumes and in Fourier space, beside closed forms."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from rows import first_plain

import diffsim as ds
from diffsim import pde
from diffsim.integrators import ETDRK2, ETDRK4, KenCarp4, Kvaerno3
from diffsim.verify import check_simulation


def front(D, r, t, x):
    """Ablowitz and Zeppetella's: u = (1 + e^{z/√6})^−2."""
    z = jnp.sqrt(r / D) * x - 5 / jnp.sqrt(6) * r * t
    return (1 + jnp.exp(z / jnp.sqrt(6))) ** -2


def test_fisher_front_matches_closed_form_with_derivative():
    def error(n):
        grid = pde.Grid(n, -8.0, 14.0)

        def end(D):
            walls = [pde.Dirichlet(lambda t, x: front(D, 0.8, t, x[0])) for _ in "ab"]
            start = front(D, 0.8, 0.0, grid.centers[0])
            run = pde.Evolution(pde.FisherKPP(D, 0.8), start, grid, (tuple(walls),))
            return ds.simulate(run, 2.0, ds.Method(diffrax.Heun(), 0.005)).states[0]

        found = jax.jit(lambda D: jax.jvp(end, (D,), (1.0,)))(1.3)
        there = lambda D: front(D, 0.8, 2.0, grid.centers[0])  # noqa: E731
        exact = jax.jit(lambda D: jax.jvp(there, (D,), (1.0,)))(1.3)
        return [np.max(np.abs(a - b)) for a, b in zip(found, exact, strict=True)]

    np.testing.assert_allclose(np.log2(np.divide(error(64), error(128))), 2, atol=0.1)


@pytest.mark.parametrize("space", first_plain([pde.FiniteVolume(), pde.Fourier()]))
def test_uniform_fields_only_react(space):
    grid = pde.Grid((4, 4))
    start, t, r = 0.3, 0.7, 1.7
    run = pde.Evolution(
        pde.AllenCahn(0.1, r), jnp.full(grid.shape, start), grid, discretization=space
    )
    found = ds.simulate(run, t, ds.Method(KenCarp4(), 0.01)).states
    exact = start / np.sqrt(start**2 + (1 - start**2) * np.exp(-2 * r * t))
    np.testing.assert_allclose(found, exact, rtol=1e-8)


@pytest.mark.slow
def test_allen_cahn_interface_has_tanh_profile():
    """The steady profile of the discrete equation is that of order two in Δx."""

    def error(n):
        grid = pde.Grid(n, -6.0, 6.0)
        profile = jnp.tanh(grid.centers[0] * np.sqrt(1.4 / (2 * 0.8)))
        run = pde.Evolution(pde.AllenCahn(0.8, 1.4), profile, grid, pde.Neumann())
        end = ds.simulate(run, 2.0, ds.Method(KenCarp4(), 0.1)).states[0]
        return np.max(np.abs(end - profile))

    assert abs(np.log2(error(48) / error(96)) - 2) < 0.1


def test_patterns_grow_at_rates_of_the_jacobian():
    feed, kill, spreading = 0.04, 0.05, jnp.array([2e-5, 1e-5])
    u = (1 + np.sqrt(1 - 4 * (feed + kill) ** 2 / feed)) / 2
    v = feed * (1 - u) / (feed + kill)
    grid, k, t = pde.Grid(24, 0.0, 0.5), 2 * np.pi / 0.5 * 3, 5.0
    wave = jnp.cos(k * grid.centers[0])
    seed = 1e-9 * np.array([1.0, 0.4])
    start = jnp.array([u, v])[:, None] + seed[:, None] * wave
    run = pde.Evolution(
        pde.GrayScott(feed, kill, tuple(spreading)),
        start,
        grid,
        discretization=pde.Fourier(),
    )
    found = ds.simulate(run, t, ds.Method(ETDRK4(), 0.05)).states - start
    matrix = np.array(
        [[-feed - v**2, -2 * u * v], [v**2, 2 * u * v - feed - kill]]
    ) - np.diag(spreading * k**2)
    change = scipy.linalg.expm(matrix * t) @ seed - seed
    # Differences of numbers of order one to 1e-16 of them, 1e-7 of the seed.
    np.testing.assert_allclose(found, change[:, None] * wave, atol=1e-6 * 1e-9)


def test_waves_decay_exactly_in_fourier_modes():
    grid = pde.Grid((16, 12), 0.0, (2.0, 3.0))
    x, y = grid.centers
    k, m = 2 * np.pi * 3 / 2.0, 2 * np.pi * 2 / 3.0
    wave = jnp.cos(k * x) * jnp.sin(m * y)

    def end(D):
        run = pde.Evolution(pde.Diffusion(D), wave, grid, discretization=pde.Fourier())
        return ds.simulate(run, 0.1, ds.Method(ETDRK2(), 0.05)).states[0]

    rate = -(k**2 + m**2)
    exact = np.exp(rate * 0.2 * 0.1) * wave
    np.testing.assert_allclose(end(0.2), exact, atol=1e-13)
    np.testing.assert_allclose(jax.jacfwd(end)(0.2), rate * 0.1 * exact, atol=1e-12)


def plate(diffusivity, **options):
    grid = pde.Grid((6, 5), (0.0, 0.1), (1.0, 0.9))
    x, y = grid.centers
    walls = (
        (pde.Dirichlet(0.3), pde.Neumann(0.2)),
        (pde.Robin(1.0, 0.4, 0.1), pde.Outflow()),
    )
    equation = pde.Diffusion(diffusivity, **options)
    return pde.Evolution(equation, jnp.sin(3 * x) + y, grid, walls)


KINDS = {
    "number": 0.1,
    "field": 0.1 + 0.02 * jnp.arange(30.0).reshape(6, 5),
    "function": lambda t, x, u: 0.1 + 0.05 * u**2 + 0.1 * t,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    KINDS,
)
def test_implicit_steps_agree_with_many_explicit_ones(kind):
    run = plate(KINDS[kind], source=0.2)
    exact = ds.simulate(run, 0.2, ds.Method(diffrax.Heun(), 2e-4)).states
    found = ds.simulate(run, 0.2)
    np.testing.assert_allclose(found.states, exact, atol=2e-7)
    # A rate that reads the time is looked at a hundred times.
    assert found.stats["num_steps"] < (102 if kind == "function" else 40)


def test_fully_implicit_solver_works_without_source():
    run = plate(KINDS["field"])
    exact = ds.simulate(run, 0.2, ds.Method(diffrax.Heun(), 2e-4)).states
    found = ds.simulate(run, 0.2, ds.Method(Kvaerno3(), 0.004)).states
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_every_channel_diffuses_by_its_own_coefficient():
    grid = pde.Grid((6, 5))
    u = jnp.asarray(np.random.default_rng(0).normal(size=(2, 6, 5)))
    walls = pde.Domain(grid, pde.Neumann())
    field = 1 + grid.centers[0]
    for pair in [(0.3, 0.7), (0.3, field), (0.3, KINDS["function"])]:
        equation = pde.GrayScott(0.0, 0.0, pair)
        implicit = jax.jit(lambda u, e=equation: e.implicit(0.0, u, walls))
        rates = implicit(u)
        for found, k, a in zip(rates, pair, u, strict=True):
            mean = "arithmetic" if callable(k) else "harmonic"
            k = k(0.0, grid.centers, a) if callable(k) else k
            expected = pde.diffusion(a, k, walls, face_mean=mean)
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        solve = jax.jit(
            lambda u, e=equation: e.solve(0.0, u, jnp.asarray(0.01), u, walls)
        )
        z = solve(u)
        back = z - 0.01 * implicit(z)
        np.testing.assert_allclose(back, u, atol=1e-11)


SMALL = pde.Grid((4, 3))


def small(name):
    rng = np.random.default_rng(1)
    one, two = (
        jnp.asarray(rng.uniform(0.2, 1, (2, 4, 3))),
        jnp.asarray(rng.uniform(0.2, 1, (2, 4, 3))),
    )
    walls = (pde.Neumann(0.1), (pde.Dirichlet(0.4), pde.Robin(1.0, 0.5, 0.2)))
    if name == "gray-scott":
        return pde.Evolution(pde.GrayScott(0.3, 0.2, (0.1, 0.05)), two, SMALL, walls)
    if name == "allen-cahn":
        equation = pde.AllenCahn(0.1, 1.3)
        return pde.Evolution(equation, one[0], SMALL, discretization=pde.Fourier())
    capacity = jnp.asarray(rng.uniform(1, 2, (4, 3)))
    equation = pde.FisherKPP(capacity / 10, 0.9, capacity)
    return pde.Evolution(equation, one[0], SMALL, walls)


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_gradients_are_correct_for_every_parameter():
    method = ds.Method(ETDRK2(), 0.02)
    check_simulation(small("allen-cahn"), [0.02, 0.04], method).raise_if_failed()
