"""Exponential integrators: exact linear part, order of the nonlinear one."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim.integrators import ETDRK2, ETDRK4
from diffsim.integrators._exponential._phi import phi_functions
from diffsim.simulations import Semilinear


class Logistic(ds.AbstractSimulation):
    """y' = k y − s y², in coordinates that are twice as large; k stiff or not."""

    k: jax.Array
    s: jax.Array
    start: jax.Array
    t0: float = 0.0
    handed_on: bool = eqx.field(static=True, default=False)

    def initial_state(self):
        return self.start

    def terms(self):
        return Semilinear(
            self.k,
            lambda t, z, args: -args.s * z**2 / 2,
            forward=lambda y: 2 * y,
            backward=lambda z: z / 2,
            projection=(lambda z: z) if self.handed_on else None,
        )

    def default_method(self):
        return ds.Method(ETDRK4(), step=0.1)


K = np.array([1.0, -2.0, -30.0, 0.0])


def logistic(s=0.7):
    given = (K, s, np.ones(4))
    return Logistic(*(jnp.asarray(a, float) for a in given))


def exact(t, s=0.7):
    k = np.where(K == 0, 1, K)
    growth = np.exp(k * t)
    curve = growth / (1 + s / k * (growth - 1))
    return np.where(K == 0, 1 / (1 + s * t), curve)


@pytest.mark.parametrize(("solver", "order"), [(ETDRK2(), 2), (ETDRK4(), 4)])
def test_errors_fall_at_the_order(solver, order):
    def error(step):
        found = ds.simulate(logistic(), 1.5, ds.Method(solver, step)).states
        return np.abs(found - exact(1.5))

    slopes = np.log2(error(0.025) / error(0.0125))[[0, 1, 3]]
    np.testing.assert_allclose(slopes, order, atol=0.1)
    # Stiff: what is left of it decays, whatever the step.
    assert error(0.1)[2] < 1e-3


@pytest.mark.parametrize("solver", first_plain([ETDRK4(), ETDRK2()]))
def test_linear_part_is_exact_to_machine_precision(solver):
    found = ds.simulate(logistic(0.0), [-0.15, 0.37, 1.0], ds.Method(solver, 0.1))
    times = np.array([-0.15, 0.37, 1.0])
    np.testing.assert_allclose(found.states, np.exp(np.outer(times, K)), rtol=1e-13)


def test_off_grid_steps_equal_precomputed_grid_steps():
    method = ds.Method(ETDRK4(), 0.2)
    on_grid = ds.simulate(logistic(), 0.2, method).states
    aside = ds.simulate(logistic(), [0.2 - 1e-15, 0.4], method).states[0]
    np.testing.assert_allclose(on_grid, aside, rtol=1e-13)


@pytest.mark.parametrize("adjoint", first_plain([None, ds.simulations.Checkpointed()]))
def test_stepping_in_transformed_variables_gives_the_same_run(adjoint):
    """At outputs on the grid and off it, before and after, known and traced."""
    times = np.array([-0.15, -0.1, 0.0, 0.1, 0.37, 1.0])
    system = logistic()
    pair = system, dataclasses.replace(system, handed_on=True)
    method = ds.Method(ETDRK2(), 0.1, adjoint=adjoint)

    def squares(system):
        states = ds.simulate(system, times, method).states
        return jnp.sum(states**2), states

    both = eqx.filter_jit(eqx.filter_value_and_grad(squares, has_aux=True))
    ((_, plain), slopes), ((_, transformed), others) = map(both, pair)
    np.testing.assert_allclose(transformed, plain, rtol=1e-14)
    for a, b in zip(*map(jax.tree.leaves, (others, slopes)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    bounded = ds.Method(ETDRK2(), 0.1, max_steps=12)
    at = jax.jit(lambda times: ds.simulate(pair[1], times, bounded).states)
    np.testing.assert_allclose(at(jnp.asarray(times)), plain, rtol=1e-13)


def test_phi_functions_are_accurate_to_machine_precision():
    """Beside their power series in extended precision, and their quotients far out."""
    z = np.concatenate([np.linspace(-3, 3, 61), [-1e-9, 1e-300, -1e3]])
    z = np.concatenate([z, 1j * z, (1 + 1j) * z[:61]])
    wide = z.astype(np.clongdouble)
    ours = jax.jit(phi_functions, static_argnums=1)
    for k, found in enumerate(map(np.asarray, ours(z, 3))):
        total, term = np.zeros_like(wide), np.ones_like(wide)
        for j in range(1, k + 1):
            term = term / j
        for j in range(60):
            total = total + term
            term = term * wide / (j + k + 1)
        near = np.abs(z) <= 5
        np.testing.assert_allclose(found[near], total[near].astype(complex), rtol=2e-14)
    far = ours(-1e3, 2)
    np.testing.assert_allclose(far, [0, 1e-3, (1 - 1e-3) / 1e3], rtol=1e-14)


def test_derivatives_of_phi_functions_are_right_across_zero():
    slopes = jax.vmap(jax.grad(lambda z: phi_functions(z, 3)[3]))(
        jnp.array([-1e-3, 0.0, 1.0])
    )
    series = [
        sum(j * z ** (j - 1) / _factorial(j + 3) for j in range(1, 25))
        for z in (-1e-3, 0.0, 1.0)
    ]
    np.testing.assert_allclose(slopes, series, rtol=1e-13)


def _factorial(n):
    return float(np.prod(np.arange(1.0, n + 1)))
