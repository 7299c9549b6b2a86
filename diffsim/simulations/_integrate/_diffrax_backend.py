"""Integration by Diffrax's solvers: the only call to `diffrax.diffeqsolve`."""

from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._results import RESULTS
from ..._types import PyTree
from .._elapsed_time import Epoch
from .._events._detection import event_values, zero_crossings
from .._events._event import Event
from .._method import Method, with_root_tolerances
from ._adaptive_loop import AdaptiveRun, Stop, adaptive_run, is_supported
from ._adaptive_step import steps_to_outputs
from ._forward_and_reverse_mode import Derivatives, with_forward_and_reverse_mode
from ._replay import (
    Recorded,
    Recording,
    Replay,
    fits_in_memory,
    is_replayable,
    make_replay,
    replay_all_steps,
    replay_outputs,
    replay_steps,
    steps_between,
)
from ._replay_reverse import replay_vjp
from ._run_plan import DiffraxPlan, RunResult, RunSpec


#: States that reverse mode keeps of a run whose number of steps nobody has bounded: as
#: many as take each of 4096 steps twice, and each of 125 000 three times.
CHECKPOINTS = 90

STATS = ("num_steps", "num_accepted_steps", "num_rejected_steps")


def diffrax_outputs(
    request: RunSpec, side: DiffraxPlan, *, span: tuple[Array, Array], times: Array
) -> RunResult:
    """States at `times`, which lie in order in the `span` of elapsed time."""
    solver, terms = request.plan.method.solver, request.simulation.terms()
    replays = is_replayable(solver, terms) and fits_in_memory(
        request.y0, 2 * steps_between(side.max_steps)
    )
    every = steps_between(side.max_steps) if replays else None
    found, result, stats = _run(request, side, span, times, every)
    reached, end = jax.tree.map(lambda a: a[-1], found["end"])
    # Where there were steps enough it is the last time, whose derivative is one.
    fine = result == RESULTS.successful
    end_time = jnp.where(fine, span[1], jax.lax.stop_gradient(reached))
    # Where the steps ended is bookkeeping: the controller chose them.
    ends = jax.lax.stop_gradient(found["ends"])
    return RunResult(found["states"], end, end_time, result, stats, ends)


def diffrax_steps(
    request: RunSpec,
    side: DiffraxPlan,
    span: tuple[Array, Array],
    until: tuple[Event, ...],
) -> tuple[Array, PyTree[Any], RESULTS, dict[str, Array]]:
    """Ends of the steps, padded with infinity, states there, result and statistics.

    The first of the events `until` ends the run with the step in which it happens.
    """
    found, result, stats = _run(request, side, span, None, 1, until)
    # Along recorded steps the last one moves with the span, the others are held.
    ends = jnp.where(found["ends"] == span[1], span[1], found["ends"])
    return ends, found["kept"], result, stats


class _Inputs(NamedTuple):
    """Of a run, all that may move in derivatives, and what goes with it."""

    simulation: Any
    method: Method
    controller: Any
    epoch: Epoch
    y0: PyTree[Array]
    span: tuple[Array, Array]
    times: Array | None
    until: tuple[Event, ...]


#: The saved parts of a run, its result and statistics.
_Seen = tuple[dict[str, Any], RESULTS, dict[str, Any]]


def _run(
    request: RunSpec,
    side: DiffraxPlan,
    span: tuple[Array, Array],
    times: Array | None,
    every: int | None,
    until: tuple[Event, ...] = (),
) -> _Seen:
    """The saved parts of a run, its result and statistics.

    A state is kept after `every` so many steps.
    """
    simulation, method, meter = request.simulation, request.plan.method, request.meter

    def run(adjoint, inputs):
        return _diffeqsolve(inputs, meter, side, every, adjoint)

    inputs = _Inputs(
        simulation,
        method,
        side.controller,
        request.epoch,
        request.y0,
        span,
        times,
        until,
    )
    if method.adjoint is not None:
        return run(method.adjoint, inputs)
    if not isinstance(meter, diffrax.NoProgressMeter):
        # A meter is an effect, which a primitive cannot have.
        return run(diffrax.DirectAdjoint(), inputs)
    solver, terms = method.solver, simulation.terms()
    along = _ALONG_STEPS if times is None else _BY_REPLAY
    if times is not None and not fits_in_memory(request.y0, side.max_steps):
        along = along._replace(again=None)
    replays = every is not None and is_replayable(solver, terms)
    value = None
    if is_supported(solver, side.controller, terms):
        value = partial(_without_derivatives, side.max_steps, every)
    elif replays and times is not None and steps_to_outputs(solver):
        value = partial(_with_outputs_by_steps, run)
    return with_forward_and_reverse_mode(
        run,
        inputs,
        CHECKPOINTS if method.max_steps is None else None,
        along if replays else None,
        value,
    )


def _without_derivatives(max_steps: int, every: int | None, inputs: _Inputs) -> _Seen:
    simulation, method, controller, epoch, y0, span, times, until = inputs

    def values(t, y):
        return event_values(until, epoch, t, y, simulation)

    found, result, stats = adaptive_run(
        AdaptiveRun(
            method.solver,
            epoch.shift(simulation.terms()),
            controller,
            simulation,
            y0,
            span,
            times,
            method.step,
            max_steps,
            every,
            Stop(values, partial(zero_crossings, until)) if until else None,
        )
    )
    return found, RESULTS.promote(result), stats


def _with_outputs_by_steps(run: Any, inputs: _Inputs) -> _Seen:
    """A run by Diffrax's loop, whose outputs are not those of an interpolant."""
    found, result, stats = seen = run(diffrax.ForwardMode(), inputs)
    states = _push(inputs, seen)[0]["states"]
    # Those that a run did not reach stay as they are.
    states = jax.tree.map(
        lambda a, b: jnp.where(jnp.isfinite(b), a, b), states, found["states"]
    )
    return found | {"states": states}, result, stats


def _replay(inputs: _Inputs) -> Replay:
    simulation, method, _, epoch, y0, span, times, _ = inputs
    terms = epoch.shift(simulation.terms())
    # What JAX knows of them may come back as NumPy's.
    span = jax.tree.map(jnp.asarray, span)
    return make_replay(method.solver, terms, y0, simulation, span, times)


def _push(inputs: _Inputs, seen: _Seen) -> _Seen:
    found, result, stats = seen
    replay = _replay(inputs)
    recorded = Recorded.of(found["ends"], replay.span, replay.times)
    states, end = replay_outputs(replay, recorded)
    end = found["end"][0], jax.tree.map(lambda a: a[None], end)
    return found | {"states": states, "end": end}, result, stats


def _push_again(inputs: _Inputs, seen: _Seen) -> _Seen:
    """The same in every mode, for second derivatives: all states have their place."""
    found, result, stats = seen
    replay = _replay(inputs)
    recorded = Recorded.of(found["ends"], replay.span, replay.times)
    states, end = replay_all_steps(replay, recorded)
    end = found["end"][0], jax.tree.map(lambda a: a[None], end)
    return found | {"states": states, "end": end}, result, stats


def _pull(build: Any, moving: Any, seen: Any, bars: Any) -> list[Array]:
    recording = Recording(seen[0]["ends"], seen[0]["kept"])
    states, (_, end) = bars[0]["states"], bars[0]["end"]
    end = jax.tree.map(lambda a: a[0], end)
    return replay_vjp(lambda *x: _replay(build(*x)), moving, recording, (states, end))


def _push_steps(inputs: _Inputs, seen: _Seen, kind: Any = "lax") -> _Seen:
    found, result, stats = seen
    replay = _replay(inputs)
    kept = replay_steps(replay, Recorded.of(found["ends"], replay.span, None), kind)
    return found | {"kept": kept}, result, stats


def _pull_steps(build: Any, moving: Any, seen: Any, bars: Any) -> list[Array]:
    recording = Recording(seen[0]["ends"], seen[0]["kept"])
    bars = bars[0]["kept"], None
    return replay_vjp(lambda *x: _replay(build(*x)), moving, recording, bars)


_BY_REPLAY = Derivatives(_push, _pull, _push_again)
_ALONG_STEPS = Derivatives(
    _push_steps, _pull_steps, partial(_push_steps, kind="bounded")
)


def _diffeqsolve(
    inputs: _Inputs, meter: Any, side: DiffraxPlan, every: int | None, adjoint: Any
) -> _Seen:
    """The run by `diffeqsolve`."""
    simulation, method, controller, epoch, y0, (t0, t1), times, until = inputs
    saved = {
        "end": diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: (t, y)),
        "ends": diffrax.SubSaveAt(steps=True, fn=lambda t, y, args: t),
    }
    if times is not None:
        saved["states"] = diffrax.SubSaveAt(ts=times)
    if every is not None:
        saved["kept"] = diffrax.SubSaveAt(steps=every)
    solver = method.solver
    if not method.adaptive:
        solver = with_root_tolerances(solver, epoch.dtype)
    solution = diffrax.diffeqsolve(
        epoch.shift(simulation.terms()),
        solver,
        t0,
        t1,
        None if method.step is None else jnp.where(t1 >= t0, 1, -1) * method.step,
        y0,
        simulation,
        saveat=diffrax.SaveAt(subs=saved),
        stepsize_controller=controller,
        adjoint=adjoint,
        event=_diffrax_event(until, epoch) if until else None,
        max_steps=side.max_steps,
        throw=False,
        progress_meter=meter,
    )
    good: Any = diffrax.RESULTS
    stopped = solution.result == good.event_occurred
    result = RESULTS.promote(good.where(stopped, good.successful, solution.result))
    assert solution.ys is not None
    return solution.ys, result, {name: solution.stats[name] for name in STATS}


def _diffrax_event(events: tuple[Event, ...], epoch: Epoch) -> diffrax.Event:
    ways = {"up": True, "down": False, None: None}

    def condition(event):
        return lambda t, y, args, **_: event.value(epoch.at(t), y, args)

    return diffrax.Event(
        [condition(event) for event in events],
        direction=[ways[event.direction] for event in events],
    )
