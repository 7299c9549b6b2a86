"""Loop over fit steps: compiled steps, progress and resumption."""

import itertools
import time
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS
from .._validation import is_traced
from ._checkpoint import Checkpoint
from ._fit_options import FitOptions
from ._levenberg_marquardt import LevenbergMarquardt, evaluation
from ._levenberg_marquardt_state import (
    Evaluation,
    LevenbergMarquardtState,
    Linear,
    Objective,
)
from ._optax_minimiser import DescentState, OptaxDescent
from ._posterior import FitStatistics, Posterior


Solver = LevenbergMarquardt | OptaxDescent
_NO_TAGS = frozenset()
#: Functions, and their outputs, which our solvers ask nothing of to begin.
_UNASKED = cast(Any, None)
#: In place of a batch where all data count.
_ALL = object()
_HISTORY = ("loss", "remaining_sigma", "gradient_norm", "seconds")


class FitState(eqx.Module):
    """Where a search stands: coordinates, the solver's state, a row for every step."""

    z: Array
    state: Any
    history: Any


def run_fit_loop(
    experiment: Posterior, solver: Solver, z: Array, options: FitOptions
) -> tuple[Array, Any, dict[str, Any]] | None:
    """Steps until the solver is done or out of steps.

    **Returns:** coordinates, the solver's state complete at these coordinates, and the
    history, arrays over steps. None if the prediction is traced: `predict` closes over
    a tracer, and only the pure core can go on.
    """
    checkpoint = Checkpoint(options.checkpoint, experiment, solver)
    at = FitState(z, initial_state(solver, z), np.zeros((0, len(_HISTORY))))

    def losses(at):
        """The loss of a state, as it was and as it is."""
        descends = isinstance(solver, OptaxDescent)
        found, _ = evaluate(experiment, at.state.best if descends else at.z)
        return at.state.value, found.value

    at = checkpoint.load(at, losses)
    z, state, rows = at.z, at.state, list(np.asarray(at.history))
    exhausted = False
    options.begin()
    given = options.batches is not None
    batches = iter(options.batches) if given else itertools.repeat(_ALL)
    began = time.monotonic()
    while not bool(state.done) and len(rows) < options.max_steps:
        batch = next(batches, None)
        exhausted = batch is None
        if exhausted and not rows:
            raise ValueError("batches must give at least one array of rows, got none")
        if exhausted:
            break
        z, state = fit_step(_of_batch(experiment, batch), solver, z, state)
        if is_traced(state.value):
            return None
        now = time.monotonic()
        told = _progress(state, len(rows) + 1, now - began)
        rows.append(np.array([told[name] for name in _HISTORY], float))
        options.show(told)
        if checkpoint.is_due():
            checkpoint.save(FitState(z, state, _history(rows)))
    checkpoint.save(FitState(z, state, _history(rows)))
    options.finish()
    columns = _history(rows).T
    history: dict[str, Any] = dict(zip(_HISTORY, columns, strict=True))
    return *_complete(experiment, solver, z, state, exhausted), history


def _of_batch(experiment: Posterior, batch: Any) -> Posterior:
    """The experiment of some rows of the data."""
    if batch is _ALL:
        return experiment
    rows = np.asarray(batch)
    assert experiment.batch is not None
    count = experiment.batch.size
    integers = rows.ndim == 1 and rows.size and np.issubdtype(rows.dtype, np.integer)
    if not integers or rows.min() < 0 or rows.max() >= count:
        raise ValueError(
            f"batches must give arrays of row numbers from 0 to {count - 1}, got "
            f"{batch!r:.60}"
        )
    return eqx.tree_at(lambda e: e.batch, experiment, jnp.asarray(rows))


def _history(rows: list[Any]) -> np.ndarray:
    return np.array(rows).reshape(-1, len(_HISTORY))


def initial_state(solver: Solver, z: Array) -> LevenbergMarquardtState | DescentState:
    """The solver's state before its first step; it costs nothing."""
    if isinstance(solver, LevenbergMarquardt):
        return _without_jacobian(z)
    return solver.init(_UNASKED, z, None, {}, _UNASKED, None, _NO_TAGS)


@eqx.filter_jit
def _without_jacobian(z: Array) -> LevenbergMarquardtState:
    """That of `LevenbergMarquardt`, whatever its options."""
    zero = jnp.zeros((), z.dtype)
    aux = jax.eval_shape(lambda: Objective(zero, zero, FitStatistics.none(z)))
    return LevenbergMarquardt().init(_UNASKED, z, None, {}, _UNASKED, aux, _NO_TAGS)


def fit_step(
    experiment: Posterior, solver: Solver, z: Array, state: Any
) -> tuple[Array, Any]:
    """One step of the solver, compiled in parts that fits can share.

    If `predict` closes over tracers there is no step, only a traced `state.value`.
    """
    if isinstance(solver, OptaxDescent):
        return _optax_step(experiment, solver, z, state)
    bounds = tuple(experiment.parameters.limits().values())
    if bool(state.stale):
        linear = _linearize(experiment, solver, z, state)
        if is_traced(linear.value):
            return z, eqx.tree_at(lambda s: s.value, state, linear.value)
        state = _update_linearization(solver, z, bounds, linear, state)
    if bool(state.done):
        return z, state
    trial = _propose(solver, z, bounds, state)
    found, _ = evaluate(experiment, trial.point)
    return _accept_or_reject(solver, z, trial, found, state)


def linearize_at(
    experiment: Posterior, solver: LevenbergMarquardt, z: Array
) -> LevenbergMarquardtState:
    """The state with the Jacobian at `z`, where another solver has ended."""
    state = initial_state(solver, z)
    linear = _linearize(experiment, solver, z, state)
    bounds = tuple(experiment.parameters.limits().values())
    return _update_linearization(solver, z, bounds, linear, state)


@fresh_jit
def _optax_step(experiment: Posterior, solver: OptaxDescent, z: Array, state: Any):
    # A pytree and no function made here, which an optimizer's would be traced anew for.
    loss = eqx.Partial(_loss, experiment)
    options = experiment.parameters.limits()
    return solver.step(loss, z, None, options, state, _NO_TAGS)[:2]


def _loss(experiment: Posterior, z: Array, args: Any) -> tuple[Array, None]:
    del args
    return experiment.loss(z), None


@fresh_jit
def _linearize(
    experiment: Posterior, solver: LevenbergMarquardt, z: Array, state: Any
) -> Linear:
    options = {"chunk": solver.chunk, "mode": solver.mode}
    return solver.linear_by(*experiment.rows_and_jacobian(z, **options), state)


@fresh_jit
def evaluate(
    experiment: Posterior, z: Array
) -> tuple[Evaluation, tuple[Float[Array, " number"], ...]]:
    """Evaluate `z` without a Jacobian: the loss, and the predictions behind it."""
    if experiment.curvature == "observed":
        # The second derivative is nothing that a trial needs.
        values = experiment.parameters.values(z)
        found = experiment.compared(values)
        rows, aux = z, experiment.objective_of(found, values)
    else:
        rows, aux, found = experiment.evaluated(z)
    return evaluation(rows, aux, z.size), found.masked_predictions


@eqx.filter_jit
def _update_linearization(solver, z, bounds, linear, state):
    return solver.update_linearization(z, bounds, linear, state)


@eqx.filter_jit
def _propose(solver, z, bounds, state):
    return solver.proposed(z, bounds, state)


@eqx.filter_jit
def _accept_or_reject(solver, z, trial, found, state):
    return solver.accept_or_reject(z, trial, found, state)


def _complete(
    experiment: Posterior, solver: Solver, z: Array, state: Any, exhausted: bool
) -> tuple[Array, Any]:
    """The point to return, and its state, also where steps ran out before that."""
    # Batches that end are no lack of steps; how far it is still to go, is said.
    ran_out = not bool(state.done) and not exhausted
    ran_out = ran_out and not bool(getattr(state, "last", False))
    if isinstance(solver, OptaxDescent):
        z = state.best
    elif bool(state.stale):
        state = eqx.tree_at(lambda s: s.last, state, jnp.array(True))
        z, state = fit_step(experiment, solver, z, state)
        ran_out = ran_out and not bool(state.newton <= solver.atol)
    if ran_out and bool(state.result != RESULTS.prediction_not_finite):
        over = RESULTS.nonlinear_max_steps_reached
        state = eqx.tree_at(lambda s: s.result, state, over)
    return z, state


def _gradient_norm(state: Any) -> float:
    """Of the loss by the coordinates, where the last Jacobian or gradient was made."""
    if isinstance(state, DescentState):
        return float(state.gradient_norm)
    root, scale = np.asarray(state.root), np.asarray(state.scale)
    return float(np.linalg.norm(root[:-1, :-1].T.dot(root[:-1, -1]) * scale))


def _progress(state: Any, step: int, seconds: float) -> dict[str, Any]:
    return {
        "step": step,
        "loss": float(getattr(state, "latest", state.value)),
        "remaining_sigma": float(getattr(state, "newton", np.nan)),
        "gradient_norm": _gradient_norm(state),
        "rejected": int(getattr(state, "rejected", 0)),
        "non_finite": int(state.non_finite),
        "seconds": seconds,
    }
