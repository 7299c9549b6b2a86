"""States of any pytree of one precision run; others raise `ValueError`."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Kvaerno5
from diffsim.simulations import AbstractSimulation, Event, FinalState, Method, simulate


class Decay(AbstractSimulation):
    """y' = -y in every leaf, of which there may be none."""

    start: object
    noise: diffrax.AbstractPath | None = None
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        term = diffrax.ODETerm(lambda t, y, args: jax.tree.map(jnp.negative, y))
        if self.noise is None:
            return term
        kicks = diffrax.ControlTerm(lambda t, y, args: jnp.ones(()), self.noise)
        return diffrax.MultiTerm(term, kicks)

    def default_method(self):
        return Method(diffrax.Tsit5())


_METHODS = [
    Method(diffrax.Tsit5(), 0.1),
    Method(diffrax.Tsit5()),
    Method(Kvaerno5(), 0.1),
]


@pytest.mark.parametrize("method", _METHODS)
def test_empty_leaves_are_carried_through_the_run(method):
    start = (jnp.zeros((0, 3)), jnp.array([1.0, 2.0]))
    found = simulate(Decay(start), [0.5, 1.0], method).states
    assert found[0].shape == (2, 0, 3)
    exact = np.exp([[-0.5], [-1.0]]) * [1.0, 2.0]
    np.testing.assert_allclose(found[1], exact, rtol=1e-6)


@pytest.mark.parametrize(
    "solver", first_plain([diffrax.ImplicitEuler(), diffrax.Kvaerno3()])
)
def test_implicit_solvers_of_diffrax_run_at_fixed_steps(solver):
    def run(y):
        return simulate(Decay(y), 1.0, Method(solver, 0.1)).states

    expected = 1.1**-10 if isinstance(solver, diffrax.ImplicitEuler) else np.exp(-1)
    rtol = 1e-7 if isinstance(solver, diffrax.ImplicitEuler) else 1e-4
    np.testing.assert_allclose(run(jnp.asarray(3.0)), 3 * expected, rtol=rtol)
    # The equation is linear.
    np.testing.assert_allclose(jax.grad(run)(3.0), run(jnp.asarray(1.0)), rtol=1e-6)
    adjoint = diffrax.DirectAdjoint()
    same = simulate(Decay(jnp.ones(())), 1.0, Method(solver, 0.1, adjoint=adjoint))
    np.testing.assert_allclose(same.states, expected, rtol=rtol)


@pytest.mark.parametrize("method", [Method(diffrax.Euler(), 0.1), _METHODS[1]])
def test_stochastic_equations_raise_value_error(method):
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (), jax.random.key(0))
    message = "ordinary differential equation, got a VirtualBrownianTree"
    with pytest.raises(ValueError, match=message):
        simulate(Decay(jnp.ones(()), noise), 1.0, method)


def test_start_in_another_precision_raises_value_error():
    single = simulate(Decay(jnp.ones(2, jnp.float32)), 1.0).final
    with pytest.raises(ValueError, match="start holds float32 and this simulation"):
        simulate(Decay(jnp.ones(2)), 2.0, start=single)
    double = FinalState(single.t, single.y.astype(jnp.float64))
    found = simulate(Decay(jnp.ones(2)), 2.0, start=double)
    np.testing.assert_allclose(found.states, np.exp(-2) * np.ones(2), rtol=1e-6)


@pytest.mark.parametrize("method", first_plain(_METHODS[:2]))
def test_integers_observed_at_events_stay_integers(method):
    class Counted(eqx.Module):
        value: jax.Array
        count: jax.Array
        flag: jax.Array

    def observe(t, y):
        del t
        count = jnp.asarray(np.iinfo(np.int64).max, jnp.int64)
        return Counted(y, count, y > 0)

    half = Event(lambda t, y, args: y - 0.5, limit=3)
    run = simulate(Decay(jnp.ones(())), 2.0, method, events=half, observe=observe)
    (found,) = run.events
    np.testing.assert_allclose(found.times, [np.log(2), np.nan, np.nan], atol=1e-7)
    info = np.iinfo(np.int64)
    expected = np.array([info.max, info.min, info.min])
    np.testing.assert_array_equal(found.states.count, expected, strict=True)
    expected = np.array([True, False, False])
    np.testing.assert_array_equal(found.states.flag, expected, strict=True)
