"""Simultaneous events all happen, and their derivatives are right."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim.simulations import Event


#: Low orders are exact for a ball, and compile in half the time; so few steps are kept.
METHODS = {
    "fixed": ds.Method(diffrax.Heun(), step=0.07),
    "adaptive": ds.Method(diffrax.Bosh3(), max_steps=200),
}


class Pair(ds.AbstractSimulation):
    """Two balls that fall side by side."""

    heights: jax.Array
    gravity: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.heights, jnp.zeros_like(self.heights)

    def terms(self):
        return diffrax.ODETerm(lambda t, y, a: (y[1], -a.gravity + 0 * y[0]))

    def default_method(self):
        return METHODS["fixed"]


def bounce(i, restitution=0.9):
    def reset(t, y, pair):
        return y[0], y[1].at[i].multiply(-restitution)

    return Event(lambda t, y, pair: y[0][i], direction="down", reset=reset)


def height_after(heights, t, g=9.81, restitution=0.9):
    """Where they are between their first and second bounce."""
    fall = jnp.sqrt(2 * heights / g)
    return restitution * g * fall * (t - fall) - g * (t - fall) ** 2 / 2


@pytest.mark.parametrize("method", first_plain(METHODS))
def test_simultaneous_resets_all_happen(method):
    """However close they are, and with the derivative of each."""

    def run(heights):
        pair = Pair(heights, jnp.asarray(9.81, heights.dtype))
        events = (bounce(0), bounce(1))
        found = ds.simulate(pair, 0.8, METHODS[method], events=events)
        counts = [event.count for event in found.events]
        return found.states[0], (found.states[0], counts)

    modes = jax.jacfwd, jax.jacrev
    every = jax.jit(lambda heights: [d(run, has_aux=True)(heights) for d in modes])
    later = [0.0, 1e-16, 1e-12, 1e-9, 1e-8, 1e-6, 1e-3]
    for more in (*later, *(-x for x in later)):
        heights = jnp.array([1.0, 1.0 + more])
        for _, (found, counts) in every(heights):
            assert counts == [1, 1]
            np.testing.assert_allclose(found, height_after(heights, 0.8), rtol=1e-12)
    heights = jnp.ones(2)
    exact = jax.jacfwd(height_after)(heights, 0.8)
    for slope, _ in every(heights):
        np.testing.assert_allclose(slope, exact, rtol=1e-10, atol=1e-10)


def test_simultaneous_resets_all_happen_in_single_precision():
    for more in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        heights = jnp.array([1.0, 1.0 + more], jnp.float32)
        pair = Pair(heights, jnp.float32(9.81))
        found = ds.simulate(pair, 0.8, METHODS["fixed"], events=(bounce(0), bounce(1)))
        np.testing.assert_allclose(
            found.states[0], height_after(heights, 0.8), rtol=1e-5
        )


@pytest.mark.parametrize("order", first_plain([1, -1]))
@pytest.mark.parametrize("method", first_plain(["adaptive", "fixed"]))
def test_recorded_event_at_the_time_of_a_reset_is_not_lost(method, order):
    pair = Pair(jnp.array([1.0, 7.0]), jnp.asarray(9.81))
    noted = Event(lambda t, y, pair: y[0][0], direction="down")
    events = (bounce(0), noted)[::order]
    for event in ds.simulate(pair, 0.8, METHODS[method], events=events).events:
        assert event.count == 1
        np.testing.assert_allclose(event.times[0], (2 / 9.81) ** 0.5, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_outputs_before_a_terminal_event_have_their_derivative_in_both_modes(method):
    end = Event(lambda t, y, pair: y[0][0], direction="down", terminal=True)

    def early(p):
        pair = Pair(p[:2], p[2])
        found = ds.simulate(pair, [0.2, 2.0], METHODS[method], events=end)
        return found.states[0][0]

    p = jnp.array([1.0, 2.0, 9.81])
    exact = [[1, 0, -0.02], [0, 1, -0.02]]
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(derivative(early)(p), exact, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_restarted_run_with_events_continues_the_first():
    method = ds.Method(diffrax.Bosh3(), max_steps=200)
    pair = Pair(jnp.array([1.0, 7.0]), jnp.asarray(9.81))
    whole = ds.simulate(pair, 1.6, method, events=bounce(0))
    half = ds.simulate(pair, 0.8, method, events=bounce(0))
    rest = ds.simulate(pair, 1.6, method, events=bounce(0), start=half.final)
    np.testing.assert_allclose(rest.states[0], whole.states[0], rtol=1e-12)
    times = [half.events[0].times[0], rest.events[0].times[0]]
    np.testing.assert_allclose(times, whole.events[0].times[:2], rtol=1e-12)
