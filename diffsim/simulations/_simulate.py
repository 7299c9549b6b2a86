"""`simulate`: run a simulation to the times that are asked for."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

from .._jaxpr._tracing import explain_tracer_errors
from .._jit._fresh_jit import fresh_jit
from .._linalg import largest_difference
from .._results import (
    RESULTS,
    failures_as_nan,
    is_finite,
    is_outcome,
    nan_after,
    nan_unless,
    raise_if_failed,
    should_raise,
    should_return_nan,
)
from .._types import Numbers, PyTree
from .._validation import as_floating, function_of, instance
from ._diagnosis import failure_message, has_grown
from ._elapsed_time import (
    Epoch,
    check_epoch,
    checked_times,
    elapsed_since,
    ends_after,
    longest_elapsed,
    time_after,
    times_after,
    warn_of_a_far_start,
)
from ._events._event import EventRecord
from ._events._event_run import checked_events, integrate_with_events
from ._integrate._checkpointed_adjoint import Reversible
from ._integrate._integrate import integrate
from ._integrate._long_run import Outputs, continue_run, join_past_and_future
from ._integrate._plan import (
    Plan,
    RunResult,
    RunSpec,
    make_plan,
    with_step_size_control,
)
from ._method import Method
from ._simulation import (
    AbstractSimulation,
    check_dynamics,
    check_precision,
    method_with_options,
)
from ._step_refinement import (
    extrapolate,
    methods_made_finer,
    refine,
    refined_method,
    state_dtype,
)
from ._trajectory import FinalState, Trajectory


def simulate(
    simulation: AbstractSimulation,
    times: Numbers,
    method: Method | None = None,
    *,
    events: Any = (),
    observe: Callable[[Array, PyTree[Array]], PyTree[Array]] | None = None,
    progress: diffrax.AbstractProgressMeter[Any] | None = None,
    throw: bool | None = None,
    start: FinalState | None = None,
    max_steps: int | None = None,
    step: float | None = None,
    rtol: float | None = None,
    error_estimate: bool = False,
) -> Trajectory:
    r"""Run `simulation` from its epoch to `times`.

    ```python
    system = problems.kepler(eccentricity=0.3)
    trajectory = ds.simulate(system, jnp.linspace(0.0, 6.0, 7))
    trajectory.states.positions  # shape (7, 2, 3)
    ```

    Solves $\dot y = f(t, y;\,\theta)$, $y(t_0) = y_0(\theta)$. The result is
    differentiable in forward and reverse mode, in any nesting, with respect to every
    floating array that goes in: parameters, initial state, times and epoch.

    **Arguments**

    - `simulation`: what is simulated.
    - `times`: ascending output times, shape (time,), before and after the epoch alike,
        traced ones in any order; or one time, which gives states without a time axis.
    - `method`: how; None takes `simulation.default_method()`.
    - `events`: an `Event` or a tuple of several, things that happen on the way; they
        are in `trajectory.events`. Times after the epoch only.
    - `observe`: `observe(t, y)` of the internal state, instead of the simulation's own.
    - `progress`: a Diffrax progress meter, `diffrax.TextProgressMeter()` say.
    - `throw`: whether a failure raises. None raises, but inside `fit`, `fisher` and
        `sweep` gives NaN and a `result`. With False read `result`: states are what the
        run came to before it failed, and NaN for parameters that cannot be.
    - `start`: `trajectory.final` of an earlier run, to go on from there.
    - `max_steps`, `step`, `rtol`: change the default method in this call; see `Method`.
        A `step` makes it one at fixed steps; with `rtol` the absolute tolerance changes
        by the same factor. Beside a `method` they are refused.
    - `error_estimate`: whether to repeat the run with half the step, or a tenth of the
        tolerance and half the longest step where there is one, and report the largest
        difference of any number in the states as `trajectory.error_estimate`.
        Tolerances at the rounding of the state are compared with ten times those,
        scaled by the order.

    **Returns:** a `Trajectory`. At fixed steps an output off the grid is reached by one
    extra step of its own length from the grid point before it, which is not fed back:
    outputs have the order of the solver and never change the run. The number of steps
    is static: it follows from concrete `times` and a Python float `t0`. Where either is
    traced, give `Method(max_steps=...)`: that many steps are then run and kept.

    **Raises:** `ValueError` for unsorted times, times that are not finite, integer ones
    that float64 does not hold (of a clock in nanoseconds, say), traced times without
    `max_steps`, or dynamics that do not fit the state or the solver; `RuntimeError`
    with the sentence of the RESULTS if the run fails and `throw` says so.
    """
    # Check what was given.
    _check_kinds(simulation, method, progress, start, throw)
    if observe is not None:
        function_of("observe", observe, ("t", "y"))
    times, t0 = checked_times(times), simulation.t0 if start is None else start.t
    check_epoch(t0)
    if start is None:
        warn_of_a_far_start(t0, times)

    # Plan the run, by finer steps inside of `refined_steps`.
    bound = max_steps if method is None else method.max_steps
    changes = {"max_steps": max_steps, "step": step, "rtol": rtol}
    method = method_with_options(simulation, method, changes)
    halvings, coarser = 0, None
    if methods_made_finer.get() is not None:
        halvings, method, coarser = refine(method, simulation)
    is_unstable = simulation.check_method(method, longest_elapsed(t0, times))
    meter = diffrax.NoProgressMeter() if progress is None else progress
    options = _Options(observe, meter, should_return_nan(throw), should_raise(throw))
    run = _Run(simulation, method, start, options, events, bound is not None, halvings)

    # Integrate and observe it.
    with _forward_mode_explained(method):
        trajectory, plan = _run_to_the_end(run, times)
        if coarser is not None:
            other = run._replace(method=coarser.method, halvings=-1)
            trajectory = extrapolate(
                trajectory, _run_to_the_end(other, times)[0], coarser
            )
        error = _error_of(run, times, trajectory) if error_estimate else None

    # Judge how it went.
    if is_unstable:
        trajectory = _mark_unstable(simulation, trajectory)
    trajectory = dataclasses.replace(trajectory, error_estimate=error)
    if not should_raise(throw):
        return trajectory
    return raise_if_failed(
        trajectory,
        trajectory.result,
        lambda: failure_message(simulation, plan, trajectory, start, events),
    )


class _Options(NamedTuple):
    """Observer and meter of a run, and what becomes of one that fails."""

    observe: Callable | None
    meter: diffrax.AbstractProgressMeter
    fails_as_nan: bool
    raises: bool


class _Run(NamedTuple):
    """A run to be made, whatever its times."""

    simulation: AbstractSimulation
    method: Method
    start: FinalState | None
    options: _Options
    events: Any
    #: Whether a person has said how many steps are the most.
    is_bounded: bool
    #: How often the longest step was halved, see `Plan`.
    halvings: int

    @property
    def t0(self) -> ArrayLike:
        return self.simulation.t0 if self.start is None else self.start.t


def _run_to_the_end(run: _Run, times: Any) -> tuple[Trajectory, Plan]:
    """The run, part after part where it is not known how many steps it takes."""
    t0, options = run.t0, run.options
    plan, end = make_plan(
        run.method,
        times,
        t0,
        watched=not isinstance(options.meter, diffrax.NoProgressMeter),
        events=bool(run.events),
        halved=run.halvings,
    )
    events = checked_events(plan, run.events) if run.events else ()
    outputs = Outputs(times, elapsed_since(t0, times))

    def part(outputs, restart=None, options=options):
        return _simulate(
            run.simulation, plan, outputs, options, run.start, restart, events
        )

    trajectory = part(outputs)
    may_go_on = not run.is_bounded and not events and plan.sides is not None
    if may_go_on and _ran_out(run.method, trajectory):
        assert plan.sides is not None
        if None not in plan.sides:
            is_past = outputs.elapsed < 0
            past, future = (
                _run_to_the_end(run, times[i])[0] for i in (is_past, ~is_past)
            )
            return join_past_and_future(past, future, times), plan
        keeps = options._replace(fails_as_nan=False)
        first = part(outputs, options=keeps) if options.fails_as_nan else trajectory
        trajectory = continue_run(
            lambda *begun: part(*begun, options=keeps), first, outputs
        )
        if options.fails_as_nan:
            is_right = jnp.asarray(trajectory.result == RESULTS.successful)
            trajectory = nan_unless(trajectory, is_right)
    has_failed = not trajectory.result.is_traced() and not is_outcome(
        trajectory.result, RESULTS.successful
    )
    end = None if events or has_failed else end
    return _with_absolute_times(trajectory, t0, times, end), plan


def _ran_out(method: Method, trajectory: Trajectory) -> bool:
    """Whether there were too few steps, in a run that can be looked at."""
    result = trajectory.result
    if not method.adaptive or result.is_traced():
        return False
    return is_outcome(result, RESULTS.max_steps_reached)


def _error_of(run: _Run, times: Any, trajectory: Trajectory) -> Array:
    """The largest difference that other steps make; infinite where those fail."""
    method, factor, coarser = refined_method(run.method, state_dtype(run.simulation))
    # Where tolerances are larger, to see what they do, so is the longest step.
    halvings = run.halvings + (-1 if coarser else 1)
    other, _ = _run_to_the_end(run._replace(method=method, halvings=halvings), times)
    error = largest_difference(trajectory.states, other.states) / factor
    return jnp.where(other.result == RESULTS.successful, error, jnp.inf)


def _mark_unstable(simulation: Any, trajectory: Trajectory) -> Trajectory:
    """`trajectory`, of steps that were warned of, failed if it grew beyond reason."""
    result = trajectory.result
    if result.is_traced() or not is_outcome(result, RESULTS.successful):
        return trajectory
    if not has_grown(trajectory, simulation.initial_state()):
        return trajectory
    return dataclasses.replace(trajectory, result=RESULTS.unstable_steps)


@fresh_jit
def _simulate(
    simulation: AbstractSimulation,
    plan: Plan,
    outputs: Outputs,
    options: _Options,
    start: FinalState | None,
    restart: Any,
    events: Any,
) -> Trajectory:
    """The compiled run; all times in it but those of outputs are elapsed ones.

    It begins at the simulation's epoch or at `start`, and goes on from `restart`.
    """
    # The state, its type and its epoch.
    is_valid, simulation = simulation.is_valid(), simulation.prepare()
    y0 = simulation.initial_state()
    y0 = jax.tree.map(lambda y: as_floating("initial_state", y), y0)
    check_precision(y0)
    if start is not None:
        _check_same_state(start.y, y0)
        y0 = start.y
    # Times take the type of the state, which would otherwise be promoted by them.
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype
    t0 = simulation.t0 if start is None else start.t
    epoch = Epoch(t0, dtype)
    check_dynamics(simulation, plan.method.solver, epoch.at(epoch.zero), y0)
    times, elapsed = (jnp.atleast_1d(jnp.asarray(x, dtype)) for x in outputs)
    is_time = jnp.isfinite(elapsed)
    elapsed = jnp.where(is_time, elapsed, 0)

    # Its steps.
    plan = with_step_size_control(
        plan, simulation, t0, elapsed, y0, options.meter, to_outputs=not events
    )
    begin = epoch.zero
    if restart is not None:
        begin, y0 = jnp.asarray(restart.begin, dtype), restart.y
    request = RunSpec(simulation, plan, epoch, elapsed, begin, y0, options.meter)
    look = _observer(simulation, options.observe)

    # The run, and what is seen of it.
    with contextlib.nullcontext() if options.raises else failures_as_nan():
        if events:
            run, records = integrate_with_events(request, events, look)
        else:
            run, records = integrate(request), ()
    states = jax.vmap(look)(times, run.states)

    # How it went. Until a run fails its states are right; of improper parameters none.
    result = _result_of(simulation, run, states, y0, is_time, is_valid)
    is_right = result == RESULTS.successful
    if plan.sides is None:
        states = nan_after(states, is_time, is_right)
    if run.reached is not None:
        states = nan_after(states, run.reached, is_right)
    if outputs.times.ndim == 0:
        states = jax.tree.map(lambda a: a[0], states)
    final = FinalState(run.end_time, run.end)
    states, final, records = nan_unless(
        (states, final, records), is_right if options.fails_as_nan else is_valid
    )
    axes = simulation.state_axes() if options.observe is None else None
    return Trajectory(
        outputs.times,
        states,
        result,
        run.stats,
        final,
        run.ends,
        records,
        axes=axes,
    )


def _result_of(
    simulation: AbstractSimulation,
    run: RunResult,
    states: PyTree[Array],
    y0: PyTree[Array],
    is_time: Array,
    is_valid: Array,
) -> RESULTS:
    """How a run went: of several failures the one that explains the others."""
    result, blow_up = run.result, simulation.blow_up()
    is_lost = (result == RESULTS.successful) & ~is_finite((states, run.end))
    result = RESULTS.where(is_lost, RESULTS.non_finite, result)
    if blow_up != RESULTS.non_finite:
        is_lost = (result == RESULTS.non_finite) | (result == RESULTS.dt_min_reached)
        result = RESULTS.where(is_lost, blow_up, result)
    for holds, failure in (
        (jnp.all(is_time), RESULTS.times_not_finite),
        (is_finite(y0), RESULTS.initial_state_not_finite),
        (is_valid, RESULTS.invalid_parameter),
    ):
        result = RESULTS.where(holds, result, failure)
    return result


def _observer(simulation: AbstractSimulation, observe: Callable | None) -> Callable:
    """Return the function that observes a state at a time."""
    look = simulation.observe if observe is None else observe

    def named(t, y):
        with explain_tracer_errors("observe", look):
            return look(t, y)

    return named


def _with_absolute_times(
    trajectory: Trajectory, t0: Any, times: Any, end: float | None
) -> Trajectory:
    """`trajectory`, with times and not what has elapsed since `t0`.

    Outside of the compiled run, in which singles may be all that there is.
    """
    last, ends = trajectory.final, trajectory.steps
    events = tuple(
        EventRecord(times_after(t0, record.times), record.states, record.count)
        for record in trajectory.events
    )
    return Trajectory(
        times,
        trajectory.states,
        trajectory.result,
        trajectory.stats,
        FinalState(time_after(t0, last.t) if end is None else end, last.y),
        None if ends is None else ends_after(t0, ends, times),
        events,
        axes=trajectory.axes,
    )


@contextlib.contextmanager
def _forward_mode_explained(method: Method):
    """Says of `Reversible` what JAX says of the `custom_vjp` that it is made of."""
    try:
        yield
    except TypeError as error:
        if isinstance(method.adjoint, Reversible) and "forward-mode" in str(error):
            raise ValueError(
                "Reversible has reverse mode only, and jvp, jacfwd, hessian or "
                "linearize asked for forward mode; leave adjoint=None, or take "
                "simulations.Checkpointed() where memory is short"
            ) from error
        raise


def _check_kinds(simulation: Any, method: Any, progress: Any, start: Any, throw: Any):
    meter = diffrax.AbstractProgressMeter | None
    kinds = {
        "simulation": (simulation, AbstractSimulation, "nbody.NBody(bodies)"),
        "method": (method, Method | None, "Method(integrators.Leapfrog(), step=0.01)"),
        "progress": (progress, meter, "diffrax.TextProgressMeter()"),
        "start": (start, FinalState | None, "trajectory.final"),
        "throw": (throw, bool | None, "True, False or None"),
    }
    for name, (value, kind, example) in kinds.items():
        instance(name, value, kind, example)


def _check_same_state(start: PyTree, own: PyTree):
    got, want = (jax.tree.map(jnp.shape, tree) for tree in (start, own))
    if got != want:
        raise ValueError(
            f"start holds a state of shapes {got}, this simulation has {want}; take "
            "trajectory.final of a run of the same system"
        )
    got, want = (
        [str(jnp.result_type(leaf)) for leaf in jax.tree.leaves(tree)]
        for tree in (start, own)
    )
    if got != want:
        raise ValueError(
            f"start holds {got[0]} and this simulation runs in {want[0]}; cast it: "
            "FinalState(start.t, jax.tree.map(lambda y: y.astype(...), start.y))"
        )
