"""Times are counted from the epoch, however large it is."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Kvaerno5, Yoshida4
from diffsim.simulations import Event, Method, simulate


_DATE = 2451545.0
_STEPS = 0.25 * np.arange(1, 33)
_METHODS = [
    Method(Yoshida4(), 0.1),
    Method(diffrax.Dopri5(), 0.1),
    Method(diffrax.Tsit5()),
    Method(diffrax.Tsit5(), controller=diffrax.PIDController(rtol=1e-6, atol=1e-6)),
    Method(diffrax.Dopri8(), 0.1, adjoint=diffrax.DirectAdjoint()),
    Method(Kvaerno5(), 0.1),
]


def free(driven, t0, dtype=jnp.float32):
    """The oscillator without its drive, which knows no date."""
    return driven(t0=t0, dtype=dtype, a=0.0)


@pytest.mark.parametrize(
    "method", first_plain(_METHODS, 3), ids=lambda m: type(m.solver).__name__
)
@pytest.mark.parametrize(
    "times", first_plain([-_STEPS[::-1], _STEPS]), ids=["before", "after"]
)
def test_float32_states_keep_their_phase_at_a_julian_date(driven, method, times):
    near = simulate(free(driven, 0.0), times, method)
    far = simulate(free(driven, _DATE), _DATE + times, method)
    assert far.states.dtype == jnp.float32
    np.testing.assert_allclose(far.states, near.states, atol=5e-6)
    np.testing.assert_array_equal(far.times, _DATE + times)


def test_time_differences_at_a_julian_date_are_taken_in_float64(driven):
    """0.1 after the date is less than what tells two singles there apart."""
    times, method = _DATE + 0.1 * np.arange(1, 8), Method(Yoshida4(), 0.1)
    near = simulate(free(driven, 0.0), times - _DATE, method)
    far = simulate(free(driven, _DATE), times, method)
    np.testing.assert_allclose(far.states, near.states, atol=1e-6)
    assert int(far.stats["num_steps"]) == 7, "dates on the grid are on it"


@pytest.mark.parametrize(
    "method",
    first_plain([Method(Yoshida4(), 0.1, max_steps=90), Method(diffrax.Tsit5())]),
)
def test_traced_doubles_keep_the_phase_of_float32_states(driven, method):
    def run(t0, times):
        simulation = eqx.tree_at(lambda s: s.t0, free(driven, 0.0), t0)
        return simulate(simulation, times, method).states

    near = simulate(free(driven, 0.0), _STEPS + 0.01, method).states
    far = jax.jit(run)(jnp.asarray(_DATE), jnp.asarray(_DATE + _STEPS + 0.01))
    np.testing.assert_allclose(far, near, atol=1e-5)


def test_traced_float32_times_at_a_julian_date_keep_the_accuracy_of_their_differences(
    driven,
):
    """At this date singles are multiples of a quarter."""
    method = Method(Yoshida4(), 0.1, max_steps=90)

    def run(t0, times):
        simulation = eqx.tree_at(lambda s: s.t0, free(driven, 0.0), t0)
        return simulate(simulation, times, method).states

    singles = (jnp.float32(_DATE), jnp.asarray(_DATE + _STEPS, jnp.float32))
    near = simulate(free(driven, 0.0), _STEPS, method).states
    np.testing.assert_allclose(jax.jit(run)(*singles), near, atol=1e-5)


@pytest.mark.parametrize("method", [_METHODS[0], _METHODS[2]])
def test_forces_receive_the_absolute_time(driven, method):
    """The drive is a function of t, which float64 resolves to 5e-10 there."""
    simulation = driven(t0=_DATE)
    times = _DATE + np.array([-1.03, 0.4, 2.5])
    found = simulate(simulation, times, method).states
    # Yoshida4 at steps of 0.1 is off by 1e-4; an hour of the drive by 1e-3
    np.testing.assert_allclose(found, [simulation.exact(t) for t in times], atol=2e-4)


def test_forces_of_float32_states_receive_the_absolute_time_rounded_once(driven):
    told = []

    def observe(t, y):
        told.append(t.dtype)
        return t

    date = _DATE + 0.1
    found = simulate(driven(t0=date, dtype=jnp.float32), [date + 0.2], observe=observe)
    assert told[0] == jnp.float32
    assert float(found.states[0]) == np.float32(date + 0.2)

    class Clock(type(driven())):
        def terms(self):
            return diffrax.ODETerm(lambda t, y, args: (t - _DATE, 0 * y[1]))

    # Singles are quarters there: of 0.2 and of 0.35 the nearest is 0.25.
    single = Clock(*jnp.zeros((2, 1), "f4"), jnp.zeros(2, "f4"), _DATE + 0.2)
    found = simulate(single, _DATE + 0.5, Method(diffrax.Euler(), 0.15))
    np.testing.assert_allclose(found.states[0], 2 * 0.15 * 0.25, rtol=1e-6)


@pytest.mark.parametrize("method", first_plain([_METHODS[2], _METHODS[0]]))
def test_times_of_events_steps_and_final_state_are_float64_dates(driven, method):
    passes = Event(lambda t, y, args: y[0], limit=4)
    times = np.array([8.0])
    near = simulate(free(driven, 0.0), times, method, events=passes)
    far = simulate(free(driven, _DATE), _DATE + times, method, events=passes)
    got, want = np.asarray(far.events[0].times), np.asarray(near.events[0].times)
    assert far.events[0].count == near.events[0].count == 4
    np.testing.assert_allclose(got - _DATE, want, atol=2e-6)
    assert float(far.final.t) == pytest.approx(_DATE + 8.0, abs=1e-5)
    if far.steps is not None:
        # Which steps are taken hangs on roundings; the first does not.
        ends = far.steps[np.isfinite(far.steps)] - _DATE
        assert np.all(np.diff(ends) > 0)
        np.testing.assert_allclose(ends[[0, -1]], [near.steps[0], 8.0], atol=2e-6)


def test_event_conditioned_on_time_happens_at_its_date(driven):
    noon = Event(lambda t, y, args: t - (_DATE + 0.7), limit=1)
    found = simulate(driven(t0=_DATE), _DATE + 1.0, _METHODS[0], events=noon)
    np.testing.assert_allclose(found.events[0].times, _DATE + 0.7, rtol=1e-15)


@pytest.mark.slow
def test_frozen_steps_at_a_julian_date_repeat_the_run(driven):
    method = Method(diffrax.Tsit5())
    simulation = free(driven, _DATE)
    run = simulate(simulation, _DATE + _STEPS, method)
    again = simulate(simulation, _DATE + _STEPS, method.freeze_steps(run))
    # An interpolant between steps that differ by roundings.
    np.testing.assert_allclose(again.states, run.states, atol=3e-6)


def test_restart_at_a_julian_date_continues_the_run(driven):
    simulation, method = free(driven, _DATE), _METHODS[0]
    whole = simulate(simulation, _DATE + _STEPS, method)
    part = simulate(simulation, _DATE + _STEPS[:9], method)
    rest = simulate(simulation, _DATE + _STEPS[9:], method, start=part.final)
    np.testing.assert_allclose(rest.states, whole.states[9:], atol=5e-6)


@pytest.mark.parametrize(
    "controller",
    [
        diffrax.StepTo(_DATE + np.array([0.0, 0.3, 0.7, 1.0])),
        diffrax.ClipStepSizeController(
            diffrax.PIDController(rtol=1e-8, atol=1e-8), step_ts=[_DATE + 0.3]
        ),
    ],
)
def test_step_times_of_controllers_are_absolute(driven, controller):
    adjoint = diffrax.DirectAdjoint()
    method = Method(diffrax.Tsit5(), controller=controller, adjoint=adjoint)
    found = simulate(driven(t0=_DATE), [_DATE + 1.0], method)
    ends = np.asarray(found.steps)
    assert np.min(np.abs(ends - (_DATE + 0.3))) < 1e-9
    exact = driven(t0=_DATE).exact(_DATE + 1.0)
    np.testing.assert_allclose(found.states[0], exact, atol=1e-4)


@pytest.mark.slow
def test_derivatives_by_epoch_and_time_are_right_at_a_julian_date(driven):
    method = Method(Yoshida4(), 0.05, max_steps=40)

    def of(epoch, times):
        simulation = eqx.tree_at(lambda s: s.t0, driven(), epoch)
        return simulate(simulation, times, method).states

    def exact(epoch, times):
        simulation = eqx.tree_at(lambda s: s.t0, driven(), epoch)
        return jax.vmap(simulation.exact)(times)

    at = (jnp.asarray(_DATE), jnp.asarray(_DATE + np.array([-0.33, 0.71, 1.3])))
    found = jax.jit(jax.jacrev(of, (0, 1)))(*at)
    expected = jax.jacfwd(exact, (0, 1))(*at)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
