"""Stiff problems of the literature, and stages without a solution."""

from collections.abc import Callable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from diffsim import RESULTS
from diffsim.integrators import Kvaerno5
from diffsim.simulations import AbstractSimulation, Method, simulate


class Published(AbstractSimulation):
    """A problem of the literature: `rate(y, parameters)` and where it starts."""

    parameters: jax.Array
    start: jax.Array
    rate: Callable = eqx.field(static=True)
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: args.rate(y, args.parameters))

    def default_method(self):
        return Method(Kvaerno5())


def robertson(y, k):
    first, second, third = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return jnp.stack([third - first, first - third - second, second])


def hires(y, k):
    """Of 8 species of plant physiology: E. Schäfer, J. Math. Biol. 2 (1975) 41."""
    del k
    meeting = 280 * y[5] * y[7]
    return jnp.stack(
        [
            -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
            1.71 * y[0] - 8.75 * y[1],
            -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
            8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
            -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
            -meeting + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
            meeting - 1.81 * y[6],
            -meeting + 1.81 * y[6],
        ]
    )


def van_der_pol(y, k):
    return jnp.stack([y[1], ((1 - y[0] ** 2) * y[1] - y[0]) * k[0]])


def answer(simulation, time, method):
    return simulate(simulation, time, method).states


ROBERTSON = Published(
    jnp.asarray([0.04, 3e7, 1e4]), jnp.asarray([1.0, 0.0, 0.0]), robertson
)
#: Entries of six orders of magnitude, so tolerances are relative.
TIGHT = Method(
    Kvaerno5(rtol=1e-12, atol=1e-18),
    1e-6,
    controller=diffrax.PIDController(rtol=1e-10, atol=1e-16),
    max_steps=2048,
    adjoint=diffrax.ForwardMode(),
)


def test_robertson_problem_matches_the_reference():
    found = answer(ROBERTSON, 100.0, TIGHT)
    # Quadruple precision, an independent Taylor integrator.
    exact = [0.6172348823960878, 6.153591274639123e-06, 0.3827589640126376]
    np.testing.assert_allclose(found, exact, rtol=1e-8)


@pytest.mark.slow
def test_robertson_derivatives_match_the_sensitivity_equations():
    def run(k):
        return answer(eqx.tree_at(lambda s: s.parameters, ROBERTSON, k), 100.0, TIGHT)

    found = jax.jacfwd(run)(ROBERTSON.parameters)

    def sensitivities(t, flat):
        """y and dy/dk side by side, S' = f_y S + f_k."""
        del t
        y, S = flat[:3], flat[3:].reshape(3, 3)
        k0, k1, k2 = 0.04, 3e7, 1e4
        first, second, third = y[0], y[1] ** 2, y[1] * y[2]
        f_k = np.array([[-first, 0, third], [first, -second, -third], [0, second, 0]])
        f_y = np.array(
            [
                [-k0, k2 * y[2], k2 * y[1]],
                [k0, -k2 * y[2] - 2 * k1 * y[1], -k2 * y[1]],
                [0, 2 * k1 * y[1], 0],
            ]
        )
        # Scaled by the rates, or S of k1 would be lost among the others.
        rates = f_k @ [k0, k1, k2]
        return np.append(rates, f_y @ S + f_k * [k0, k1, k2])

    start = np.append([1.0, 0, 0], np.zeros(9))
    scipy = solve_ivp(
        sensitivities, (0, 100), start, "Radau", rtol=1e-11, atol=1e-17, first_step=1e-7
    )
    exact = scipy.y[3:, -1].reshape(3, 3)
    # Radau's own error at these tolerances; measured 3e-9.
    np.testing.assert_allclose(found * ROBERTSON.parameters, exact, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "start", "parameters", "time", "exact"),
    [
        pytest.param(
            hires,
            [1.0, 0, 0, 0, 0, 0, 0, 0.0057],
            [0.0],
            321.8122,
            [
                0.7371312573325668e-3,
                0.1442485726316185e-3,
                0.5888729740967575e-4,
                0.1175651343283149e-2,
                0.2386356198831331e-2,
                0.6238968252742796e-2,
                0.2849998395185769e-2,
                0.2850001604814231e-2,
            ],
            id="HIRES",
        ),
        pytest.param(
            van_der_pol,
            [2.0, 0.0],
            [1e6],
            2.0,
            [0.1706167732170483e1, -0.8928097010247975],
            id="Van der Pol",
        ),
    ],
)
def test_ivp_test_set_references_are_reached(rate, start, parameters, time, exact):
    """F. Mazzia and C. Magherini, *Test Set for IVP Solvers* (2008), II-1 and II-5."""
    simulation = Published(jnp.asarray(parameters), jnp.asarray(start), rate)
    controller = diffrax.PIDController(rtol=1e-9, atol=1e-12)
    solver = Kvaerno5(rtol=1e-12, atol=1e-15)
    method = Method(solver, 1e-8, controller=controller)
    found = answer(simulation, time, method)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def blowing_up(y, k):
    return k[0] * y**2


def test_stage_without_a_solution_fails_at_fixed_steps():
    # z = 1 + γ h z² has no real root at γ h = 0.26.
    simulation = Published(jnp.asarray([1.0]), jnp.asarray([1.0]), blowing_up)
    found = simulate(simulation, 2.0, Method(Kvaerno5(), 1.0), throw=False)
    assert found.result == RESULTS.nonlinear_divergence
    assert np.all(np.isnan(found.states))
    with pytest.raises(RuntimeError, match="diverge"):
        simulate(simulation, 2.0, Method(Kvaerno5(), 1.0))


@pytest.mark.slow
def test_controller_shortens_failed_steps_and_derivatives_stay_finite():
    def run(k):
        simulation = Published(k[None], jnp.asarray([1.0]), blowing_up)
        controller = diffrax.PIDController(rtol=1e-8, atol=1e-8)
        method = Method(Kvaerno5(), 50.0, controller=controller, max_steps=128)
        return simulate(simulation, 0.8, method)

    k = jnp.asarray(1.0)
    assert run(k).stats["num_rejected_steps"] > 0
    for slope in (jax.grad, jax.jacfwd):
        found = slope(lambda k: run(k).states[0])(k)
        # y = 1 / (1 - k t)
        assert found == pytest.approx(0.8 / 0.2**2, rel=1e-5)
