"""Events on the end of a step, and as near to it as may be, are found once."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators
from diffsim.simulations import AbstractSimulation, Event, Method, Separable


STEP = 1 / 40
NEAR = 10.0 ** -np.arange(4, 17)
#: Of half turns: beside an end of a step, on it, and within a step.
OFFSETS = np.concatenate([-NEAR, [0.0], NEAR[::-1], [0.3 * STEP]])


class Clock(AbstractSimulation):
    """Time itself, which all solvers integrate exactly, from `start` on."""

    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start, jnp.ones_like(self.start)

    def terms(self):
        return Separable(lambda t, v, args: v, lambda t, x, args: 0 * x)

    def default_method(self):
        return METHODS["Leapfrog"]


def controlled(solver, **options):
    """Steps of the adaptive loop, all of them equal without `options`."""
    equal = diffrax.ConstantStepSize()
    controller = diffrax.PIDController(dtmax=STEP, **options) if options else equal
    return Method(solver, None if options else STEP, controller=controller)


METHODS = {
    "Leapfrog": Method(integrators.Leapfrog(), STEP),
    "Heun": controlled(diffrax.Heun()),
    "Dopri8": Method(diffrax.Dopri8(), STEP),
    "Yoshida4": Method(integrators.Yoshida4(), STEP),
    "Kvaerno5": Method(integrators.Kvaerno5(), STEP),
    "Tsit5": controlled(diffrax.Tsit5(), rtol=1e-9, atol=1e-9),
}
KINDS = {
    "record": {},
    "terminal": {"terminal": True},
    "reset": {"reset": lambda t, y, args: y},
}
ROWS = [("Leapfrog", "record"), ("Heun", "record"), ("Leapfrog", "terminal")]
ROWS += [(m, k) for m in METHODS for k in KINDS if (m, k) not in ROWS]


@pytest.mark.parametrize(("name", "kind"), first_plain(ROWS, 3))
def test_events_beside_the_end_of_a_step_are_found_once(name, kind):
    half_turns = Event(
        lambda t, y, args: jnp.sin(2 * np.pi * y[0]), limit=5, **KINDS[kind]
    )

    def times(start):
        method = METHODS[name]
        found = ds.simulate(Clock(start), 1.7, method, events=half_turns, throw=False)
        return found.events[0].times, (found.events[0].times, found.result)

    slopes, (found, result) = jax.jit(jax.vmap(jax.jacfwd(times, has_aux=True)))(
        OFFSETS - 0.25
    )
    count = 1 if kind == "terminal" else 3
    exact = 0.25 - OFFSETS[:, None] + 0.5 * np.arange(count)
    assert np.all(np.asarray(result == ds.RESULTS.successful))
    assert np.all(np.isnan(found[:, count:]))
    np.testing.assert_allclose(found[:, :count], exact, atol=1e-14)
    np.testing.assert_allclose(slopes[:, :count], -1, rtol=1e-12)


def test_none_of_many_events_is_lost():
    """Twenty thousand, half of them within 1e-4 to 1e-16 of the end of a step."""
    rng, n = np.random.default_rng(0), 20_000
    near = rng.choice([-1, 1], n) * 10 ** rng.uniform(-16, -4, n)
    starts = STEP * rng.integers(-40, -4, n) + np.where(rng.random(n) < 0.5, near, 0)
    starts += np.where(rng.random(n) < 0.5, STEP * rng.random(n), 0)
    event = Event(lambda t, y, args: jnp.expm1(3 * y[0]), limit=2)

    @jax.jit
    @jax.vmap
    def found(start):
        run = ds.simulate(Clock(start), 1.2, METHODS["Leapfrog"], events=event)
        return run.events[0].times, run.events[0].count

    times, counts = found(starts)
    np.testing.assert_array_equal(counts, 1)
    np.testing.assert_allclose(times[:, 0], -starts, rtol=0, atol=1e-14)


@pytest.mark.parametrize("bend", [jnp.tanh, jnp.cbrt])
def test_what_is_steep_is_no_jump(bend):
    """As far as rounding: tanh rises within 1e-10, a cube root has no slope at all."""
    steep = Event(lambda t, y, args: bend(1e10 * y[0]), limit=2)
    starts = -np.linspace(0.113, 1.07, 97)

    def found(start):
        run = ds.simulate(Clock(start), 1.2, METHODS["Leapfrog"], events=steep)
        return run.events[0].times[0]

    times = jax.jit(jax.vmap(found))(starts)
    np.testing.assert_allclose(times, -starts, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", first_plain(["Leapfrog", "Heun"]))
def test_a_jump_is_no_event(method):
    """An angle that wraps: what is recorded has no gap, what would act is refused."""

    def angle(t, y, args):
        return jnp.arctan2(jnp.sin(2 * np.pi * y[0]), jnp.cos(2 * np.pi * y[0]))

    def run(**options):
        event, method_of = Event(angle, limit=6, **options), METHODS[method]
        return ds.simulate(Clock(jnp.asarray(-0.3)), 3.0, method_of, events=event)

    (record,) = run().events
    assert record.count == 3
    np.testing.assert_allclose(record.times[:3], [0.3, 1.3, 2.3], rtol=1e-14)
    assert np.all(np.isnan(record.times[3:])) and np.all(np.isnan(record.states[0][3:]))
    with pytest.raises(RuntimeError, match=r"changed its sign.* no zero .*jumps"):
        run(reset=lambda t, y, args: y)
