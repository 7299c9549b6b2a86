"""Derivatives along recorded steps are those of the run that took them."""

import functools
import itertools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import _tuning, integrators
from diffsim.simulations import AbstractSimulation, IMEXTerm, Method, simulate


_IMPLICIT = [integrators.KenCarp3(), integrators.Kvaerno3(), integrators.KenCarp5()]
_TIMES = {
    "several in a step": [0.0, 0.2, 0.21, 0.22, 0.23, 1.4, 1.41, 3.0],
    "before and after": [-1.3, -0.2, 0.7, 2.0],
    "before": [-2.0, -1.9, -0.1],
    "the epoch alone": [0.0],
    "one": [2.5],
}
_NESTINGS = list(itertools.product((jax.jacfwd, jax.jacrev), repeat=2))


class Hidden(AbstractSimulation):
    """A driven pendulum whose rate closes over its numbers."""

    k: jax.Array
    start: jax.Array
    unused: jax.Array
    t0: float | jax.Array = 0.0

    def initial_state(self):
        return self.start[0], {"v": self.start[1:]}

    def terms(self):
        # Worked out once a run, and no leaf of the term.
        k, drive = jnp.sin(self.k) + 2, 0.1 * self.k

        def rate(t, y, args):
            x, v = y
            return v["v"][0], {"v": (-k * jnp.sin(x) + drive * jnp.cos(t))[None]}

        return diffrax.ODETerm(rate)

    def default_method(self):
        return _method(diffrax.Dopri5())


def _method(solver, adjoint=None, max_steps=256, tolerance=1e-5):
    controller = diffrax.PIDController(rtol=tolerance, atol=tolerance)
    return Method(solver, controller=controller, adjoint=adjoint, max_steps=max_steps)


def _pendulum(k=1.2, start=(1.0, 0.3), **options):
    k, start = jnp.asarray(k), jnp.asarray(start)
    return Hidden(k=k, start=start, unused=jnp.zeros(2), **options)


def _run(method, times, *, traced=False):
    def run(leaves):
        k, start, t0, moved = leaves
        if traced:
            simulation = _pendulum(k, start, t0=t0)
            found = simulate(simulation, moved, method)
        else:
            found = simulate(_pendulum(k, start), times, method)
        x, v = found.states
        end = jnp.concatenate([found.final.y[0][None], found.final.y[1]["v"]])
        return jnp.concatenate([x, v["v"][:, 0], end])

    leaves = jnp.asarray(1.2), jnp.array([1.0, 0.3]), jnp.asarray(0.0)
    return run, (*leaves, jnp.asarray(times))


def _at_one_time(solver, leaves):
    """An output at one time and the end there, by Diffrax."""
    k, start, t0, t = leaves
    simulation = _pendulum(k, start)
    y0, rate = simulation.initial_state(), simulation.terms().vector_field
    y = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda since, y, args: rate(t0 + since, y, args)),
        solver,
        jnp.zeros(()),
        t - t0,
        None,
        y0,
        stepsize_controller=_method(solver).controller,
        adjoint=diffrax.ForwardMode(),
        max_steps=256,
    ).ys
    end = jnp.concatenate([y[0], y[1]["v"][0]])
    # Where there is no step at all Diffrax's runs do not move with the time.
    moved, speed = jnp.where(t == t0, t - t0, 0), rate(t0, y0, None)
    speed = jnp.stack([speed[0], speed[1]["v"][0]])
    return end + (moved - jax.lax.stop_gradient(moved)) * speed, end


def _one_by_one(solver, leaves, *, traced):
    """Jacobians of runs to one output each: all steps but the last are alike.

    A run with its outputs between steps would have those of an interpolant.
    """
    *given, times = leaves
    jacobians = jax.jit(jax.jacfwd(functools.partial(_at_one_time, solver)))
    each = [jacobians((*given, t)) for t in times]
    found = jax.tree.map(lambda *rows: np.stack(rows), *each)
    own = np.eye(times.size)[:, None]
    states, ends = ((*some, rate[..., None] * own) for *some, rate in found)
    last, moves = -1 if times[-1] > 0 else 0, (1, 1, traced, traced)
    return tuple(
        is_moved * np.concatenate([a[:, 0], a[:, 1], b[last]])
        for is_moved, a, b in zip(moves, states, ends, strict=True)
    )


def _both_modes(run, leaves):
    both = jax.jit(lambda x: (jax.jacfwd(run)(x), jax.jacrev(run)(x)))
    return both(leaves)


def _close(a, b, rtol=1e-10):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        scale = max(1.0, float(jnp.max(jnp.abs(y), initial=0)))
        np.testing.assert_allclose(x, y, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize(
    ("solver", "place", "traced"),
    first_plain(
        [
            # Times that are traced lie on both sides, one of which is empty here.
            (diffrax.Dopri5(), "several in a step", True),
            # Its stages are in a loop.
            (diffrax.Dopri8(), "before and after", False),
            (diffrax.Dopri5(), "before and after", True),
            (diffrax.Dopri5(), "the epoch alone", True),
            (diffrax.Dopri5(), "before", False),
            (diffrax.Dopri5(), "one", False),
            (diffrax.Tsit5(), "several in a step", False),
            (diffrax.Bosh3(), "several in a step", False),
        ],
        2,
    ),
    ids=lambda x: {False: "known times", True: "traced times"}.get(
        x, x if isinstance(x, str) else type(x).__name__
    ),
)
def test_replayed_derivatives_agree_with_diffrax_in_both_modes(solver, place, traced):
    run, leaves = _run(_method(solver), _TIMES[place], traced=traced)
    expected = _one_by_one(solver, leaves, traced=traced)
    for found in _both_modes(run, leaves):
        _close(found, expected)


class Relaxing(AbstractSimulation):
    """A stiff fall onto a curve, which knows how to solve for its implicit part."""

    rate: jax.Array
    start: jax.Array
    explicit: bool = eqx.field(static=True)
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        # Worked out once a run, and no leaf of the term.
        rate = jnp.exp(self.rate)

        def fall(t, y, args):
            return -rate * y

        def solve(t, rhs, length, guess, args):
            return rhs / (1 + length * rate)

        def drive(t, y, args):
            return jnp.cos(t + y[::-1])

        return IMEXTerm(fall, solve, explicit=drive if self.explicit else None)

    def default_method(self):
        return _method(integrators.KenCarp4())


@pytest.mark.parametrize("times", first_plain([[0.1, 0.11, 0.9], [-0.1, -0.02]]))
@pytest.mark.parametrize(
    "solver", first_plain(_IMPLICIT), ids=lambda s: type(s).__name__
)
def test_derivatives_of_implicit_solvers_agree_with_diffrax(solver, times):
    def run(adjoint):
        method = _method(solver, adjoint)

        def states(point):
            simulation = Relaxing(*point, explicit=solver.split)
            return simulate(simulation, times, method).states

        return states

    point = jnp.asarray(2.0), jnp.array([1.0, -0.3])
    expected = jax.jit(jax.jacfwd(run(diffrax.ForwardMode())))(point)
    for found in _both_modes(run(None), point):
        _close(found, expected, rtol=1e-9)


@pytest.mark.parametrize("max_steps", first_plain([1, 2, 3, 40]))
def test_derivatives_are_right_for_any_max_steps(max_steps):
    """Where the steps do not suffice what was reached has its derivative."""
    method = _method(diffrax.Dopri5(), max_steps=max_steps, tolerance=1e-2)

    def final(k):
        found = simulate(_pendulum(k), [0.01], method, throw=False)
        return found.states[0][0]

    forward, reverse = _both_modes(final, jnp.asarray(1.2))
    np.testing.assert_allclose(forward, reverse, rtol=1e-10)


def test_derivatives_of_runs_beyond_one_checkpoint_are_right():
    """More than twice as many steps as lie between two of them."""
    method = _method(diffrax.Tsit5(), max_steps=2000, tolerance=1e-9)
    run, leaves = _run(method, [5.0, 12.0])
    assert simulate(_pendulum(), [12.0], method).stats["num_accepted_steps"] > 120
    _close(*_both_modes(run, leaves), rtol=1e-9)


def test_batched_derivatives_equal_single_derivatives():
    """Members take different numbers of steps."""
    run, leaves = _run(_method(diffrax.Dopri5()), [0.5, 6.0])

    def loss(k):
        return jnp.sum(run((k, *leaves[1:])) ** 2)

    def both(k):
        return jnp.stack([jax.grad(loss)(k), jax.jacfwd(loss)(k)])

    ks = jnp.array([0.1, 1.2, 2.5])
    each = list(map(jax.jit(both), ks))
    np.testing.assert_allclose(jax.jit(jax.vmap(both))(ks), each, rtol=1e-10)


def test_derivatives_beyond_the_memory_limit_are_right(monkeypatch):
    monkeypatch.setattr(_tuning, "KEPT_BYTES", 0)
    # Of a tolerance of its own: nothing that was compiled before serves it.
    run, leaves = _run(_method(diffrax.Heun(), tolerance=3e-4), [0.5, 2.0])
    _close(*_both_modes(run, leaves))


@pytest.mark.parametrize(
    "nestings", first_plain([_NESTINGS[1:2], _NESTINGS]), ids=["one", "every"]
)
def test_second_derivatives_are_right(nestings):
    solver, times = diffrax.Bosh3(), [0.5, 2.0]
    run, leaves = _run(_method(solver), times)

    def loss(k):
        return jnp.sum(run((k, *leaves[1:])) ** 2)

    def exact(k, t):
        """Of one output and of the end, each of which counts at the last time."""
        of_output, end = _at_one_time(solver, (k, *leaves[1:3], t))
        return jnp.sum(of_output**2) + jnp.where(t == times[-1], jnp.sum(end**2), 0)

    expected = jax.jit(jax.jacfwd(jax.jacfwd(exact)))
    expected = sum(expected(leaves[0], t) for t in times)
    every = jax.jit(lambda k: [outer(inner(loss))(k) for outer, inner in nestings])
    for found in every(leaves[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_no_loop_of_a_gradient_runs_to_max_steps():
    """Read from the jaxpr: no scan has as many turns as steps are allowed."""
    run, leaves = _run(_method(diffrax.Dopri5(), max_steps=3001), [0.5, 2.0])
    lengths = []

    def look(jaxpr):
        for eqn in jaxpr.eqns:
            lengths.append(eqn.params.get("length", 0))
            for inner in jax.tree.leaves(list(eqn.params.values())):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    look(inner)

    gradient = jax.make_jaxpr(jax.grad(lambda x: jnp.sum(run(x) ** 2)))(leaves)
    look(gradient.jaxpr)
    assert lengths
    assert max(lengths) < 100


def test_unused_parameters_have_zero_gradient():
    def loss(simulation):
        found = simulate(simulation, [0.5], _method(diffrax.Dopri5()))
        return found.states[0][0]

    found = eqx.filter_grad(loss)(_pendulum())
    np.testing.assert_array_equal(found.unused, 0)
    assert found.k != 0


class Decay(AbstractSimulation):
    y0: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.y0

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: -y)

    def default_method(self):
        return Method(diffrax.Tsit5())


def test_outputs_of_large_states_before_the_epoch_are_the_solution():
    # Beyond 4096 numbers a state is not packed; outputs lie inside of the steps.
    times = np.array([-1.0, -0.77, -0.3])
    states = simulate(Decay(jnp.ones(5000)), times).states
    np.testing.assert_allclose(states[:, 0], np.exp(-times), rtol=1e-7)
