"""Events happen at the right time, and runs have the right derivative after them."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators
from diffsim.simulations import AbstractSimulation, Event


class Ball(AbstractSimulation):
    """Thrown up from the floor: y'' = −g, and v becomes −r v where it lands."""

    gravity: jax.Array
    speed: jax.Array
    restitution: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return (jnp.zeros(1), self.speed[None])

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: (y[1], -args.gravity * jnp.ones(1)))

    def default_method(self):
        return ds.Method(diffrax.Tsit5())


class Spring(AbstractSimulation):
    """y'' = −k y from y = 0: v = 0 at π/(2√k), and every half period after."""

    stiffness: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return (jnp.zeros(1), jnp.ones(1))

    def terms(self):
        def kick(t, x, args):
            return -args.stiffness * x

        return ds.simulations.Separable(lambda t, v, args: v, kick)

    def default_method(self):
        return ds.Method(integrators.Yoshida8(), step=0.05)


def bounced(t, y, args):
    return y[0], -args.restitution * y[1]


FLOOR = Event(lambda t, y, args: y[0][0], direction="down", reset=bounced, limit=8)
TURNS = Event(lambda t, y, args: y[1][0], limit=8)
BALL = Ball(jnp.array(9.81), jnp.array(5.0), jnp.array(0.8))
ADAPTIVE = ds.Method(diffrax.Tsit5())
#: Low orders are exact for a ball, and compile in half the time.
METHODS = {
    "fixed": ds.Method(diffrax.Heun(), step=0.07),
    "adaptive": ds.Method(diffrax.Bosh3()),
}


def flight(gravity, speed, restitution, t, bounces):
    """Height and speed at t, in the flight after so many bounces, in closed form."""
    launch = 0.0
    for _ in range(bounces):
        launch = launch + 2 * speed / gravity
        speed = restitution * speed
    s = t - launch
    return jnp.stack([speed * s - gravity * s**2 / 2, speed - gravity * s])


def ball(p):
    return Ball(p[0], p[1], p[2])


P0 = jnp.array([9.81, 5.0, 0.8])


def bouncing(derivatives, method):
    """What `derivatives` find after three bounces, and the closed form."""
    t = 2.6

    def run(p):
        found = ds.simulate(ball(p), t, METHODS[method], events=FLOOR, throw=False)
        return jnp.concatenate(found.states)

    def every(f):
        return jax.jit(lambda p: [d(f)(p) for d in derivatives])(P0)

    return zip(every(run), every(lambda p: flight(*p, t, 3)), strict=True)


@pytest.mark.parametrize("method", first_plain(["adaptive", "fixed"]))
def test_bouncing_ball_has_the_derivative_of_its_closed_form(method):
    for found, exact in bouncing([jax.jacfwd, jax.jacrev], method):
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_bouncing_ball_has_the_second_derivatives_of_its_closed_form(method):
    modes = [jax.hessian]
    if method == "fixed":  # the replay of adaptive steps has a test of this nesting
        modes.append(lambda f: jax.jacrev(jax.jacrev(f)))
    for found, exact in bouncing(modes, method):
        np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", first_plain(["fixed", "adaptive"]))
def test_every_bounce_is_recorded_at_its_time(method):
    times = np.linspace(0.1, 2.6, 11)
    found = ds.simulate(BALL, times, METHODS[method], events=FLOOR)
    (floor,) = found.events
    flights = 2 * 5.0 / 9.81 * 0.8 ** np.arange(3)
    assert floor.count == 3
    np.testing.assert_allclose(floor.times[:3], np.cumsum(flights), rtol=1e-12)
    assert np.all(np.isnan(floor.times[3:]))
    impact = -5.0 * 0.8 ** np.arange(3)
    np.testing.assert_allclose(floor.states[1][:3, 0], impact, rtol=1e-12)
    bounces = np.searchsorted(np.cumsum(flights), times)
    for i, (t, n) in enumerate(zip(times, bounces, strict=True)):
        expected = flight(*P0, t, n)
        np.testing.assert_allclose(found.states[0][i, 0], expected[0], atol=1e-12)
        np.testing.assert_allclose(found.states[1][i, 0], expected[1], atol=1e-11)


def turns_of(method):
    """Times of the first two turns of a spring as a function of its stiffness."""

    def turns(k):
        found = ds.simulate(Spring(k), 9.0, method, events=TURNS, throw=False)
        return found.events[0].times[:2]

    return turns


@pytest.mark.parametrize("method", first_plain([ADAPTIVE, None]))
def test_derivative_of_an_event_time_is_that_of_its_equation(method):
    """dt/dk = −π/(4 k^1.5) at the first turn, and thrice that at the next."""
    k, turns, n = 0.456, turns_of(method), np.array([1.0, 3.0])
    assert abs(-np.pi / (4 * k**1.5) - -2.550601538829664) < 1e-14
    times = n * np.pi / (2 * np.sqrt(k))
    slope = -n * np.pi / (4 * k**1.5)
    found = jax.jit(lambda k: (turns(k), jax.jacfwd(turns)(k), jax.jacrev(turns)(k)))(k)
    for have, exact in zip(found, (times, slope, slope), strict=True):
        np.testing.assert_allclose(have, exact, rtol=2e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, ADAPTIVE])
def test_second_derivative_of_an_event_time_is_that_of_its_equation(method):
    k, n = 0.456, np.array([1.0, 3.0])
    found = jax.jit(jax.jacfwd(jax.jacrev(turns_of(method))))(k)
    np.testing.assert_allclose(found, n * 3 * np.pi / (8 * k**2.5), rtol=2e-8)


def test_recorded_events_do_not_change_a_run():
    times = np.linspace(0.3, 9.0, 7)
    plain = ds.simulate(Spring(jnp.array(2.0)), times)
    found = ds.simulate(Spring(jnp.array(2.0)), times, events=TURNS)
    for a, b in zip(plain.states, found.states, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(plain.final.t, found.final.t, rtol=1e-15)
    np.testing.assert_allclose(plain.final.y[0], found.final.y[0], rtol=1e-13)


def test_steps_of_a_run_with_events_can_be_frozen(tmp_path):
    times, method = np.linspace(0.3, 3.0, 4), ds.Method(diffrax.Bosh3())
    spring = Spring(jnp.array(2.0))
    found = ds.simulate(spring, times, method, events=TURNS)
    taken = found.steps[np.isfinite(found.steps)]
    assert np.all(np.diff(taken) > 0)
    assert taken.size == found.stats["num_accepted_steps"]
    again = ds.simulate(spring, times, method.freeze_steps(found))
    np.testing.assert_allclose(again.final.y[0], found.final.y[0], rtol=1e-14)
    ds.simulations.save(tmp_path / "run.eqx", found)
    back = ds.simulations.load(tmp_path / "run.eqx")
    np.testing.assert_array_equal(back.events[0].times, found.events[0].times)


END = Event(lambda t, y, args: y[0][0], direction="down", terminal=True)


@pytest.mark.parametrize("method", first_plain(["adaptive", "fixed"]))
def test_a_terminal_event_ends_the_run(method):
    found = ds.simulate(BALL, np.array([0.5, 1.0, 1.5]), METHODS[method], events=END)
    flown = 2 * 5.0 / 9.81
    np.testing.assert_array_equal(
        np.isfinite(found.states[0][:, 0]), [True, True, False]
    )
    np.testing.assert_allclose(found.final.t, flown, rtol=1e-12)
    np.testing.assert_allclose(found.final.y[1], -5.0, rtol=1e-12)
    assert found.events[0].count == 1
    told = str(found)
    assert "successful: t = 0.5 to 1.5, " in told
    assert "event 0: 1 of up to 16, first at 1.01937" in told


def test_terminal_event_with_reset_ends_in_the_reset_state():
    caught = Event(
        END.condition,
        direction="down",
        terminal=True,
        reset=lambda t, y, args: (y[0], 0 * y[1]),
    )
    found = ds.simulate(BALL, 1.5, METHODS["fixed"], events=caught)
    np.testing.assert_allclose(found.final.t, 2 * 5.0 / 9.81, rtol=1e-12)
    np.testing.assert_array_equal(found.final.y[1], 0)


def test_condition_that_is_zero_at_the_epoch_does_not_trigger():
    """The ball starts on the floor, and comes back to it once."""
    found = ds.simulate(BALL, 1.5, METHODS["fixed"], events=Event(END.condition))
    np.testing.assert_allclose(found.events[0].times[0], 2 * 5.0 / 9.81, rtol=1e-12)
    assert found.events[0].count == 1


@pytest.mark.parametrize("method", first_plain(["fixed", "adaptive"]))
def test_terminal_event_has_the_derivative_of_its_closed_form(method):
    def landing(p):
        run = ds.simulate(ball(p), 1.5, METHODS[method], events=END, throw=False)
        return jnp.stack([run.final.t, run.final.y[1][0]])

    exact = jnp.array([[-2 * 5 / 9.81**2, 2 / 9.81, 0], [0, -1, 0]])
    found = jax.jit(lambda p: [d(landing)(p) for d in (jax.jacfwd, jax.jacrev)])(P0)
    for slope in found:
        np.testing.assert_allclose(slope, exact, rtol=1e-9, atol=1e-9)


def test_several_events_are_recorded_separately():
    """Apex and floor of each flight, in turn, of all members of a batch."""
    apex = Event(lambda t, y, args: y[1][0], direction="down")

    def run(p):
        method = METHODS["fixed"]
        found = ds.simulate(ball(p), 2.2, method, events=(apex, FLOOR), throw=False)
        return [event.times[:3] for event in found.events], found.states

    points = P0 + jnp.array([[0.0, 0, 0], [0.5, 0.2, -0.05]])
    (tops, floors), states = jax.jit(jax.vmap(run))(points)
    for i, p in enumerate(points):
        up = p[1] / p[0]
        np.testing.assert_allclose(tops[i, 0], up, rtol=1e-12)
        np.testing.assert_allclose(floors[i, 0], 2 * up, rtol=1e-12)
        np.testing.assert_allclose(tops[i, 1], 2 * up + p[2] * up, rtol=1e-12)
        state = jnp.concatenate(states, axis=1)[i]
        np.testing.assert_allclose(state, flight(*p, 2.2, 2), rtol=1e-12)


def test_apsides_of_an_orbit_are_half_a_period_apart():
    sun = ds.nbody.Bodies(
        [1.0, 0.0], [[0, 0, 0], [0.7, 0, 0]], [[0, 0, 0], [0, np.sqrt(1.3 / 0.7), 0]]
    )
    simulation = ds.nbody.NBody(sun)

    def radial(t, state, simulation):
        x, v = (a[1] - a[0] for a in (state.positions, state.velocities))
        return jnp.sum(x * v)

    apside = Event(radial)
    method = ds.Method(integrators.Yoshida6(), step=0.01)
    found = ds.simulate(simulation, 20.0, method, events=apside)
    times = found.events[0].times[: int(found.events[0].count)]
    np.testing.assert_allclose(np.diff(times), np.pi, rtol=1e-9)


def test_more_events_than_the_limit_fail_the_run():
    few = eqx.tree_at(lambda e: e, TURNS, Event(TURNS.condition, limit=2))
    with pytest.raises(RuntimeError, match="more often than can be recorded"):
        ds.simulate(Spring(jnp.array(2.0)), 30.0, events=few)


def test_events_count_where_they_are_meant():
    """v = 0 where y > 0 and where y < 0 in turns; its zeros are 2π/√k apart there."""
    high = Event(TURNS.condition, where=lambda t, y, args: y[0][0] > 0, limit=8)
    spring = Spring(jnp.array(1.0))
    for method in METHODS.values():
        found = ds.simulate(spring, 20.0, method, events=(TURNS, high))
        every, some = (record.times for record in found.events)
        assert int(found.events[1].count) == 3
        np.testing.assert_allclose(some[:3], every[:6:2], rtol=1e-14)


def test_surplus_events_can_be_passed_over():
    few = Event(TURNS.condition, limit=2, surplus="ignore")
    found = ds.simulate(Spring(jnp.array(1.0)), 20.0, events=few).events[0]
    assert int(found.count) == 2
    np.testing.assert_allclose(found.times, [np.pi / 2, 3 * np.pi / 2], rtol=1e-9)


@pytest.mark.parametrize("method", first_plain(["adaptive", "fixed"]))
def test_outputs_after_the_limit_of_resets_are_nan(method):
    """The bounces of this ball pile up before 0.72 s, more than steps allow for."""
    few = Event(FLOOR.condition, direction="down", reset=bounced, limit=2)
    times, method = np.array([0.1, 2.99, 3.0]), METHODS[method]
    low = Ball(BALL.gravity, jnp.array(0.7), BALL.restitution)
    found = ds.simulate(low, times, method, events=few, throw=False)
    assert found.result != ds.RESULTS.successful
    np.testing.assert_array_equal(np.isnan(found.states[0][:, 0]), [False, True, True])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"direction": "left"}, "direction must be 'up', 'down' or None, got 'left'"),
        ({"limit": 0}, "limit must be 1 or more, an int, got 0"),
        ({"surplus": "drop"}, "surplus must be 'fail' or 'ignore', got 'drop'"),
        (
            {"surplus": "ignore", "terminal": True},
            "leave where=None and surplus='fail'",
        ),
    ],
)
def test_invalid_options_of_an_event_raise_value_error(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Event(lambda t, y, args: t, **options)


def test_reset_that_returns_no_state_raises_value_error():
    lost = Event(FLOOR.condition, reset=lambda t, y, args: -y[1])
    with pytest.raises(ValueError, match="reset must return a state like the one"):
        ds.simulate(BALL, 1.0, METHODS["fixed"], events=lost)


def test_nan_condition_during_the_run_fails_it():
    rooted = Event(lambda t, y, args: jnp.sqrt(0.5 - y[0][0]))
    with pytest.raises(RuntimeError, match="The condition of an event was not a"):
        ds.simulate(BALL, 1.0, METHODS["fixed"], events=rooted)


@pytest.mark.parametrize("method", first_plain(["adaptive", "fixed"]))
def test_nan_condition_behind_a_reset_fails_the_run(method):
    rooted = Event(lambda t, y, args: jnp.sqrt(1.5 - t) + 1)
    found = ds.simulate(BALL, 2.0, METHODS[method], events=(FLOOR, rooted), throw=False)
    assert found.result == ds.RESULTS.event_not_finite


@pytest.mark.parametrize("end", first_plain([2.48, 2.4]))
def test_nan_condition_after_the_last_output_does_not_fail_the_run(end):
    """Fixed steps go on there: to a third bounce at 2.487, and to a root of t - 2.5."""
    two = Event(FLOOR.condition, direction="down", reset=bounced, limit=2)
    rooted = Event(lambda t, y, args: jnp.sqrt(2.5 - t) - 2)
    found = ds.simulate(BALL, end, METHODS["fixed"], events=(two, rooted), throw=False)
    assert found.result == ds.RESULTS.successful
    expected = flight(*P0, end, 2)
    np.testing.assert_allclose(found.states[0][0], expected[0], atol=1e-12)


@pytest.mark.parametrize("method", first_plain(["fixed", "adaptive"]))
def test_nan_state_is_not_reported_as_a_nan_condition(method):
    lost = eqx.tree_at(lambda b: b.gravity, BALL, jnp.array(jnp.nan))
    found = ds.simulate(lost, 0.5, METHODS[method], events=FLOOR, throw=False)
    assert found.result != ds.RESULTS.successful
    assert found.result != ds.RESULTS.event_not_finite


def test_runs_without_event_detection_raise_value_error():
    spring = Spring(jnp.array(2.0))
    with pytest.raises(ValueError, match="events need concrete times after"):
        ds.simulate(spring, np.array([-1.0, 1.0]), events=TURNS)
    adjoint = ds.simulations.Reversible()
    method = ds.Method(integrators.Leapfrog(), step=0.1, adjoint=adjoint)
    with pytest.raises(ValueError, match="events need all steps, which Reversible"):
        ds.simulate(spring, 1.0, method, events=TURNS)
    with pytest.raises(ValueError, match=r"events must be simulations\.Event"):
        ds.simulate(spring, 1.0, events=lambda t, y, args: t)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (lambda t, y, args: y[0][0] > 0, r"got bool of shape \(\)"),
        (lambda t, y, args: y[0], r"got float64 of shape \(1,\)"),
    ],
)
def test_condition_that_is_not_a_float_scalar_raises_value_error(condition, found):
    with pytest.raises(ValueError, match=f"one floating number .* {found}"):
        ds.simulate(Spring(jnp.array(2.0)), 1.0, events=Event(condition))


class Free(ds.AbstractSimulation):
    """Away from the origin, where its distance has no derivative."""

    velocity: jax.Array
    radius: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.zeros_like(self.velocity), self.velocity

    def terms(self):
        return diffrax.ODETerm(lambda t, y, a: (y[1], 0 * y[1]))

    def default_method(self):
        return METHODS["fixed"]


def test_events_that_do_not_happen_leave_derivatives_finite():
    leaves = Event(
        lambda t, y, a: jnp.linalg.norm(y[0]) - a.radius, direction="up", limit=3
    )

    def run(p):
        found = ds.simulate(Free(p[:3], p[3]), 2.0, METHODS["fixed"], events=leaves)
        return jnp.append(found.states[0], found.events[0].times[0])

    p = jnp.array([1.0, 2.0, 2.0, 1.5])
    slope = jax.jit(jax.jacrev(run))(p)
    np.testing.assert_allclose(slope[:3, :3], 2 * np.eye(3), atol=1e-12)
    exact = np.append(-p[3] / 27 * p[:3], 1 / 3)
    np.testing.assert_allclose(slope[3], exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"condition": lambda t, y: y[0]}, r"condition must take \(t, state, sim"),
        ({"reset": lambda y: y}, r"reset must take \(t, y, simulation\), got"),
        ({"limit": True}, "limit must be 1 or more, an int, got True"),
    ],
)
def test_invalid_signatures_of_an_event_raise_value_error(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Event(**{"condition": END.condition} | given)
