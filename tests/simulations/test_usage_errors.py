"""What is wrong in a call of `simulations` is said in one sentence."""

import dataclasses

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from given_terms import Given, ode
from sentences import of, options, pairs, raises, table

from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.simulations import (
    Checkpointed,
    Event,
    Method,
    Reversible,
    Separable,
    StateAxes,
    simulate,
)


THREE, PAIR = jnp.ones(3), (jnp.ones(3), jnp.ones(3))
SEPARABLE = Separable(lambda t, v, args: v, lambda t, x, args: -x)
FIXED, ADAPTIVE = Method(diffrax.Tsit5(), 0.1), Method(diffrax.Tsit5(), max_steps=64)
LEAPFROG, PID = Method(Leapfrog(), 0.1), diffrax.PIDController(rtol=1e-8, atol=1e-8)
REVERSIBLE = Method(Leapfrog(), 0.1, adjoint=Reversible(), max_steps=20)
RECURSIVE = diffrax.RecursiveCheckpointAdjoint()
LINEAR = Method(Yoshida4(), 0.05, adjoint=RECURSIVE, max_steps=40)
CLOCK = 1_700_000_000_000_000_000  # nanoseconds, of which doubles tell every 256th
ROUNDED = r"times must be held .* integer \d+, which it rounds to \d+; count from"
SINGLE = THREE.astype(jnp.float32)


def run(times=1.0, method=LEAPFROG, t0=0.0, **options):
    return simulate(Given(PAIR, SEPARABLE, t0), times, method, **options)


def turn(t, y, args):
    return y[0][0]


def ended(x):
    return simulate(Given((x, x), SEPARABLE), 1.0, ADAPTIVE, throw=False)


def frozen(times, *, t0=0.0, **options):
    """With the steps of a run from 0 to 1."""
    return run(times, ADAPTIVE.freeze_steps(run([0.5, 1.0], ADAPTIVE)), t0, **options)


@pytest.mark.parametrize("method", [FIXED, ADAPTIVE], ids=["fixed", "adaptive"])
@table(
    of(
        lambda given, method: simulate(Given(*given), 1.0, method),
        ((THREE, ode(lambda y: -y.sum())), r"float64 of shape \(3,\), got .* \(\); "),
        ((THREE, ode(lambda y: -y[:1])), r"shape \(3,\), got float64 of shape \(1,\)"),
        ((THREE[:1], ode(lambda y: jnp.ones(3))), r"shape \(1,\), got .* shape \(3,\)"),
        (
            (SINGLE, ode(lambda y: -y * np.ones(3))),
            r"float32 of shape \(3,\), got float64 of shape \(3,\); nothing is .* cast",
        ),
        (
            (PAIR, ode(lambda y: [y[1], -y[0]])),
            "must return the structure of the state",
        ),
        (
            (PAIR, Separable(lambda t, v, args: v, lambda t, x, args: -x.sum())),
            r"what state\[1\] is, .*, got float64 of shape \(\)",
        ),
        ((THREE, SEPARABLE), r"that is a tuple \(x, v\), got an array"),
        ((THREE, jnp.sin), r"terms\(\) must return a Diffrax term, got a .*ODETerm"),
        ((THREE, None), r"terms\(\) must return a Diffrax term, got a NoneType"),
        (
            ((SINGLE, THREE), ode(lambda y: y)),
            "of one precision, got float32 and float64",
        ),
    ),
    of(
        lambda t0, method: run(method=method, t0=t0),
        (np.nan, "t0 must be finite, got"),
        (np.inf, "t0 must be finite, got"),
        (jnp.asarray(np.nan), "t0 must be finite, got"),
        (jnp.asarray(np.inf), "t0 must be finite, got"),
    ),
    of(
        lambda times, method: run(times, method, CLOCK),
        (CLOCK + np.array([10, 50, 100]), ROUNDED),
        ([CLOCK + 10, CLOCK + 50], ROUNDED),
        (CLOCK + 10, ROUNDED),
        (np.uint64(CLOCK + 10), ROUNDED),
        (2**63 - 1, ROUNDED),
    ),
)
def test_mistake_raises_value_error_whatever_the_steps(method, call, words):
    raises(ValueError, lambda: call(method), words)


@pytest.mark.parametrize("adjoint", [None, diffrax.DirectAdjoint()])
@table(
    of(
        lambda given, adjoint: simulate(
            Given(PAIR, given[1]), 1.0, Method(given[0], 0.1, adjoint=adjoint)
        ),
        (
            (diffrax.SemiImplicitEuler(), SEPARABLE),
            "SemiImplicitEuler needs a tuple of 2 terms; got Separable. Take",
        ),
        (
            (diffrax.KenCarp3(), ode(lambda y: y)),
            "KenCarp3 needs MultiTerm dynamics, an explicit and an .*Kvaerno5",
        ),
        (
            (Leapfrog(), diffrax.MultiTerm(ode(lambda y: y), ode(lambda y: y))),
            "Leapfrog needs Separable dynamics, .* got MultiTerm. Take",
        ),
        ((Yoshida4(), ode(lambda y: y)), r"Yoshida4 needs Separable dynamics.*Dopri8"),
    )
)
def test_terms_that_do_not_fit_the_solver_raise_value_error(adjoint, call, words):
    raises(ValueError, lambda: call(adjoint), words)


@table(
    of(
        options(Method, Leapfrog(), step=0.1),
        ({"step": None}, "Leapfrog has no error estimate .* give Method"),
        ({"step": -0.1}, "step must be positive, got -0.1"),
        ({"step": 0.0}, "step must be positive, got 0.0"),
        ({"step": np.inf}, r"step must be (positive|finite), got"),
        ({"step": np.nan}, r"step must be (positive|finite), got"),
        ({"step": jnp.asarray(0.1)}, "step"),
        ({"step": True}, "step"),
        ({"step": None, "controller": PID}, "Leapfrog runs at fixed steps only"),
        ({"max_steps": 0}, "max_steps must be a whole number from 1, got 0"),
        ({"controller": 1e-6}, "controller must be an object such as"),
        ({"adjoint": "reversible"}, "adjoint must be an object such as"),
        ({"adjoint": Reversible}, "adjoint must be an object such as"),
    ),
    of(
        lambda times: run(times),
        ([0.0, 2.0, 1.0], "times must ascend, got 2.0 before 1.0"),
        ([0.0, np.nan], "times must be finite"),
        ([0.0, np.inf], "times must be finite"),
        ([], r"times must have shape .* one or more, got \(0,\)"),
        ([[0.0, 1.0]], r"times must have shape .* one or more, got \(1, 2\)"),
        ([1j], "times must be real numbers"),
        (["now"], "times must be real numbers"),
    ),
    of(
        options(run),
        ({"rtol": 1e-3}, "rtol=0.001 changes the default method, and method=Leapfrog"),
        ({"step": 0.1}, r"write it into that, Method\(..., step=...\)"),
        ({"max_steps": 9}, "max_steps=9 changes the default method"),
        ({"method": None, "step": 0.1, "rtol": 1e-3}, "give one"),
        ({"method": None, "rtol": 0.0}, "rtol must be positive"),
    ),
    of(
        lambda times: frozen(times),
        ([1.5], "freeze those of a run that goes as far"),
        ([-0.5, 1.0], "freeze those of a run that goes as far"),
        ([-1.0], "freeze those of a run that goes as far"),
    ),
    of(
        lambda t0: run(float(CLOCK), t0=t0),
        (CLOCK + 1, r"t0 must be held .* nearer epoch"),
        (np.int64(CLOCK + 1), r"t0 must be held .* nearer epoch"),
        (np.asarray(CLOCK + 1), r"t0 must be held .* nearer epoch"),
        (jnp.asarray(CLOCK + 1), r"t0 must be held .* nearer epoch"),
    ),
    of(
        options(Event, lambda t, y, args: t),
        ({"direction": "left"}, "direction must be 'up', 'down' or None, got 'left'"),
        ({"limit": 0}, "limit must be 1 or more, an int, got 0"),
        ({"limit": True}, "limit must be 1 or more, an int, got True"),
        ({"surplus": "drop"}, "surplus must be 'fail' or 'ignore', got 'drop'"),
        (
            {"surplus": "ignore", "terminal": True},
            "leave where=None and surplus='fail'",
        ),
        ({"reset": lambda y: y}, r"reset must take \(t, y, simulation\), got"),
    ),
    of(
        lambda condition: run(events=Event(condition)),
        (
            lambda t, y, args: y[0][0] > 0,
            r"one floating number .* got bool of shape \(\)",
        ),
        (
            lambda t, y, args: y[0],
            r"one floating number .* got float64 of shape \(3,\)",
        ),
    ),
    pairs(
        lambda: Event(lambda t, y: y[0]),
        r"condition must take \(t, state, sim",
        lambda: run(events=Event(turn, reset=lambda t, y, args: -y[1])),
        "reset must return a state like the one",
        lambda: run([-1.0, 1.0], events=Event(turn)),
        "events need concrete times after",
        lambda: run(method=REVERSIBLE, events=Event(turn)),
        "events need all steps, which Reversible",
        lambda: run(events=lambda t, y, args: t),
        r"events must be simulations\.Event",
        lambda: Method(Leapfrog(), 0.1, controller=PID),
        "Leapfrog runs at fixed steps only, got the controller PIDController: "
        "it has no error estimate to follow",
        lambda: Method(diffrax.Dopri8(), 0.1, adjoint=Reversible()),
        "Reversible needs a time-symmetric solver, got Dopri8",
        lambda: Method(diffrax.Dopri8(), adjoint=Checkpointed()),
        "Checkpointed belongs to fixed steps",
        lambda: Method(Leapfrog, 0.1),
        "solver must be an object such as",
        lambda: Checkpointed(0),
        "segments must be at least 1, got 0",
        lambda: simulate(
            Given((SINGLE,) * 2, SEPARABLE), 1.0, Method(Yoshida4(), 1e60)
        ),
        r"step must lie between .* float32 can hold",
        lambda: jax.jit(lambda x: ADAPTIVE.freeze_steps(ended(x)))(THREE),
        "freeze_steps needs the steps of a concrete",
        lambda: frozen([1.0], t0=-3.0),
        "freeze those of a run that goes as far",
        lambda: frozen(1.0, error_estimate=True),
        "error_estimate=True repeats a run",
        lambda: jax.jit(lambda t: run(t, REVERSIBLE).states)(jnp.array([0.5])),
        "Reversible needs concrete times",
        lambda: jax.jit(lambda t: run(t).states)(1.0),
        r"give Method\(max_steps=...\)",
        lambda: jax.grad(lambda t0: run(t0=t0).states[0][0])(0.5),
        "times or t0 are traced",
        lambda: jax.jit(lambda t: run(t, LINEAR).states)(0.51),
        r"Yoshida4 under Recursive.*adjoint=None",
        lambda: run(0.51, LINEAR, jnp.asarray(0.0)),
        "a t0 that is an array, may lie off it",
        lambda: run(start=dataclasses.replace(run().final, y=(THREE[:2],) * 2)),
        r"start holds a state of shapes \(\(2,\)",
        lambda: simulate(Given((), ode(lambda y: y)), 1.0),
        "must hold at least one array",
        lambda: StateAxes(("a", "a")),
        r"names must differ, got \('a', 'a'\)",
        lambda: StateAxes("a", entries={"s": np.array([1, 2], "M8[D]")}),
        "entries must be plain numbers, got dates",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)
