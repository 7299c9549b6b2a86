"""Terms of every kind are stepped as they are, and checked while tracing."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from given_terms import Given, ode

from diffsim.simulations import Method, simulate


_THREE, _PAIR = jnp.ones(3), (jnp.ones(3), jnp.ones(3))
_FIXED = Method(diffrax.Tsit5(), 0.1)


def test_pair_of_terms_runs_with_a_solver_of_pairs():
    terms = tuple(ode(f) for f in (lambda v: v, lambda x: -x))
    found = simulate(
        Given(_PAIR, terms), 1.0, Method(diffrax.SemiImplicitEuler(), 0.01)
    )
    # first order at a hundredth of the time scale
    np.testing.assert_allclose(found.states[0], np.cos(1) + np.sin(1), atol=0.01)


@pytest.mark.parametrize(
    "terms",
    [
        diffrax.MultiTerm(ode(lambda y: -y), ode(lambda y: -y)),
        diffrax.ControlTerm(lambda t, y, args: -y, lambda t0, t1: 2 * (t1 - t0)),
    ],
    ids=lambda terms: type(terms).__name__,
)
def test_step_multiplies_by_the_control_of_the_term(terms):
    states = simulate(Given(jnp.ones(()), terms), 0.5, _FIXED).states
    # Tsit5 at a tenth of the time scale
    np.testing.assert_allclose(states, jnp.exp(-1), rtol=1e-6)


def test_checking_the_terms_costs_no_evaluation_at_run_time():
    calls = []

    def counted(y):
        jax.debug.callback(lambda: calls.append(None))
        return -y

    method = Method(diffrax.Euler(), 0.5)
    jax.block_until_ready(simulate(Given(_THREE, ode(counted)), 1.0, method).states)
    jax.effects_barrier()
    assert len(calls) == 2, "one evaluation a step"
