"""Terms that fit neither the state nor the solver raise `ValueError`."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.integrators import Leapfrog
from diffsim.simulations import AbstractSimulation, Method, Separable, simulate


class Given(AbstractSimulation):
    """Whatever terms and state a user may come up with."""

    start: Any
    dynamics: Any = eqx.field(static=True)
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return self.dynamics

    def default_method(self):
        return Method(diffrax.Tsit5(), max_steps=64)


def ode(field):
    return diffrax.ODETerm(lambda t, y, args: field(y))


_THREE, _PAIR = jnp.ones(3), (jnp.ones(3), jnp.ones(3))
_SEPARABLE = Separable(lambda t, v, args: v, lambda t, x, args: -x)
_FIXED, _ADAPTIVE = Method(diffrax.Tsit5(), 0.1), Method(diffrax.Tsit5(), max_steps=64)


@pytest.mark.parametrize("method", [_FIXED, _ADAPTIVE], ids=["fixed", "adaptive"])
@pytest.mark.parametrize(
    ("start", "terms", "sentence"),
    [
        (_THREE, ode(lambda y: -y.sum()), r"float64 of shape \(3,\), got .* \(\); "),
        (_THREE, ode(lambda y: -y[:1]), r"shape \(3,\), got float64 of shape \(1,\)"),
        (_THREE[:1], ode(lambda y: jnp.ones(3)), r"shape \(1,\), got .* shape \(3,\)"),
        (
            _THREE.astype(jnp.float32),
            ode(lambda y: -y * np.ones(3)),
            r"float32 of shape \(3,\), got float64 of shape \(3,\); nothing is .* cast",
        ),
        (_PAIR, ode(lambda y: [y[1], -y[0]]), "must return the structure of the state"),
        (
            _PAIR,
            Separable(lambda t, v, args: v, lambda t, x, args: -x.sum()),
            r"what state\[1\] is, .*, got float64 of shape \(\)",
        ),
        (_THREE, _SEPARABLE, r"that is a tuple \(x, v\), got an array"),
        (_THREE, jnp.sin, r"terms\(\) must return a Diffrax term, got a .*ODETerm"),
        (_THREE, None, r"terms\(\) must return a Diffrax term, got a NoneType"),
    ],
    ids=[
        "summed",
        "sliced",
        "wider",
        "promoted",
        "list for a tuple",
        "half summed",
        "no pair",
        "function",
        "nothing",
    ],
)
def test_terms_that_do_not_fit_the_state_raise_value_error(
    start, terms, sentence, method
):
    with pytest.raises(ValueError, match=sentence):
        simulate(Given(start, terms), 1.0, method)


@pytest.mark.parametrize(
    ("solver", "terms", "sentence"),
    [
        (
            diffrax.SemiImplicitEuler(),
            _SEPARABLE,
            "SemiImplicitEuler needs a tuple of 2 terms; got Separable. Take",
        ),
        (
            diffrax.KenCarp3(),
            ode(lambda y: y),
            "KenCarp3 needs MultiTerm dynamics, an explicit and an .*Kvaerno5",
        ),
        (
            Leapfrog(),
            diffrax.MultiTerm(ode(lambda y: y), ode(lambda y: y)),
            "Leapfrog needs Separable dynamics, .* got MultiTerm. Take",
        ),
    ],
)
@pytest.mark.parametrize("adjoint", [None, diffrax.DirectAdjoint()])
def test_terms_that_do_not_fit_the_solver_raise_value_error(
    solver, terms, sentence, adjoint
):
    with pytest.raises(ValueError, match=sentence):
        simulate(Given(_PAIR, terms), 1.0, Method(solver, 0.1, adjoint=adjoint))


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
