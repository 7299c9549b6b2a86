"""Derivatives along recorded steps are those of the run that took them."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import integrators
from diffsim.simulations import AbstractSimulation, IMEXTerm, Method, simulate
from diffsim.simulations._integrate import _replay


#: Beside Dopri5, by which the other tests are.
_SOLVERS = [diffrax.Tsit5(), diffrax.Dopri8(), diffrax.Bosh3()]
_IMPLICIT = [integrators.KenCarp5(), integrators.Kvaerno3(), integrators.KenCarp3()]
_TIMES = {
    "several in a step": [0.0, 0.2, 0.21, 0.22, 0.23, 1.4, 1.41, 3.0],
    "before and after": [-1.3, -0.2, 0.7, 2.0],
    "before": [-2.0, -1.9, -0.1],
    "the epoch alone": [0.0],
    "one": [2.5],
}


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


def _method(solver, adjoint=None, max_steps=256, tolerance=1e-7):
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


def _one_by_one(method, times, *, traced=False):
    """What runs to one output each give, by Diffrax: all steps but the last are alike.

    A run with its outputs between steps would have those of an interpolant.
    """
    given = jnp.asarray(times)
    farthest = -1 if given[-1] > 0 else 0

    def run(leaves):
        k, start, t0, moved = leaves
        t0, moved = (t0, moved) if traced else (0.0, given)

        def one(t):
            simulation = _pendulum(k, start, t0=t0)
            x, v = simulate(simulation, t[None], method).states
            # Where there is no step at all Diffrax's runs do not move with the time.
            moved = jnp.where(t == t0, t - t0, 0)
            rate = simulation.terms().vf(t0, simulation.initial_state(), None)
            speed = jnp.stack([rate[0], rate[1]["v"][0]])
            held, found = jax.lax.stop_gradient(moved), jnp.stack([x[0], v["v"][0, 0]])
            return found + (moved - held) * speed, found

        states, ends = jax.vmap(one)(moved)
        return jnp.concatenate([*states.T, ends[farthest]])

    return run


def _close(a, b, rtol=1e-10):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        scale = max(1.0, float(jnp.max(jnp.abs(y), initial=0)))
        np.testing.assert_allclose(x, y, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize(
    ("place", "traced"),
    [
        # Both kinds of what is most and of runs both ways, each other place once.
        ("several in a step", False),
        ("before and after", False),
        ("before", False),
        ("one", False),
        ("several in a step", True),
        ("before and after", True),
        ("the epoch alone", True),
    ],
    ids=lambda x: {False: "known times", True: "traced times"}.get(x, x),
)
def test_replayed_derivatives_agree_with_diffrax_in_both_modes(place, traced):
    times = _TIMES[place]
    run, leaves = _run(_method(diffrax.Dopri5()), times, traced=traced)
    theirs = _method(diffrax.Dopri5(), adjoint=diffrax.ForwardMode())
    one_by_one = _one_by_one(theirs, times, traced=traced)
    expected = jax.jit(jax.jacfwd(one_by_one))(leaves)
    _close(jax.jacfwd(run)(leaves), expected)
    _close(jax.jacrev(run)(leaves), expected)


@pytest.mark.parametrize("solver", _SOLVERS, ids=lambda s: type(s).__name__)
def test_derivatives_of_every_explicit_solver_agree_with_diffrax(solver):
    times = _TIMES["several in a step"]
    run, leaves = _run(_method(solver, tolerance=1e-5), times)
    theirs = _method(solver, diffrax.ForwardMode(), tolerance=1e-5)
    expected = jax.jit(jax.jacfwd(_one_by_one(theirs, times)))(leaves)
    _close(jax.jacfwd(run)(leaves), expected)
    _close(jax.jacrev(run)(leaves), expected)


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


@pytest.mark.parametrize("times", [[0.1, 0.11, 0.9], [-0.1, -0.02]])
@pytest.mark.parametrize("solver", _IMPLICIT, ids=lambda s: type(s).__name__)
def test_derivatives_of_implicit_solvers_agree_with_diffrax(solver, times):
    def run(adjoint):
        method = _method(solver, adjoint, tolerance=1e-5)

        def states(point):
            simulation = Relaxing(*point, explicit=solver.split)
            return simulate(simulation, times, method).states

        return states

    point = jnp.asarray(2.0), jnp.array([1.0, -0.3])
    expected = jax.jit(jax.jacfwd(run(diffrax.ForwardMode())))(point)
    _close(jax.jacfwd(run(None))(point), expected, rtol=1e-9)
    _close(jax.jacrev(run(None))(point), expected, rtol=1e-9)


@pytest.mark.parametrize("max_steps", [1, 2, 3, 40])
def test_derivatives_are_right_for_any_max_steps(max_steps):
    """Where the steps do not suffice what was reached has its derivative."""
    method = _method(diffrax.Dopri5(), max_steps=max_steps, tolerance=1e-2)

    def final(k):
        found = simulate(_pendulum(k), [0.01], method, throw=False)
        return found.states[0][0]

    k = jnp.asarray(1.2)
    forward, reverse = jax.jacfwd(final)(k), jax.jacrev(final)(k)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10)


def test_derivatives_of_runs_beyond_one_checkpoint_are_right():
    """More than twice as many steps as lie between two of them."""
    method = _method(diffrax.Tsit5(), max_steps=2000, tolerance=1e-9)
    run, leaves = _run(method, [5.0, 12.0])
    assert simulate(_pendulum(), [12.0], method).stats["num_accepted_steps"] > 120
    _close(jax.jacrev(run)(leaves), jax.jacfwd(run)(leaves), rtol=1e-9)


def test_batched_derivatives_equal_single_derivatives():
    """Members take different numbers of steps."""
    run, leaves = _run(_method(diffrax.Dopri5()), [0.5, 6.0])

    def loss(k):
        return jnp.sum(run((k, *leaves[1:])) ** 2)

    ks = jnp.array([0.1, 1.2, 2.5])
    for derivative in (jax.grad(loss), jax.jacfwd(loss)):
        each = jnp.stack([derivative(k) for k in ks])
        np.testing.assert_allclose(jax.vmap(derivative)(ks), each, rtol=1e-10)


def test_derivatives_beyond_the_memory_limit_are_right(monkeypatch):
    monkeypatch.setattr(_replay, "_MEMORY", 0)
    # Of a tolerance of its own: nothing that was compiled before serves it.
    run, leaves = _run(_method(diffrax.Dopri5(), tolerance=3e-7), [0.5, 2.0])
    _close(jax.jacrev(run)(leaves), jax.jacfwd(run)(leaves))


@pytest.mark.slow
def test_second_derivatives_are_right():
    run, leaves = _run(_method(diffrax.Dopri5()), [0.5, 2.0])
    theirs = _method(diffrax.Dopri5(), adjoint=diffrax.DirectAdjoint())
    exact = _one_by_one(theirs, [0.5, 2.0])

    def loss(run):
        return lambda k: jnp.sum(run((k, *leaves[1:])) ** 2)

    expected = jax.jacfwd(jax.jacfwd(loss(exact)))(leaves[0])
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            found = outer(inner(loss(run)))(leaves[0])
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
