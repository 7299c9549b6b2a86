"""`check_simulation` passes valid simulations and names the failed check."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.simulations import AbstractSimulation, Method
from diffsim.verify import _simulation_checks, check_simulation
from diffsim.verify._simulation_checks import Case


_TIMES = np.asarray([0.3, 1.0, 1.5])


class _Driven(AbstractSimulation):
    """An oscillator with cubic damping and a drive; what a user would write."""

    stiffness: jax.Array
    start: jax.Array
    t0: float | jax.Array = 0.0

    def initial_state(self):
        return self.start

    def rate(self, t, y):
        pull = -self.stiffness * y[0]
        return jnp.stack([y[1], pull - 0.1 * y[1] ** 3 + 0.2 * jnp.cos(t)])

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: args.rate(t, y))

    def default_method(self):
        return Method(diffrax.Euler(), step=0.1)


class _Baked(_Driven):
    """Its stiffness is fixed when it is made, as in the steppers of some libraries."""

    baked: float = eqx.field(static=True, default=2.0)

    def rate(self, t, y):
        return jnp.stack([y[1], -self.baked * y[0]])


class _Hidden(_Driven):
    def rate(self, t, y):
        return jnp.stack([y[1], -jax.lax.stop_gradient(self.stiffness) * y[0]])


class _PythonFloat(_Driven):
    damping: float = 0.1

    def rate(self, t, y):
        return jnp.stack([y[1], -self.stiffness * y[0] - self.damping * y[1]])


class _Upcast(_Driven):
    def observe(self, t, y):
        return y * np.ones(2)


class _Silent(_Driven):
    def rate(self, t, y):
        return jnp.nan_to_num(_Driven.rate(self, t, y))

    def initial_state(self):
        return jnp.nan_to_num(self.start)


class _NoForwardMode(_Driven):
    def rate(self, t, y):
        return jnp.stack([y[1], -_reverse_only(self.stiffness, y[0])])


class _NoSecondDerivative(_Driven):
    def rate(self, t, y):
        return jnp.stack([y[1], -_first_order_only(self.stiffness) * y[0]])


class _OtherInBatches(_Driven):
    def rate(self, t, y):
        return jnp.stack([y[1], -_otherwise_in_batches(self.stiffness) * y[0]])


@jax.custom_vjp
def _reverse_only(k, x):
    return k * x


_reverse_only.defvjp(
    lambda k, x: (k * x, (k, x)), lambda kept, g: (kept[1] * g, kept[0] * g)
)


@jax.custom_jvp
def _first_order_only(k):
    return jnp.sin(k)


# What differentiates the rule again finds nothing.
_first_order_only.defjvp(
    lambda k, dk: (jnp.sin(k[0]), jax.lax.stop_gradient(jnp.cos(k[0])) * dk[0])
)


@jax.custom_batching.custom_vmap
def _batched_by_rule(k):
    return k


@_batched_by_rule.def_vmap
def _(axis_size, in_batched, k):
    del axis_size
    return k * (1 + 1e-10), in_batched[0]


@jax.custom_jvp
def _otherwise_in_batches(k):
    return _batched_by_rule(k)


_otherwise_in_batches.defjvp(lambda k, dk: (_otherwise_in_batches(k[0]), dk[0]))


def _case(kind, method=None):
    simulation = kind(jnp.asarray(2.0), jnp.asarray([1.0, 0.2]))
    return Case.of(simulation, _TIMES, method, seed=0)


@pytest.fixture(scope="module")
def contract():
    simulation = _Driven(jnp.asarray(2.0), jnp.asarray([1.0, 0.2]))
    return check_simulation(simulation, _TIMES)


def test_valid_simulation_passes_every_check(contract):
    contract.raise_if_failed()
    assert contract.passed
    assert [law.number for law in contract.laws] == [1, 2, 3, 4, 5, 6]


def test_taylor_slopes_of_leaves_epoch_and_times_are_two(contract):
    assert set(contract.taylor.slopes) == {"stiffness", "start", "t0", "times"}
    for slopes in contract.taylor.slopes.values():
        assert slopes == pytest.approx({"forward": 2, "reverse": 2}, abs=0.1)


def test_report_has_one_line_per_check(contract):
    head, *lines = str(contract).splitlines()
    assert head == "_Driven"
    assert len(lines) == 6
    assert all("passed" in line for line in lines)


def test_parameter_without_effect_is_flagged():
    finding, taylor = _simulation_checks.live_leaves(_case(_Baked))
    assert not finding.passed
    assert "stiffness" in finding.detail
    assert {leaf.name: leaf.flag for leaf in taylor.leaves}["stiffness"] == "no effect"


def test_stopped_gradient_is_detected():
    finding, taylor = _simulation_checks.live_leaves(_case(_Hidden))
    assert not finding.passed
    assert taylor.slopes["stiffness"]["forward"] == pytest.approx(1, abs=0.1)
    assert taylor.slopes["start"]["forward"] == pytest.approx(2, abs=0.1)


@pytest.mark.usefixtures("one_nesting")
def test_missing_second_derivative_is_detected():
    finding = _simulation_checks.modes_agree(_case(_NoSecondDerivative), 0.0)
    assert not finding.passed
    assert "differences" in finding.detail


def test_compile_time_constant_is_detected():
    finding = _simulation_checks.compiles_once(_case(_PythonFloat))
    assert not finding.passed
    assert "damping" in finding.detail


def test_change_of_precision_is_detected():
    finding = _simulation_checks.precision_is_kept(_case(_Upcast))
    assert not finding.passed
    assert finding.detail == "float32 becomes float64"


def test_batch_that_differs_from_single_runs_is_detected():
    # one part in 1e10: what the tolerance of 1e-12 is for
    assert not _simulation_checks.batches_agree(_case(_OtherInBatches)).passed


def test_nan_state_with_a_successful_result_is_detected():
    finding = _simulation_checks.failures_have_names(_case(_Silent))
    assert not finding.passed
    assert "stiffness" in finding.detail
    assert "start" in finding.detail


def test_array_epoch_with_times_before_it_passes_the_gradient_check():
    simulation = _Driven(jnp.asarray(2.0), jnp.asarray([1.0, 0.2]), jnp.asarray(1.6))
    case = Case.of(simulation, _TIMES, None, seed=0)
    assert case.simulation.t0 == pytest.approx(1.6)
    finding, taylor = _simulation_checks.live_leaves(case)
    assert finding.passed
    assert [leaf.name for leaf in taylor.leaves].count("t0") == 1


def test_epoch_of_a_calendar_passes():
    """Displacements of an epoch and of times are parts of a step, not of the year."""
    oscillator = _Driven(jnp.asarray(2.0), jnp.asarray([1.0, 0.2]), t0=1900.0)
    case = Case.of(oscillator, 1900.0 + _TIMES, None, seed=0)
    taylor = _simulation_checks._epoch_and_times(case)
    assert all(leaf.passed for leaf in taylor.leaves), taylor


class _AllPythonFloats(_Driven):
    stiffness: float = 2.0
    start: tuple[float, float] = (1.0, 0.2)


class _StaticEpoch(_Driven):
    t0: float = eqx.field(static=True, default=0.0)


class _NoEpochField(AbstractSimulation):
    stiffness: jax.Array
    t0 = 0.0

    def initial_state(self):
        return jnp.ones(2)

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: -args.stiffness * y)

    def default_method(self):
        return Method(diffrax.Euler(), step=0.1)


@pytest.mark.parametrize(
    ("simulation", "sentence"),
    [
        (5, r"simulation must be an object such as .*, got 5"),
        (_Driven, "simulation must be .*, got the class _Driven"),
        (_NoEpochField(jnp.ones(())), "_NoEpochField must have its epoch in a field"),
        (_StaticEpoch(jnp.ones(()), jnp.ones(2)), "that is not static"),
        (_AllPythonFloats(), "_AllPythonFloats must have a float array that can vary"),
    ],
    ids=["number", "class", "no epoch", "static epoch", "Python floats"],
)
def test_invalid_simulation_raises_value_error(simulation, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_simulation(simulation, _TIMES)


@pytest.mark.slow
def test_exceptions_are_reported_as_failed_checks():
    simulation = _NoForwardMode(jnp.asarray(2.0), jnp.asarray([1.0, 0.2]))
    contract = check_simulation(simulation, _TIMES)
    assert [law.passed for law in contract.laws] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert "custom_vjp" in contract.laws[1].detail
    with pytest.raises(AssertionError, match="FAILED"):
        contract.raise_if_failed()
