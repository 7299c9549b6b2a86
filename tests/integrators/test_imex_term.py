"""`IMEXTerm`: dynamics with a direct solve for their stiff part."""

import dataclasses

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import implicit
from diffsim.integrators import KenCarp4, KenCarp5, Kvaerno5
from diffsim.simulations import AbstractSimulation, IMEXTerm, Method, simulate
from diffsim.verify import taylor_test


def cubic(w, theta):
    rhs, length, s = theta
    return w + length * s * w**3 - rhs


def solved(t, rhs, length, guess, args):
    """Kaps' stiff part: two entries in closed form, the third by Newton's method."""
    u, v, w = rhs
    u = (u + length * v**2 / args.epsilon) / (1 + length / args.epsilon)
    theta = (w, length, args.s)
    return jnp.stack([u, v, implicit.root(cubic, guess[2], theta, throw=False)])


@pytest.fixture(scope="module")
def split(kaps):
    """Kaps' problem as a `IMEXTerm`, and as two terms beside it."""

    class Known(type(kaps())):
        def terms(self):
            slow, fast = super().terms().terms
            return IMEXTerm(fast.vector_field, solved, explicit=slow.vector_field)

    def make(epsilon=1.0):
        given = kaps(epsilon, split=True)
        fields = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
        return Known(**fields), given

    return make


@pytest.mark.parametrize("epsilon", [1.0, 1e-6])
@pytest.mark.parametrize(
    "method", first_plain([Method(KenCarp4(), 0.05), Method(KenCarp5())])
)
def test_direct_implicit_solve_gives_the_states_of_newton(split, epsilon, method):
    given, two = split(epsilon)
    found, other = (simulate(s, [0.3, 1.0], method).states for s in (given, two))
    # The third entry is solved for to the tolerance of `root`.
    np.testing.assert_allclose(found, other, rtol=1e-8)
    # Outputs of adaptive runs lie on interpolants of order three.
    exact = np.exp([[-0.6, -0.3], [-2.0, -1.0]])
    np.testing.assert_allclose(found[:, :2], exact, rtol=2e-5 if method.step else 1e-6)


def run(simulation):
    return simulate(simulation, [0.3, 0.45], Method(KenCarp4(), 0.15)).states


@pytest.mark.slow
def test_direct_implicit_solve_gives_the_gradient_of_newton(split):
    gradients = [eqx.filter_grad(lambda s: jnp.sum(run(s) ** 2))(x) for x in split(0.1)]
    for a, b in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.slow
def test_derivatives_of_direct_implicit_solves_pass_the_taylor_test(split):
    report = taylor_test(run, split(0.1)[0])
    for name, slopes in report.slopes.items():
        assert slopes == pytest.approx({"forward": 2, "reverse": 2}, abs=0.1), name
    assert report.disagreement < 1e-10


class Decay(AbstractSimulation):
    """y' = −k y, all of it implicit; no solution at steps above `longest`."""

    k: jax.Array
    longest: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(2)

    def terms(self):
        def solve(t, rhs, length, guess, args):
            there = rhs / (1 + length * args.k)
            return jnp.where(jnp.abs(length) < args.longest, there, jnp.nan)

        return IMEXTerm(lambda t, y, args: -args.k * y, solve)

    def default_method(self):
        return Method(Kvaerno5())


def test_fully_implicit_term_runs_forward_and_backward_in_time():
    run = Decay(jnp.asarray(3.0), jnp.asarray(jnp.inf))
    times = np.array([-0.4, 0.2, 0.7])
    for method in (Method(Kvaerno5()), Method(Kvaerno5(), 0.02)):
        found = simulate(run, times, method).states[:, 0]
        np.testing.assert_allclose(found, np.exp(-3 * times), rtol=1e-6)


def test_derivative_by_output_time_on_and_off_the_grid_is_right():
    run = Decay(jnp.asarray(3.0), jnp.asarray(jnp.inf))
    method = Method(Kvaerno5(), 0.125, max_steps=8)
    found = jax.jacfwd(lambda t: simulate(run, t, method).states[:, 0])(
        jnp.array([0.25, 0.3])
    )
    exact = np.diag(-3 * np.exp([-0.75, -0.9]))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-12)


def test_failed_solve_shortens_an_adaptive_step_and_fails_a_fixed_step():
    run = Decay(jnp.asarray(3.0), jnp.asarray(0.005))
    controller = diffrax.PIDController(rtol=1e-6, atol=1e-6)
    found = simulate(run, 1.0, Method(Kvaerno5(), controller=controller))
    np.testing.assert_allclose(found.states, np.exp(-3.0), rtol=1e-5)
    assert found.stats["num_rejected_steps"] > 0
    failed = simulate(run, 1.0, Method(Kvaerno5(), 0.1), throw=False)
    assert "nonlinear" in str(failed.result) or np.all(np.isnan(failed.states))
    with pytest.raises(RuntimeError):
        simulate(run, 1.0, Method(Kvaerno5(), 0.1))
