"""Symplectic solvers on an eccentric orbit, whose closed form is known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.integrators import (
    KahanLi6,
    KahanLi8,
    Leapfrog,
    SymmetricComposition,
    Yoshida4,
    Yoshida6,
    Yoshida8,
)
from diffsim.problems import kepler_orbit
from diffsim.simulations import Separable


_ECCENTRICITY = 0.5
_START = kepler_orbit(0.0, _ECCENTRICITY)
_ENERGY = -0.5  # of an orbit of axis 1
_TERMS = Separable(
    lambda t, v, args: v, lambda t, x, args: -x / jnp.linalg.norm(x) ** 3
)
_SUZUKI = SymmetricComposition.from_half([1 / (4 - 4 ** (1 / 3))] * 2)
_SOLVERS = (
    *(Leapfrog(), Yoshida4(), _SUZUKI),
    *(Yoshida6(), KahanLi6(), Yoshida8(), KahanLi8()),
)
every_solver = pytest.mark.parametrize(
    "solver", _SOLVERS, ids=lambda s: type(s).__name__
)


def one_step(solver, phase, h):
    """One step of a planar phase (x, v) by the face that Diffrax sees."""
    y, *_ = solver.step(
        _TERMS, jnp.zeros(()), h, (phase[:2], phase[2:]), None, None, False
    )
    return jnp.concatenate(y)


@functools.cache
def runner(solver):
    """`run(phase, h, steps)`: its end, and the largest energy error on the way.

    Compiled once for every step and length.
    """

    @jax.jit
    def run(phase, h, steps):
        def one(i, carry):
            phase, worst = carry
            phase = one_step(solver, phase, h)
            return phase, jnp.maximum(worst, jnp.abs(energy(phase) / _ENERGY - 1))

        return jax.lax.fori_loop(0, steps, one, (jnp.asarray(phase), 0.0))

    return run


def energy(phase):
    return 0.5 * phase[2:] @ phase[2:] - 1 / jnp.linalg.norm(phase[:2])


@every_solver
def test_the_observed_order_is_the_order(solver):
    order, end = solver.order(_TERMS), 3.0
    # Steps at which each is past its transient and above rounding.
    coarse = {2: 400, 4: 400, 6: 150, 8: 20}[order]
    coarse = 120 if isinstance(solver, Yoshida8) else coarse
    errors = []
    for steps in (coarse, 2 * coarse):
        found, _ = runner(solver)(_START, end / steps, steps)
        errors.append(np.max(np.abs(found - kepler_orbit(end, _ECCENTRICITY))))
    assert errors[1] > 1e-13, "rounding"
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


@every_solver
def test_the_energy_error_is_bounded_over_a_thousand_periods(solver):
    phase, early = runner(solver)(_START, 2 * np.pi / 100, 10_000)
    for _ in range(9):
        phase, late = runner(solver)(phase, 2 * np.pi / 100, 10_000)
    # A drift with time would make the last hundred periods ten times the first;
    # rounding walks off by 1e-16 times the root of 1e5 steps.
    assert late < 1.1 * early + 1e-13
    assert early < {2: 1e-2, 4: 1e-2, 6: 1e-4, 8: 1e-4}[solver.order(_TERMS)]


@every_solver
def test_run_forward_and_back_ends_where_it_began(solver):
    there, _ = runner(solver)(_START, 0.02, 2000)
    assert np.max(np.abs(there - _START)) > 0.1
    back, _ = runner(solver)(there, -0.02, 2000)
    # rounding of 4000 steps, which the orbit shears: 1e-13 a hundred radians away
    np.testing.assert_allclose(back, _START, atol=2e-11)


@every_solver
def test_the_map_is_symplectic(solver):
    unit = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [-1, 0, 0, 0], [0, -1, 0, 0.0]])

    @jax.jit
    @jax.jacfwd
    def tangent(phase):
        return jax.lax.fori_loop(0, 20, lambda i, y: one_step(solver, y, 0.05), phase)

    at = jnp.asarray(kepler_orbit(1.0, _ECCENTRICITY))
    phi = np.asarray(tangent(at))
    assert np.max(np.abs(phi - np.eye(4))) > 0.5
    np.testing.assert_allclose(phi.T @ unit @ phi, unit, atol=1e-12)


@every_solver
def test_weights_sum_to_one_and_are_palindromic(solver):
    # Published to 15 digits and more; the middle one closes the sum.
    assert sum(solver.weights) == pytest.approx(1, abs=2e-15)
    assert solver.weights == solver.weights[::-1]
    assert solver.evaluations == len(solver.weights)


@pytest.mark.parametrize("solver", _SOLVERS[3:], ids=lambda s: type(s).__name__)
def test_weights_satisfy_the_order_conditions(solver):
    # Conditions of order 4 and 6 on a symmetric composition of leapfrogs (Yoshida
    # 1990): the sums of third and of fifth powers vanish.
    for power in (3, 5):
        # Yoshida's fifteen are published to 15 digits of numbers up to 2.
        assert abs(sum(w**power for w in solver.weights)) < 1e-12


def test_a_composition_of_many_stages_is_a_program_of_one():
    def accelerations(solver):
        program = jax.make_jaxpr(lambda h: one_step(solver, jnp.asarray(_START), h))(
            0.1
        )
        return str(program).count("integer_pow[y=3]")

    assert accelerations(KahanLi8()) == accelerations(Leapfrog()) == 1
