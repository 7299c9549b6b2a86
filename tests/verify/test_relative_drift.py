"""The relative drift of quantities along a trajectory."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim.integrators import Leapfrog
from diffsim.simulations import AbstractSimulation, Method, Separable, simulate
from diffsim.verify import relative_drift


class _Oscillator(AbstractSimulation):
    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start, jnp.zeros_like(self.start)

    def terms(self):
        return Separable(lambda t, v, a: v, lambda t, x, a: -x)

    def default_method(self):
        return Method(Leapfrog(), step=0.1)


_STEP = 0.1


@pytest.fixture(scope="module")
def trajectories():
    simulation = _Oscillator(jnp.asarray([1.0, 0.5]))
    times = _STEP * np.arange(0, 2000, 10)
    return {
        "leapfrog": simulate(simulation, times),
        "heun": simulate(simulation, times, Method(diffrax.Heun(), step=_STEP)),
    }


def _energy(state):
    x, v = state
    return (x @ x + v @ v) / 2


def test_leapfrog_energy_stays_within_its_bound(trajectories):
    # Drift-kick-drift conserves v^2/2 + x^2/2 - h^2 v^2/8 of the unit oscillator.
    found = relative_drift(_energy, trajectories["leapfrog"])
    assert found[0] == 0
    assert jnp.max(found) <= _STEP**2 / 4


def test_leapfrog_conserves_its_shadow_energy_to_machine_precision(trajectories):
    def shadow(state):
        x, v = state
        return (x @ x + (1 - _STEP**2 / 4) * v @ v) / 2

    # 2000 steps of a few roundings each, which add up like a random walk: 1e-14
    assert jnp.max(relative_drift(shadow, trajectories["leapfrog"])) < 1e-13


def test_heun_energy_grows_by_its_amplification_factor(trajectories):
    # |1 + ih - h^2/2|^2 = 1 + h^4/4 per step
    found = relative_drift(_energy, trajectories["heun"])
    growth = (1 + _STEP**4 / 4) ** 1990
    assert float(found[-1]) == pytest.approx((growth - 1) / growth, rel=1e-10)


def test_drift_of_a_vector_is_that_of_its_norm(trajectories):
    found = relative_drift(lambda state: state[0], trajectories["leapfrog"])
    assert found.shape == (200,)
    # about twice the amplitude, half a period later
    assert jnp.max(found) == pytest.approx(2, abs=0.02)


def test_drift_of_a_zero_quantity_is_zero(trajectories):
    assert jnp.all(
        relative_drift(lambda s: s[0] @ s[1] * 0, trajectories["leapfrog"]) == 0
    )


def test_single_time_raises_value_error():
    trajectory = simulate(_Oscillator(jnp.ones(1)), 1.0)
    with pytest.raises(ValueError, match="time axis"):
        relative_drift(_energy, trajectory)
