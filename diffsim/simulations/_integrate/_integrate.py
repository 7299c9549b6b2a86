"""Integration before and after the epoch, and its derivatives.

Adaptive steps are taken by `adaptive_run` or by `diffrax.diffeqsolve`; `with_loop` of
`_plan` decides which.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ... import _tuning
from ..._jaxpr._primitives import LinearMapRules, custom_derivative, linear
from ..._jaxpr._tracing import closure_convert
from ..._results import RESULTS
from ..._types import PyTree
from ..._validation import is_traced
from .._elapsed_time import Epoch
from .._events._detection import event_values, zero_crossings
from .._events._event import Event
from .._method import Method, with_root_tolerances
from ._adaptive_loop import AdaptiveRun, Stop, adaptive_run
from ._fixed_step_outputs import fixed_step_outputs, traced_time_outputs
from ._fixed_steps import GridSteps
from ._plan import (
    AdaptivePlan,
    RunResult,
    RunSpec,
    fits_in_memory,
)
from ._replay import (
    Recorded,
    Recording,
    Replay,
    make_replay,
    replay_all_steps,
    replay_outputs,
    replay_steps,
    replay_vjp,
)
from ._step import steps_to_outputs


def integrate(request: RunSpec) -> RunResult:
    """The outputs before and after the epoch, ascending in time."""
    if request.plan.sides is None:
        return _integrate_traced_times(request)
    before, after = request.plan.sides
    split = 0 if before is None else before.outputs
    past, future = request.elapsed[:split][::-1], request.elapsed[split:]
    runs = []
    for side, times in ((before, past), (after, future)):
        if side is None:
            continue
        if isinstance(side, AdaptivePlan):
            run = adaptive_outputs(
                request, side, span=(request.begin, times[-1]), times=times
            )
        else:
            adjoint, meter = request.plan.method.adjoint, request.meter
            assert not isinstance(adjoint, diffrax.AbstractAdjoint)
            run = fixed_step_outputs(
                _grid(request, side.step),
                request.y0,
                side,
                adjoint=adjoint,
                meter=meter,
            )
        runs.append(_reverse_in_time(run) if side is before else run)
    return runs[0] if len(runs) == 1 else _concatenate(*runs)


def _grid(request: RunSpec, step: float) -> GridSteps:
    solver = request.plan.method.solver
    return GridSteps(request.simulation, solver, request.epoch, step, request.y0)


def _integrate_traced_times(request: RunSpec) -> RunResult:
    """Every output in both directions; which one counts is known when it runs."""
    is_past = request.elapsed < 0
    past, future = (
        _integrate_traced_one_way(request, is_past, -1),
        _integrate_traced_one_way(request, ~is_past, 1),
    )
    states = jax.tree.map(
        lambda a, b: jnp.where(is_past.reshape(-1, *[1] * (a.ndim - 1)), a, b),
        past.states,
        future.states,
    )
    onward = jnp.any(request.elapsed > 0)
    end, end_time = jax.tree.map(
        lambda a, b: jnp.where(onward, b, a),
        (past.end, past.end_time),
        (future.end, future.end_time),
    )
    run = _concatenate(past, future)
    return run._replace(states=states, end=end, end_time=end_time)


def _integrate_traced_one_way(request: RunSpec, here: Array, sign: int) -> RunResult:
    """The outputs that lie `here`, in one direction; the others stay at the epoch."""
    method = request.plan.method
    times = jnp.where(here, request.elapsed, 0)
    if request.plan.traced is not None:
        # Diffrax wants them in order; whether they are, is known only when it runs.
        order = jnp.argsort(sign * times)
        times = times[order]
        run = adaptive_outputs(
            request,
            request.plan.traced,
            span=(request.begin, times[-1]),
            times=times,
        )
        states = jax.tree.map(lambda a: a[jnp.argsort(order)], run.states)
        return run._replace(states=states, ends=_concatenate_ends(run.ends))
    assert method.step is not None and method.max_steps is not None
    grid = _grid(request, sign * float(method.step))
    return traced_time_outputs(grid, request.y0, sign * times, method.max_steps)


def _reverse_in_time(run: RunResult) -> RunResult:
    states = jax.tree.map(lambda a: a[::-1], run.states)
    return run._replace(states=states, ends=_concatenate_ends(run.ends))


def _concatenate(past: RunResult, future: RunResult) -> RunResult:
    failed = past.result != RESULTS.successful
    # A run that failed ends where it did.
    end, end_time = jax.tree.map(
        lambda a, b: jnp.where(failed, a, b),
        (past.end, past.end_time),
        (future.end, future.end_time),
    )
    return RunResult(
        jax.tree.map(lambda a, b: jnp.concatenate([a, b]), past.states, future.states),
        end,
        end_time,
        RESULTS.where(failed, past.result, future.result),
        jax.tree.map(jnp.add, past.stats, future.stats),
        _concatenate_ends(past.ends, future.ends),
    )


def _concatenate_ends(*ends: Array | None) -> Array | None:
    known = [end for end in ends if end is not None]
    if not known:
        return None
    # Diffrax pads a run that goes backwards with minus infinity.
    every = jnp.concatenate(known)
    return jnp.sort(jnp.where(jnp.isfinite(every), every, jnp.inf))


#: `run(adjoint, inputs)`: arrays, those without a derivative among them.
Run = Callable[[diffrax.AbstractAdjoint, PyTree], PyTree[Array]]


class Derivatives(NamedTuple):
    """First derivatives of a run that know it better than its code does.

    `push(inputs, outputs)` is the run made again, as a function of its inputs, given
    what a first one returned; `pull(build, moving, outputs, bars)` are cotangents of
    `moving` inputs, of which `build` makes all. Both return what `run` does, of which
    only the floating arrays count. `again` is `push` in every mode, for second
    derivatives; None where they are those of the run.
    """

    push: Callable[[PyTree, PyTree], PyTree]
    pull: Callable[[Callable, Sequence[Array], PyTree, PyTree], list[Array]]
    again: Callable[[PyTree, PyTree], PyTree] | None = None


def with_forward_and_reverse_mode(
    run: Run,
    inputs: PyTree,
    checkpoints: int | None = None,
    derivatives: Derivatives | None = None,
    evaluate: Callable[[PyTree], PyTree[Array]] | None = None,
) -> PyTree[Array]:
    """`run`, differentiable in every mode and nesting.

    `evaluate(inputs)` may work out its values by other code, which has no derivative.

    First derivatives are `derivatives`. Where there are none, tangents are carried
    along by `ForwardMode`, cotangents back by `RecursiveCheckpointAdjoint`. Second ones
    are by `DirectAdjoint`, which has every mode, but takes up to three times as long in
    reverse and more memory.
    """
    given, fixed = eqx.partition(inputs, eqx.is_array)
    arrays, structure = jax.tree.flatten(given)
    ends: list[Any] = []

    def whole(arrays):
        return eqx.combine(jax.tree.unflatten(structure, arrays), fixed)

    def flat(adjoint, *arrays):
        found, end = jax.tree.flatten(run(adjoint, whole(arrays)))
        ends.append(end)
        return found

    def evaluated(*arrays):
        if evaluate is None:
            return flat(diffrax.ForwardMode(), *arrays)
        found, end = jax.tree.flatten(evaluate(whole(arrays)))
        ends.append(end)
        return found

    opened, consts = closure_convert(evaluated, *arrays)
    if any(is_traced(const) for const in consts):
        # Dynamics that hide an array from their simulation, which no rule is told of.
        found = flat(diffrax.DirectAdjoint(), *arrays)
        return jax.tree.unflatten(ends[0], found)

    def tangent(outputs, known, tangents):
        moved = _Moved.of(outputs, tangents)
        exact = _derivatives_by_adjoints(moved, flat, *2 * [diffrax.DirectAdjoint()])
        if derivatives is None:
            adjoint = diffrax.RecursiveCheckpointAdjoint(checkpoints)
            first = _derivatives_by_adjoints(
                moved, flat, diffrax.ForwardMode(), adjoint
            )
        else:
            first = _derivatives_of_derivatives(moved, derivatives, whole, ends[0])
            known = [*known, *outputs]
            if derivatives.again is not None:
                exact = _derivatives_by_recorded_steps(
                    moved, derivatives.again, whole, ends[0]
                )
        return moved.tangents(LinearMapRules(*first, *exact), outputs, known, tangents)

    found = custom_derivative(lambda *x: opened(consts, *x), tangent, *arrays)
    return jax.tree.unflatten(ends[0], found)


class _Moved(NamedTuple):
    """The numbers of the inputs that move, of so many, and of the outputs that can."""

    size: int
    inputs: list[int]
    outputs: list[int]

    @classmethod
    def of(cls, outputs, tangents) -> "_Moved":
        floats = [jnp.issubdtype(y.dtype, jnp.floating) for y in outputs]
        return cls(
            len(tangents),
            [i for i, t in enumerate(tangents) if t is not None],
            [i for i, is_float in enumerate(floats) if is_float],
        )

    def with_selected_values(self, known, some) -> list:
        """Inputs that are `known`, with others in place of those that move."""
        every = list(known[: self.size])
        for i, x in zip(self.inputs, some, strict=True):
            every[i] = x
        return every

    def selected_values(self, known) -> list:
        """Those of the inputs that move."""
        return [known[i] for i in self.inputs]

    def tangents(self, maps: LinearMapRules, outputs, known, tangents) -> list:
        """Tangents of all outputs; None of those that have none."""
        steps, types = (
            self.selected_values(tangents),
            [jax.typeof(outputs[i]) for i in self.outputs],
        )
        found = linear(maps, known, steps, types)
        by_number = dict(zip(self.outputs, found, strict=True))
        return [by_number.get(i) for i in range(len(outputs))]


def _push_and_pull(moved: _Moved, forward: Callable, backward: Callable):
    """Tangents of `forward(known)` and cotangents of `backward(known)`.

    Both are functions of the inputs that move.
    """

    def push(known, steps):
        return jax.jvp(forward(known), moved.selected_values(known), list(steps))[1]

    def pull(known, bars):
        _, transposed = jax.vjp(backward(known), *moved.selected_values(known))
        return list(transposed(list(bars)))

    return push, pull


def _derivatives_by_adjoints(moved: _Moved, flat, forward, backward):
    """Tangents and cotangents by adjoints of Diffrax."""

    def run_by(adjoint, known):
        def run(*some):
            leaves = flat(adjoint, *moved.with_selected_values(known, some))
            return [leaves[i] for i in moved.outputs]

        return run

    return _push_and_pull(moved, partial(run_by, forward), partial(run_by, backward))


def _derivatives_by_recorded_steps(moved: _Moved, again: Callable, whole, structure):
    """Tangents and cotangents of a run made `again`; outputs follow the inputs."""

    def run_of(known):
        seen = jax.tree.unflatten(structure, list(known[moved.size :]))

        def run(*some):
            leaves = jax.tree.leaves(
                again(whole(moved.with_selected_values(known, some)), seen)
            )
            return [leaves[i] for i in moved.outputs]

        return run

    return _push_and_pull(moved, run_of, run_of)


def _derivatives_of_derivatives(
    moved: _Moved, derivatives: Derivatives, whole, structure
):
    """Tangents and cotangents by `derivatives`; outputs follow the inputs."""
    push, _ = _derivatives_by_recorded_steps(moved, derivatives.push, whole, structure)

    def pull(known, bars):
        def build(*some):
            return whole(moved.with_selected_values(known, some))

        of_outputs = dict(zip(moved.outputs, bars, strict=True))
        every = [of_outputs.get(i) for i in range(structure.num_leaves)]
        bars = jax.tree.unflatten(structure, every)
        seen = jax.tree.unflatten(structure, list(known[moved.size :]))
        return derivatives.pull(build, moved.selected_values(known), seen, bars)

    return push, pull


STATS = ("num_steps", "num_accepted_steps", "num_rejected_steps")


def adaptive_outputs(
    request: RunSpec, side: AdaptivePlan, *, span: tuple[Array, Array], times: Array
) -> RunResult:
    """States at `times`, which lie in order in the `span` of elapsed time."""
    found, result, stats = _run(request, side, span, times, side.every)
    reached, end = jax.tree.map(lambda a: a[-1], found["end"])
    # Where there were steps enough it is the last time, whose derivative is one.
    fine = result == RESULTS.successful
    end_time = jnp.where(fine, span[1], jax.lax.stop_gradient(reached))
    # Where the steps ended is bookkeeping: the controller chose them.
    ends = jax.lax.stop_gradient(found["ends"])
    return RunResult(found["states"], end, end_time, result, stats, ends)


def adaptive_steps(
    request: RunSpec,
    side: AdaptivePlan,
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
    side: AdaptivePlan,
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
    evaluate = derivatives = None
    if side.is_replayed and every is not None:
        derivatives = _ALONG_STEPS if times is None else _BY_REPLAY
        if times is not None and not fits_in_memory(request.y0, side.max_steps):
            derivatives = derivatives._replace(again=None)
    if side.has_own_loop:
        evaluate = partial(_by_own_loop, side.max_steps, every)
    elif derivatives and times is not None and steps_to_outputs(method.solver):
        evaluate = partial(_with_outputs_by_steps, run)
    return with_forward_and_reverse_mode(
        run,
        inputs,
        _tuning.CHECKPOINTS if method.max_steps is None else None,
        derivatives,
        evaluate,
    )


def _by_own_loop(max_steps: int, every: int | None, inputs: _Inputs) -> _Seen:
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
    inputs: _Inputs, meter: Any, side: AdaptivePlan, every: int | None, adjoint: Any
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
