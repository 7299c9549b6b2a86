"""`simulate`: run a simulation to the times that are asked for."""

import contextlib
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._checks import (
    as_floating,
    check_kind,
    check_number,
    check_takes,
    check_unitless,
    is_traced,
)
from .._failures import is_finite, nan_after, poisoned, quiet, throws
from .._results import RESULTS, raised
from .._types import Numbers
from ._adjoints import Reversible
from ._both_ways import Request, run_both_ways
from ._dynamics import check_dynamics
from ._event_leg import checked_events, event_leg
from ._finer import as_asked
from ._method import Method
from ._plan import in_precision, planned
from ._simulation import AbstractSimulation
from ._trajectory import Final, Trajectory


def simulate(
    simulation: AbstractSimulation,
    times: Numbers,
    method: Method | None = None,
    *,
    events: Any = (),
    observe: Callable[[Array, PyTree[Array]], PyTree[Array]] | None = None,
    progress: diffrax.AbstractProgressMeter | None = None,
    throw: bool | None = None,
    start: Final | None = None,
) -> Trajectory:
    r"""Runs `simulation` from its epoch to `times`.

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
    - `throw`: whether a failure raises. None raises when called by you, and gives NaN
        and a `result` inside `fit`, `fisher` and `sweep`. With False read `result`:
        states are what the run came to before it failed, and NaN for parameters that
        cannot be.
    - `start`: `trajectory.final` of an earlier run, to go on from there.

    **Returns:** a `Trajectory`.

    At fixed steps an output off the grid is reached by one side step of its own length
    from the grid point before it, which is not fed back: outputs have the order of the
    solver and never change the run. The number of steps is static: it follows from
    concrete `times` and a Python float `t0`. Where either is traced, give
    `Method(max_steps=...)`: that many steps are then run and kept.

    **Raises:** `ValueError` for unsorted times, times that are not finite, traced times
    without `max_steps`, or dynamics that do not fit the state or the solver;
    `RuntimeError` with the sentence of the RESULTS if the run fails and `throw` says
    so.
    """
    _check_kinds(simulation, method, progress, start)
    method = as_asked(simulation.default_method() if method is None else method)
    simulation.check_method(method)
    meter = diffrax.NoProgressMeter() if progress is None else progress
    times = _checked_times(times)
    if observe is not None:
        check_takes("observe", observe, ("t", "y"))
    t0 = simulation.t0 if start is None else start.t
    check_number("t0", t0)
    plan, end = planned(
        method, times, t0, watched=progress is not None, events=bool(events)
    )
    hushed = quiet(throw)
    events = checked_events(plan, events)
    with _forward_mode_named(method):
        trajectory = _simulate(
            simulation, plan, times, observe, meter, hushed, start, events
        )
    if end is not None and not events:
        trajectory = eqx.tree_at(lambda x: x.final.t, trajectory, end)
    return raised(trajectory, trajectory.result) if throws(throw) else trajectory


@eqx.filter_jit
def _simulate(
    simulation, plan, times, observe, meter, hushed, start, events
) -> Trajectory:
    y0 = simulation.initial_state()
    if start is not None:
        _check_same_state(start.y, y0)
        y0 = start.y
    y0 = jax.tree.map(lambda y: as_floating("initial_state", y), y0)
    # Times take the type of the state, which would otherwise be promoted by them.
    dtype = jnp.finfo(jnp.result_type(*jax.tree.leaves(y0))).dtype
    t0 = jnp.asarray(simulation.t0 if start is None else start.t, dtype)
    times = jnp.asarray(times, dtype)
    plan = in_precision(plan, dtype)
    check_dynamics(simulation, plan.method.solver, t0, y0)
    each = jnp.atleast_1d(times)
    request = Request(simulation, plan, t0, each, y0, meter)
    look = simulation.observe if observe is None else observe
    if events:
        leg, found = event_leg(request, events, look)
    else:
        leg, found = run_both_ways(request), ()
    states = jax.vmap(look)(each, leg.states)
    fine = (leg.result != RESULTS.successful) | is_finite((states, leg.end))
    result = RESULTS.where(fine, leg.result, RESULTS.non_finite)
    if leg.reached is not None:
        states = nan_after(states, leg.reached, result == RESULTS.successful)
    # An adaptive run that starts at NaN rejects its steps until there are no more.
    result = RESULTS.where(is_finite(y0), result, RESULTS.initial_state_not_finite)
    proper = simulation.proper()
    result = RESULTS.where(proper, result, RESULTS.improper_parameter)
    if times.ndim == 0:
        states = jax.tree.map(lambda a: a[0], states)
    final = Final(leg.end_time, leg.end)
    # Until a run fails its states are right; of improper parameters none is.
    ok = (result == RESULTS.successful) if hushed else proper
    states, final, found = poisoned((states, final, found), ok)
    # Of what `observe` makes of them nobody knows which axis has the bodies.
    names = simulation.body_names if observe is None else None
    return Trajectory(times, states, result, leg.stats, final, leg.ends, found, names)


@contextlib.contextmanager
def _forward_mode_named(method: Method):
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


def _checked_times(times: Any) -> Any:
    """`times` as floats, concrete ones as NumPy in double precision."""
    if is_traced(times):
        times = as_floating("times", times)
    else:
        check_unitless("times", times)
        times = np.asarray(times)
        if not np.issubdtype(times.dtype, np.number) or np.iscomplexobj(times):
            raise ValueError(f"times must be real numbers, got dtype {times.dtype}")
        times = times.astype(np.promote_types(times.dtype, np.float32))
    if times.ndim > 1 or times.size == 0:
        raise ValueError(
            f"times must have shape (time,) or (), one or more, got {times.shape}"
        )
    if not is_traced(times):
        _check_ascending(times)
    return times


def _check_ascending(times: np.ndarray):
    if not np.all(np.isfinite(times)):
        raise ValueError("times must be finite, got NaN or infinity among them")
    if times.ndim and np.any(np.diff(times) < 0):
        where = int(np.argmax(np.diff(times) < 0))
        raise ValueError(
            f"times must ascend, got {times[where]} before {times[where + 1]}; sort "
            "them, times before t0 included"
        )


def _check_kinds(simulation: Any, method: Any, progress: Any, start: Any):
    meter = diffrax.AbstractProgressMeter | None
    kinds = {
        "simulation": (simulation, AbstractSimulation, "nbody.NBody(bodies)"),
        "method": (method, Method | None, "Method(integrators.Leapfrog(), step=0.01)"),
        "progress": (progress, meter, "diffrax.TextProgressMeter()"),
        "start": (start, Final | None, "trajectory.final"),
    }
    for name, (given, kind, example) in kinds.items():
        check_kind(name, given, kind, example)


def _check_same_state(start: PyTree, own: PyTree):
    got, want = (jax.tree.map(jnp.shape, tree) for tree in (start, own))
    if got != want:
        raise ValueError(
            f"start holds a state of shapes {got}, this simulation has {want}; take "
            "trajectory.final of a run of the same system"
        )
