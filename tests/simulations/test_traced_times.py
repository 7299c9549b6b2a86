"""Times and the epoch may be traced, and have derivatives."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim.integrators import Yoshida4
from diffsim.simulations import Method, simulate


_STEP = 0.05
_TIMES = np.array([-1.013, -0.5, 0.2, 0.21, 0.333, 1.2, 1.65])
_EPOCH = 0.2
_BOUNDED = Method(Yoshida4(), _STEP, max_steps=40)
_ADAPTIVE = Method(diffrax.Tsit5(), max_steps=64)


def states(simulation, epoch, times, method):
    moved = eqx.tree_at(lambda s: s.t0, simulation, epoch)
    return simulate(moved, times, method, throw=False).states


@pytest.fixture(scope="module")
def traced(driven):
    """States, and their derivatives by epoch and times, all of them traced."""

    @jax.jit
    def run(epoch, times):
        simulation = driven(t0=0.0)

        def of(epoch, times):
            return states(simulation, epoch, times, _BOUNDED)

        by_epoch, by_times = jax.jacrev(of, (0, 1))(epoch, times)
        return of(epoch, times), by_epoch, by_times, jax.jacfwd(of)(epoch, times)

    return run(jnp.asarray(_EPOCH), jnp.asarray(_TIMES))


def test_traced_times_give_the_states_of_concrete_times(driven, traced):
    concrete = simulate(driven(t0=_EPOCH), _TIMES, Method(Yoshida4(), _STEP))
    np.testing.assert_allclose(traced[0], concrete.states, rtol=1e-13, atol=1e-15)


def test_derivative_by_output_time_is_the_vector_field(driven, traced):
    simulation = driven(t0=_EPOCH)
    field = jax.vmap(jax.jacfwd(simulation.exact))(jnp.asarray(_TIMES))
    found = np.einsum("iji->ij", traced[2])
    # Yoshida4 at a hundredth of the period
    np.testing.assert_allclose(found, field, atol=2e-5)
    others = np.array(traced[2])
    others[np.arange(7), :, np.arange(7)] = 0
    assert not others.any(), "an output depends on the time of another"


def test_derivative_by_epoch_is_that_of_the_closed_form(driven, traced):
    def exact(epoch):
        simulation = eqx.tree_at(lambda s: s.t0, driven(), epoch)
        return jax.vmap(simulation.exact)(jnp.asarray(_TIMES))

    expected = jax.jacfwd(exact)(_EPOCH)
    np.testing.assert_allclose(traced[1], expected, atol=2e-5)
    np.testing.assert_allclose(traced[3], traced[1], rtol=1e-12, atol=1e-14)


def test_adaptive_runs_take_traced_times_in_any_order_and_epochs(driven):
    shuffled = jnp.asarray(np.roll(_TIMES, 2))

    @jax.jit
    def run(epoch, times):
        simulation = driven(t0=0.0)

        def of(e, t):
            return states(simulation, epoch + e, times + t, _ADAPTIVE)

        tangent = jax.jvp(of, (0.0, 0.0), (0.0, 1.0))[1]
        return of(0.0, 0.0), tangent

    found, rate = run(jnp.asarray(_EPOCH), shuffled)
    simulation = driven(t0=_EPOCH)
    exact = jax.vmap(simulation.exact)(shuffled)
    np.testing.assert_allclose(found, exact, atol=1e-7)
    field = jax.vmap(jax.jacfwd(simulation.exact))(shuffled)
    # Between steps the output is an interpolant, of lower order in its derivative.
    np.testing.assert_allclose(rate, field, atol=1e-4)


def test_traced_scalar_time_gives_the_concrete_state(driven):
    method = Method(Yoshida4(), _STEP, max_steps=40)
    found = jax.jit(lambda t: simulate(driven(), t, method).states)(1.234)
    expected = simulate(driven(), 1.234, Method(Yoshida4(), _STEP)).states
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_times_in_a_list_may_be_traced_one_by_one(driven):
    def rate(v):
        return states(driven(), 0.0, [0.3 * v, 1.234], _BOUNDED)[:, 0]

    found = jax.jacfwd(rate)(1.0)
    expected = 0.3 * jax.jacfwd(driven().exact)(0.3)[0]
    np.testing.assert_allclose(found, [expected, 0.0], atol=2e-5)


def test_filter_jit_leaves_a_python_epoch_static(driven):
    run = eqx.filter_jit(lambda s: simulate(s, 1.0, Method(Yoshida4(), _STEP)).states)
    simulation = driven(t0=0.5)
    np.testing.assert_allclose(run(simulation), simulation.exact(1.0), atol=2e-6)


@pytest.mark.parametrize("time", [2.1, -2.1])
def test_traced_time_beyond_max_steps_has_its_own_result(driven, time):
    run = jax.jit(lambda t: simulate(driven(), t, _BOUNDED, throw=False).result)
    assert run(time) == ds.RESULTS.times_beyond_max_steps
    assert run(time * 0.9) == ds.RESULTS.successful
    with pytest.raises(Exception, match="lies more than `max_steps` steps from `t0`"):
        jax.jit(lambda t: simulate(driven(), t, _BOUNDED).states)(time)


def test_num_steps_counts_only_the_time_directions_that_are_run(driven):
    run = jax.jit(lambda times: simulate(driven(), times, _BOUNDED).stats["num_steps"])
    counts = [int(run(jnp.asarray([t, 0.1 + t]))) for t in (0.5, -0.5, -0.05)]
    assert counts == [40, 40, 80]


def test_array_epoch_runs_with_and_without_max_steps(driven):
    simulation = driven(t0=jnp.asarray(0.5))
    bounded = simulate(simulation, [1.0, 1.3], _BOUNDED)
    concrete = simulate(simulation, [1.0, 1.3], Method(Yoshida4(), _STEP))
    np.testing.assert_allclose(bounded.states, concrete.states, rtol=1e-13)
