"""SSPRK3: order, convex combination of Euler steps, error estimate, dense output."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim.integrators import SSPRK3


class Logistic(ds.AbstractSimulation):
    """u' = r u (1 − u)."""

    r: jax.Array
    u0: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.u0

    def terms(self):
        return diffrax.ODETerm(lambda t, u, args: args.r * u * (1 - u))

    def default_method(self):
        return ds.Method(SSPRK3())


GROWTH = Logistic(jnp.asarray(1.3), jnp.asarray([0.1, 0.3]))


def exact(t):
    return 1 / (1 + (1 / np.asarray(GROWTH.u0) - 1) * np.exp(-float(GROWTH.r) * t))


def errors(times, method):
    states = ds.simulate(GROWTH, times, method).states
    return np.max(np.abs(states - exact(times[:, None])))


def test_ssprk3_is_of_order_three():
    times = np.array([2.0])
    coarse, fine = (errors(times, ds.Method(SSPRK3(), step=h)) for h in (0.1, 0.05))
    assert abs(np.log2(coarse / fine) - 3) < 0.1


def test_step_is_the_shu_osher_convex_combination_of_euler_steps():
    """Shu and Osher's form."""
    f, h, u = lambda u: GROWTH.r * u * (1 - u), 0.4, GROWTH.u0
    first = u + h * f(u)
    second = (3 * u + first + h * f(first)) / 4
    third = (u + 2 * (second + h * f(second))) / 3
    step = ds.simulate(GROWTH, h, ds.Method(SSPRK3(), step=h)).states
    np.testing.assert_allclose(step, third, rtol=1e-14)


def test_embedded_error_estimate_controls_adaptive_steps():
    controller = diffrax.PIDController(rtol=1e-6, atol=1e-9)
    method = ds.Method(SSPRK3(), controller=controller)
    assert errors(np.array([2.0]), method) < 1e-5
    weights = SSPRK3.tableau.b_sol - SSPRK3.tableau.b_error
    nodes = np.append(0, SSPRK3.tableau.c)
    np.testing.assert_allclose(
        [np.sum(weights), np.sum(weights * nodes)], [1, 0.5], atol=1e-15
    )


def test_outputs_between_adaptive_steps_are_of_order_two():
    """The error of one parabola falls with the third power of its length."""
    times = np.linspace(0.02, 0.98, 9)
    controller = diffrax.ConstantStepSize()

    def worst(h):
        method = ds.Method(SSPRK3(), step=h, controller=controller)
        return errors(times * 0.96, method)

    assert abs(np.log2(worst(0.48) / worst(0.24)) - 3) < 0.3


@pytest.mark.slow
def test_derivatives_of_adaptive_runs_are_those_of_frozen_steps():
    method = ds.Method(SSPRK3(), controller=diffrax.PIDController(1e-6, 1e-9))
    frozen = method.freeze_steps(ds.simulate(GROWTH, 1.0, method))

    def final(r):
        return ds.simulate(Logistic(r, GROWTH.u0), 1.0, frozen).states

    forward, reverse = jax.jacfwd(final)(GROWTH.r), jax.jacrev(final)(GROWTH.r)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    slope = jax.jacfwd(lambda r: 1 / (1 + (1 / GROWTH.u0 - 1) * jnp.exp(-r)))(GROWTH.r)
    np.testing.assert_allclose(forward, slope, rtol=1e-5)
