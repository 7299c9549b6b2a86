"""Adaptive steps are those that `diffrax.diffeqsolve` takes."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import integrators, nbody, problems
from diffsim._jaxpr._tracing import closure_convert
from diffsim._results import RESULTS
from diffsim._validation import is_traced
from diffsim.simulations import AbstractSimulation, Method, simulate


_TIMES = {
    "before": [-0.1, -1.9, -2.0],
    "the epoch alone": [0.0],
    "several in a step": [0.0, 0.2, 0.21, 0.22, 0.23, 1.4, 1.41, 3.0],
    "after": [2.5],
}
#: With an interpolant, without one, and those whose last stage is the next first one.
_SOLVERS = [
    diffrax.HalfSolver(diffrax.Midpoint()),
    diffrax.Heun(),
    diffrax.Bosh3(),
    diffrax.Tsit5(),
    diffrax.Dopri8(),
]


class Pendulum(AbstractSimulation):
    """A driven pendulum, in an array and a dict."""

    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start[0], {"v": self.start[1:]}

    def terms(self):
        return diffrax.ODETerm(_rate)

    def default_method(self):
        return Method(diffrax.Dopri5())


def _rate(t, y, args):
    x, v = y
    return v["v"][0], {"v": (0.1 * jnp.cos(t) - 2 * jnp.sin(x))[None]}


def _start(dtype=float):
    return Pendulum(jnp.asarray([1.0, 0.3], dtype))


def _controller(**options):
    return diffrax.PIDController(**{"rtol": 1e-6, "atol": 1e-6} | options)


def _by_diffrax(simulation, times, method, max_steps=4096):
    """A run, with outputs by a step of their own from the one before."""
    times = jnp.asarray(times, simulation.start.dtype)
    saved = {
        "states": diffrax.SubSaveAt(ts=times),
        "ends": diffrax.SubSaveAt(steps=True, fn=lambda t, y, args: t),
        "steps": diffrax.SubSaveAt(t0=True, steps=True, fn=lambda t, y, args: (t, y)),
    }
    found = diffrax.diffeqsolve(
        simulation.terms(),
        method.solver,
        jnp.zeros((), times.dtype),
        times[-1],
        method.step,
        simulation.initial_state(),
        saveat=diffrax.SaveAt(subs=saved),
        stepsize_controller=method.controller,
        max_steps=max_steps,
        throw=False,
    )
    if isinstance(getattr(method.solver, "tableau", None), diffrax.ButcherTableau):
        taken, states = found.ys["steps"]
        behind = np.where(np.isfinite(taken), np.abs(taken), np.inf)
        at = np.searchsorted(behind, np.abs(np.asarray(times))) - 1
        terms, reached = simulation.terms(), np.asarray(found.ys["ends"])
        last = np.max(np.abs(reached[np.isfinite(reached)]), initial=0)

        def state(t, n):
            start, y = jax.tree.map(lambda a: a[n], (taken, states))
            memory = method.solver.init(terms, start, t, y, None)
            found = method.solver.step(terms, start, t, y, None, memory, False)[0]
            there = jnp.abs(t) <= last
            return jax.tree.map(lambda a: jnp.where(there, a, jnp.inf), found)

        found.ys["states"] = jax.jit(jax.vmap(state))(times, np.maximum(at, 0))
    return found


def _assert_alike(found, known, order, tolerance=1e-12, of_steps=1e-6):
    for name, count in found.stats.items():
        assert count == known.stats[name], name
    ends = np.sort(np.where(np.isfinite(known.ys["ends"]), known.ys["ends"], np.inf))
    taken = np.isfinite(ends)
    steps = np.asarray(found.steps)[: ends.size]
    np.testing.assert_array_equal(np.isfinite(steps), taken)
    # Steps follow the error, most of which is rounding where they are short.
    np.testing.assert_allclose(steps[taken], ends[taken], rtol=of_steps)
    pairs = zip(
        jax.tree.leaves(found.states), jax.tree.leaves(known.ys["states"]), strict=True
    )
    for a, b in pairs:
        b = np.asarray(b)[order]
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "solver", first_plain(_SOLVERS, 2), ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("place", first_plain(_TIMES))
def test_adaptive_run_takes_the_steps_of_diffrax(place, solver):
    times = _TIMES[place]
    method, order = Method(solver, controller=_controller()), np.argsort(times)
    found = simulate(_start(), np.sort(times), method)
    # The error of a short step is rounding, and so the next step of Dopri8.
    eighth = isinstance(solver, diffrax.Dopri8)
    bounds = (1e-10, 1e-3) if eighth else (1e-12, 1e-6)
    _assert_alike(found, _by_diffrax(_start(), times, method), order, *bounds)


@pytest.mark.parametrize(
    "solver",
    first_plain([diffrax.Tsit5(), diffrax.Dopri8()]),
    ids=lambda s: type(s).__name__,
)
def test_outputs_between_steps_are_as_good_as_the_steps(solver):
    """Diffrax's dense output loses up to a thousand times what the steps do."""
    system = problems.kepler(eccentricity=0.3)
    method = Method(solver, controller=_controller(rtol=1e-8, atol=1e-8))
    start, kepler_step = system.bodies, jax.jit(nbody.kepler_step)

    def errors(times):
        found = simulate(system, times, method)
        x0, v0, x = (
            a[..., 1, :] - a[..., 0, :]
            for a in (start.positions, start.velocities, found.states.positions)
        )
        exact, _ = kepler_step(x0, v0, times, system.bodies.masses.sum())
        return found.steps, np.linalg.norm(x - exact, axis=-1)

    steps, between = errors(np.linspace(0.01, 20.0, 300))
    _, at_steps = errors(np.asarray(steps[np.isfinite(steps)]))
    assert between.max() < 1.05 * at_steps.max()


def test_implicit_stages_are_those_of_diffrax():
    method = Method(integrators.Kvaerno3(), controller=_controller())
    found = simulate(_start(), [2.5], method)
    _assert_alike(found, _by_diffrax(_start(), [2.5], method), slice(None))


def test_large_states_take_the_steps_of_diffrax():
    class Decay(Pendulum):
        def initial_state(self):
            return jnp.linspace(1, 2, 5000)

        def terms(self):
            return diffrax.ODETerm(lambda t, y, args: -y * jnp.cos(y))

    decay = Decay(jnp.zeros(1))
    method = Method(diffrax.Dopri5(), controller=_controller())
    found = simulate(decay, _TIMES["several in a step"], method)
    known = _by_diffrax(decay, _TIMES["several in a step"], method, 64)
    _assert_alike(found, known, slice(None))


@pytest.mark.parametrize(
    "options",
    first_plain(
        [
            {"norm": lambda e: jnp.max(jnp.abs(e[1]["v"]))},
            {"dtmin": 0.3},
            {"dtmax": 0.05},
            {"pcoeff": 0.3, "icoeff": 0.3, "dcoeff": 0.1},
            {"rtol": 1e-3, "atol": 1e-3, "factormax": 2.0},
        ],
        2,
    ),
    ids=["norm", "dtmin", "dtmax", "PID", "loose"],
)
def test_controller_options_act_as_in_diffrax(options):
    method = Method(diffrax.Dopri5(), 0.02, controller=_controller(**options))
    times = np.linspace(0, 3, 7)
    found = simulate(_start(), times, method)
    _assert_alike(found, _by_diffrax(_start(), times, method), slice(None))


def test_single_precision_is_kept():
    method = Method(diffrax.Tsit5(), controller=_controller(rtol=1e-4, atol=1e-4))
    times = np.linspace(0, 3, 7, dtype=np.float32)
    start = _start(jnp.float32)
    found = simulate(start, times, method)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(found.states))
    _assert_alike(found, _by_diffrax(start, times, method), slice(None), 1e-4, 1e-2)


def test_run_out_of_steps_has_the_result_max_steps_reached():
    method = Method(diffrax.Bosh3(), controller=_controller(), max_steps=7)
    times = np.linspace(0, 3, 7)
    found = simulate(_start(), times, method, throw=False)
    assert found.result == RESULTS.max_steps_reached
    known = _by_diffrax(_start(), times, method, 7)
    _assert_alike(found, known, slice(None))
    assert np.isinf(found.states[0][-1]) and np.isfinite(found.final.t)


@pytest.mark.gpu
def test_batched_runs_take_the_steps_of_single_runs():
    method = Method(diffrax.Dopri5(), controller=_controller())
    starts, times = jnp.array([[1.0, 0.3], [0.1, 0.0], [2.9, 1.0]]), [0.5, 0.6, 3.0]

    def run(start):
        found = simulate(Pendulum(start), times, method)
        return found.states, found.stats, found.steps

    together = jax.jit(jax.vmap(run))(starts)
    for i, start in enumerate(starts):
        for a, b in zip(*map(jax.tree.leaves, (together, run(start))), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-12)


def test_numpy_constants_are_not_taken_for_tracers():
    matrix = np.arange(4.0).reshape(2, 2)

    @jax.jit
    def look(y):
        _, consts = closure_convert(lambda y: matrix @ y, y)
        assert len(consts) == 1 and not is_traced(consts[0])
        return y

    look(jnp.ones(2))
