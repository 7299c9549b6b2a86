"""`Method`: invalid options, and frozen steps."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.simulations import (
    AbstractSimulation,
    Method,
    simulate,
)


_PID = diffrax.PIDController(rtol=1e-8, atol=1e-8)


def test_a_step_may_be_an_integer(driven):
    one = simulate(driven(), 3.0, Method(Leapfrog(), 1))
    assert int(one.stats["num_steps"]) == 3


_TIMES = np.array([-0.6, 0.0, 1.0, 2.5])
_ADAPTIVE = Method(diffrax.Tsit5(), max_steps=64)


@pytest.fixture(scope="module")
def free(driven):
    """An adaptive run both ways from an epoch that rounds: 0.2 - 0.8 is not -0.6."""
    return simulate(driven(t0=0.2), _TIMES, _ADAPTIVE)


def test_frozen_steps_repeat_the_adaptive_run(driven, free):
    frozen = _ADAPTIVE.freeze_steps(free)
    again = simulate(driven(t0=0.2), _TIMES, frozen)
    np.testing.assert_allclose(again.states, free.states, rtol=1e-13)
    assert int(again.stats["num_steps"]) == int(free.stats["num_accepted_steps"])
    ends = free.steps[np.isfinite(free.steps)]
    np.testing.assert_allclose(again.steps[np.isfinite(again.steps)], ends, rtol=1e-15)
    # Another spring, the same steps: the tolerance has no say.
    other = simulate(driven(t0=0.2, k=2.5), _TIMES, frozen)
    np.testing.assert_array_equal(other.steps, again.steps)
    # Other times, the same steps.
    between = [-0.5, -0.1, 0.9, 2.0]
    found = simulate(driven(t0=0.2), between, frozen).states
    exact = [driven(t0=0.2).exact(t) for t in between]
    np.testing.assert_allclose(found, exact, atol=1e-7)


def test_steps_of_an_adaptive_run_ascend_over_both_time_directions(driven):
    method = Method(diffrax.Tsit5(), max_steps=64)
    steps = simulate(driven(t0=0.2), _TIMES, method).steps
    taken = steps[np.isfinite(steps)]
    assert np.all(np.diff(taken) > 0)
    assert taken[0] == min(_TIMES)
    assert taken[-1] == max(_TIMES)
    assert np.all(np.isinf(steps[taken.size :]))


def test_fixed_steps_are_frozen_as_they_are(driven):
    method = Method(Leapfrog(), 0.1)
    assert method.freeze_steps(simulate(driven(), 1.0, method)) is method


def test_first_adaptive_step_may_be_given(driven):
    method = Method(diffrax.Tsit5(), 0.01, controller=_PID, max_steps=64)
    steps = np.asarray(simulate(driven(), [-2.0], method).steps)
    assert np.max(steps[np.isfinite(steps)]) == pytest.approx(-0.01)


@pytest.mark.parametrize(
    "solver",
    [
        diffrax.ReversibleHeun(),  # carries a second state along
        diffrax.LeapfrogMidpoint(),  # carries its last step along
        pytest.param(  # implicit
            diffrax.Kvaerno3(root_finder=diffrax.VeryChord(1e-10, 1e-10)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda solver: type(solver).__name__,
)
def test_solvers_with_internal_state_run_at_fixed_steps(driven, solver):
    times = [0.8, 1.47]
    found = simulate(driven(t0=0.1), times, Method(solver, 0.01))
    # order 2 at a hundredth of the time scale; Kvaerno3 is better
    exact = [driven(t0=0.1).exact(t) for t in times]
    np.testing.assert_allclose(found.states, exact, atol=3e-4)


def test_numpy_number_is_a_valid_step():
    assert Method(Leapfrog(), np.float64(0.1)) == Method(Leapfrog(), 0.1)
    assert Method(Leapfrog(), np.float32(0.5)).step == 0.5


def test_outputs_that_diffrax_would_interpolate_linearly_raise_value_error(driven):
    adjoint = diffrax.RecursiveCheckpointAdjoint()
    method = Method(Yoshida4(), 0.1, adjoint=adjoint)
    plain = simulate(driven(), [0.5], Method(Yoshida4(), 0.1)).states
    for one, other in zip(simulate(driven(), [0.5], method).states, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    with pytest.raises(ValueError, match=r"times must lie on the grid .* got 0.55"):
        simulate(driven(), [0.5, 0.55], method)


def test_clipped_controller_has_derivatives_in_both_modes():
    """Equinox's loops inside hold references, which JAX 0.12 rewrites."""

    class Decay(AbstractSimulation):
        rate: jax.Array
        t0: float = 0.0

        def initial_state(self):
            return jnp.ones(1)

        def terms(self):
            return diffrax.ODETerm(lambda t, y, args: -args.rate * y)

        def default_method(self):
            tight = diffrax.PIDController(rtol=1e-9, atol=1e-9)
            ends = jnp.asarray([0.25, 1.0])
            clipped = diffrax.ClipStepSizeController(tight, step_ts=ends)
            return Method(diffrax.Tsit5(), controller=clipped)

    def last(rate):
        return simulate(Decay(rate), 1.0).states[0]

    both = jax.jit(lambda rate: (jax.jacfwd(last)(rate), jax.jacrev(last)(rate)))
    # the tolerance of the steps
    np.testing.assert_allclose(jnp.stack(both(2.0)), -np.exp(-2), rtol=1e-7)
