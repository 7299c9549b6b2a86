"""Integration with events.

`acted` of `_fixed_step` applies resets and ends a run, in either loop.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ... import _tuning
from ..._results import RESULTS, is_finite
from ..._types import PyTree
from .._integrate._checkpointed_adjoint import AbstractScanAdjoint
from .._integrate._integrate import STATS, adaptive_outputs, adaptive_steps
from .._integrate._plan import (
    AdaptivePlan,
    FixedStepPlan,
    Plan,
    RunResult,
    RunSpec,
    fixed_step_statistics,
)
from .._integrate._step import make_step
from .._method import MAX_STEPS, PrescribedSteps, with_root_tolerances
from ._adaptive import adaptive_step_log
from ._detection import EventDetector
from ._event import Event, EventRecord
from ._fixed_step import fixed_step_log
from ._records import StepLog, interpolate_outputs
from ._row_states import hides_arrays, of_rows_taken, with_derivative_of


def integrate_with_events(
    request: RunSpec, events: tuple[Event, ...], look: Callable
) -> tuple[RunResult, tuple[EventRecord, ...]]:
    """The outputs of `request`, all after the epoch, and the events on the way.

    Their times are those elapsed; `look` is given times.
    """
    simulation, plan, epoch, times = request[:4]
    assert plan.sides is not None
    (_, side) = plan.sides
    assert side is not None
    check_conditions(events, simulation, epoch.at(epoch.zero), request.y0)
    solver = with_root_tolerances(plan.method.solver, epoch.dtype)
    terms = epoch.shift(simulation.terms())
    step = make_step(solver, terms, simulation, request.y0, "events")
    watch = EventDetector(events, epoch, step, simulation)
    if isinstance(side, FixedStepPlan):
        rows, states_at, stop, result, stats = _fixed_step_log(request, watch, side)
    else:
        rows, states_at, stop, result, stats = _adaptive_log(request, watch, side)

    def seen(elapsed, y):
        return look(epoch.at(elapsed), y)

    found = interpolate_outputs(
        rows, watch, jnp.minimum(times, stop), times[-1], seen, states_at
    )
    result = _with_result(rows, watch, times[-1], found.lost, result)
    ends = None if isinstance(side, FixedStepPlan) else _ends(rows, events)
    run = RunResult(
        found.states,
        found.last_state,
        found.last_time,
        result,
        stats,
        ends,
        times <= stop,
    )
    return run, found.events


def _with_result(
    rows: StepLog, watch: EventDetector, last: Array, lost: Array, result: RESULTS
) -> RESULTS:
    """`result`, or what went wrong with the events up to the time `last`.

    `lost` says that one that is recorded was not found.
    """
    fine = result == RESULTS.successful
    in_time = rows.times <= last
    begun = (rows.lengths > 0) & in_time

    def is_unknown(t, y):
        # Of a state that is no number the run says so itself.
        return jnp.any(jnp.isnan(watch.values(t, y))) & is_finite(y)

    # Those of several runs, where events reset them, have gaps.
    number = jnp.arange(rows.lengths.size) + 1
    taken = jnp.max(jnp.where(rows.lengths > 0, number, 0))
    unknown = of_rows_taken(is_unknown, (rows.times, rows.states), taken)
    unknown = fine & jnp.any(begun & unknown)
    result = RESULTS.where(unknown, RESULTS.event_not_finite, result)
    lost |= jnp.any(rows.lost & in_time)
    fine &= ~unknown
    result = RESULTS.where(fine & lost, RESULTS.event_not_located, result)
    # Fixed steps go on behind the last output; one that acts ends its step.
    behind = watch.modifies_run() & (rows.times + rows.lengths > last)[:, None]
    counts = jnp.sum(rows.crossed & in_time[:, None] & ~behind, axis=0)
    limits = [
        np.iinfo(np.int32).max if event.surplus == "ignore" else event.limit
        for event in watch.events
    ]
    many = jnp.any(counts > jnp.array(limits))
    return RESULTS.where(fine & ~lost & many, RESULTS.events_beyond_limit, result)


def check_conditions(events: tuple[Event, ...], simulation, t0, y0):
    for event in events:
        found = eqx.filter_eval_shape(event.value, t0, y0, simulation)
        known = hasattr(found, "dtype")
        shape, dtype = (found.shape, found.dtype) if known else (None, type(found))
        if shape != () or not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                f"condition must return one floating number that goes through zero, "
                f"got {dtype} of shape {shape}; write a - b for a > b"
            )
        _check_reset(event, simulation, t0, y0)


def _check_reset(event: Event, simulation, t0, y0):
    if event.reset is None:
        return
    found = eqx.filter_eval_shape(event.reset, t0, y0, simulation)
    want, have = (
        (jax.tree.structure(tree), [x.shape for x in jax.tree.leaves(tree)])
        for tree in (y0, found)
    )
    if want != have:
        raise ValueError(
            "reset must return a state like the one it is given, internal as "
            f"initial_state() makes it: got {have[0]} of shapes {have[1]}, expected "
            f"{want[0]} of shapes {want[1]}"
        )


def listed(events: Any) -> tuple[Any, ...]:
    """One event or several as a tuple."""
    several = isinstance(events, Sequence) and not isinstance(events, str)
    return tuple(events) if several else (events,)


def checked_events(plan: Plan, events: Any) -> tuple[Event, ...]:
    """The events as a tuple, where `plan` can look out for them."""
    events = listed(events)
    if not events:
        return events
    for event in events:
        if not isinstance(event, Event):
            raise ValueError(
                f"events must be simulations.Event(condition), got {event!r}"
            )
    if plan.sides is None or plan.sides[0] is not None:
        raise ValueError(
            "events need concrete times after a concrete t0; begin the simulation at "
            "the first time, with a Python float t0"
        )
    method = plan.method
    if isinstance(method.adjoint, AbstractScanAdjoint):
        raise ValueError(
            f"events need all steps, which {type(method.adjoint).__name__} does not "
            "keep; leave adjoint=None"
        )
    if isinstance(method.controller, PrescribedSteps) and _resets(events):
        raise ValueError(
            "frozen steps do not fit a run that events reset; give fixed steps, "
            "Method(solver, step=...)"
        )
    return events


def _fixed_step_log(request: RunSpec, watch: EventDetector, side: FixedStepPlan):
    step = jnp.asarray(side.step, request.epoch.dtype)
    # One for what lies beyond the last grid point, and one for each that is cut short.
    steps = side.schedule.steps + 1 + _resets(watch.events)
    rows, last = fixed_step_log(watch, request.y0, request.begin, step, steps)
    # Behind more resets than its limit the steps do not reach all outputs.
    behind = jnp.where(last.stopped, 0, last.n.astype(step.dtype) * step)
    stop = last.anchor + behind
    stats = fixed_step_statistics(jnp.sum(rows.lengths > 0))
    return rows, partial(_rows_at, rows), stop, RESULTS.successful, stats


def _with_bound(request: RunSpec, side: AdaptivePlan, runs: int) -> AdaptivePlan:
    """The side with no more steps than there is room for, unless they are given."""
    if request.plan.method.max_steps is not None or side.max_steps != MAX_STEPS:
        return side
    size = sum(y.size * y.dtype.itemsize for y in jax.tree.leaves(request.y0))
    room = _tuning.KEPT_BYTES // max(1, size * runs)
    steps = min(MAX_STEPS, max(_tuning.LEAST_STEPS, room))
    return dataclasses.replace(side, max_steps=steps)


def _adaptive_log(request: RunSpec, watch: EventDetector, side: AdaptivePlan):
    until = tuple(event for event in watch.events if event.modifies_run)
    last_time = request.elapsed[-1]
    runs = 1 + _resets(watch.events)
    side = _with_bound(request, side, runs)
    # Of a run that events do not change, the rows that matter know their derivative.
    held = not until and not hides_arrays(request)
    given, detector = (request, watch) if not held else _held(request, watch)

    def solve(t, y):
        onward = given._replace(y0=y)
        return adaptive_steps(onward, side, (t, last_time), until)

    rows, last, (results, stats) = adaptive_step_log(
        detector, given.y0, given.begin, solve, runs
    )
    failed = results != RESULTS.successful
    first = jnp.argmax(failed)
    result = jax.tree.map(lambda a: a[first], results)
    stats = {name: jnp.sum(stats[name]) for name in STATS}
    states_at = partial(_moving_rows_at, request, side, rows) if held else None
    return rows, states_at or partial(_rows_at, rows), last.anchor, result, stats


def _held(request: RunSpec, watch: EventDetector) -> tuple[RunSpec, EventDetector]:
    """Both without derivatives, to find the rows by."""
    numbers, rest = eqx.partition((request, watch.events), eqx.is_inexact_array)
    request, events = eqx.combine(jax.lax.stop_gradient(numbers), rest)
    return request, watch._replace(
        events=events, epoch=request.epoch, args=request.simulation
    )


def _rows_at(rows: StepLog, at: Array) -> PyTree[Array]:
    """The states at the beginnings of rows."""
    return jax.tree.map(lambda a: a[at], rows.states)


def _moving_rows_at(
    request: RunSpec, side: AdaptivePlan, rows: StepLog, at: Array
) -> PyTree[Array]:
    """The same, with the derivative of a run with outputs there."""
    order = jnp.argsort(at)

    def outputs(inputs):
        request, side, times, order = inputs
        span = request.begin, request.elapsed[-1]
        states = adaptive_outputs(request, side, span=span, times=times).states
        return jax.tree.map(lambda a: a[jnp.argsort(order)], states)

    inputs = request, side, rows.times[at][order], order
    return with_derivative_of(_rows_at(rows, at), outputs, inputs)


def _resets(events: tuple[Event, ...]) -> int:
    return sum(event.limit for event in events if event.reset is not None)


def _ends(rows: StepLog, events: tuple[Event, ...]) -> Array:
    """Ends of the steps that were taken, ascending, padded with infinity."""
    # A step ends where the next row begins. Where the steps ended is bookkeeping, as in
    # a run without events: the controller chose them.
    times, taken = jax.lax.stop_gradient((rows.times, rows.lengths > 0))
    ends = jnp.where(taken, jnp.roll(times, -1), jnp.inf)
    if any(event.modifies_run for event in events):
        return jnp.sort(ends)
    # The first row is where the run begins, and no step.
    return jnp.roll(ends, -1)
