"""Kennedy and Carpenter's methods: an explicit and an implicit part."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

from diffsim.implicit import Diagonal, Tridiagonal
from diffsim.integrators import KenCarp3, KenCarp4, KenCarp5
from diffsim.simulations import Method, simulate
from diffsim.verify import convergence, taylor_test


SOLVERS = [KenCarp3, KenCarp4, KenCarp5]


def final(simulation, time, method):
    return simulate(simulation, time, method).states


@pytest.mark.parametrize(
    ("solver", "steps"),
    [
        pytest.param(KenCarp3, 32, marks=pytest.mark.slow),
        (KenCarp4, 16),
        pytest.param(KenCarp5, 8, marks=pytest.mark.slow),
    ],
)
def test_observed_order_is_the_order(kaps, solver, steps):
    exact = final(kaps(), 1.0, Method(diffrax.Dopri8(), 1 / 256))
    found = convergence(
        lambda h: final(kaps(split=True), 1.0, Method(solver(), h)),
        [1 / steps, 1 / (2 * steps), 1 / (4 * steps)],
        exact=exact,
    )
    assert found.order == pytest.approx(solver().order(None), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_steps_and_states_are_those_of_diffrax(kaps, solver):
    simulation = kaps(1e-2, split=True, start=(0.5, 1.0, 0.5))
    theirs = getattr(diffrax, solver.__name__)(root_finder=optx.Newton(1e-9, 1e-9))
    # Clipped, as otherwise ours would end at the outputs.
    controller = diffrax.ClipStepSizeController(
        diffrax.PIDController(rtol=1e-6, atol=1e-6)
    )
    times = np.linspace(0.1, 2, 5)
    adjoint = diffrax.RecursiveCheckpointAdjoint()
    ours, other = (
        simulate(simulation, times, Method(s, controller=controller, adjoint=adjoint))
        for s in (solver(), theirs)
    )
    assert ours.stats["num_steps"] == other.stats["num_steps"]
    # Their Newton method stops at 1e-9; measured 9e-10.
    np.testing.assert_allclose(ours.states, other.states, rtol=0, atol=3e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_leaf_has_its_derivative_in_both_modes(kaps, solver):
    simulation = kaps(0.05, split=True, start=(0.8, 1.0, 0.5))
    times, method = np.array([0.13, 0.4]), Method(solver(), 0.1)
    report = taylor_test(lambda s: simulate(s, times, method), simulation)
    assert set(report.slopes) == {"epsilon", "start", "s"}
    for leaf in report.leaves:
        assert leaf.flag == "", (leaf.name, leaf.flag)
        assert leaf.slopes == pytest.approx({"forward": 2, "reverse": 2}, abs=0.1)
    assert report.disagreement < 1e-10


@pytest.mark.slow
def test_both_modes_agree_under_adaptive_steps(kaps):
    controller = diffrax.PIDController(rtol=1e-5, atol=1e-5)
    method = Method(KenCarp3(), controller=controller, max_steps=32)

    def run(start):
        simulation = kaps(0.05, split=True, start=start)
        return simulate(simulation, np.array([-0.2, 0.3]), method).states

    start = jnp.asarray([0.8, 1.0, 0.5])
    both = jax.jit(lambda start: (jax.jacfwd(run)(start), jax.jacrev(run)(start)))
    forward, reverse = both(start)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-12)


def test_fisher_kpp_follows_its_travelling_wave(diffusion):
    r"""Fisher–KPP: $u = (1 + e^{z/\sqrt6})^{-2}$ with $z = x - 5t/\sqrt6$."""
    n, length = 400, 60.0
    dx = length / (n + 1)
    x = np.arange(1, n + 1) * dx - 20

    def exact(t, x):
        return (1 + np.exp((x - 5 * t / np.sqrt(6)) / np.sqrt(6))) ** -2.0

    class Wave(type(diffusion(3))):
        def terms(self):
            def spread(t, u, args):
                u = jnp.concatenate([jnp.ones(1), u, jnp.zeros(1)])
                return args.d * jnp.diff(u, 2) / dx**2

            return diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, u, args: args.e * u * (1 - u)),
                diffrax.ODETerm(spread),
            )

    wave = Wave(jnp.asarray(1.0), jnp.asarray(1.0), jnp.asarray(exact(0, x)))
    # Explicit steps would be bounded by dx²/2 = 0.011.
    found = final(wave, 4.0, Method(KenCarp4(linear_solver=Tridiagonal()), 0.2))
    # Second order in space, (dx/2)²/12 of a profile of width one: measured 2e-3.
    np.testing.assert_allclose(found, exact(4.0, x), atol=5e-3)


def test_linear_solver_sees_the_jacobian_of_the_implicit_part_alone(kaps):
    simulation = kaps(0.1, split=True)

    class Decoupled(type(simulation)):
        def terms(self):
            stiff = jnp.asarray([50.0, 20.0, 1.0])
            return diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, y, args: jnp.roll(jnp.sin(y), 1)),
                diffrax.ODETerm(
                    lambda t, y, args: -stiff * (y + 0.1 * jnp.sin(args.s * y))
                ),
            )

    given = Decoupled(simulation.epsilon, simulation.start, simulation.s)

    def loss(simulation, method):
        return jnp.sum(final(simulation, 0.3, method) ** 2)

    runs = [
        eqx.filter_jit(eqx.filter_value_and_grad(loss))(given, Method(solver, 0.05))
        for solver in (KenCarp3(), KenCarp3(linear_solver=Diagonal()))
    ]
    for a, b in zip(*map(jax.tree.leaves, runs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
