"""Loop over fit steps: compiled steps, progress and resumption."""

import dataclasses
import math
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._jit._fresh_jit import fresh_jit
from .._progress import progress_text, show_line
from .._results import RESULTS
from .._validation import count, is_traced
from ._checkpoint import Checkpoint
from ._levenberg_marquardt import (
    Evaluation,
    LevenbergMarquardt,
    LevenbergMarquardtState,
    Linear,
    Objective,
    evaluation,
)
from ._optax_minimiser import DescentState, OptaxDescent
from ._posterior import FitStatistics, Posterior


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """Options of a fit; `max_steps`, `seed` and `start_scatter` may change its answer.

    ```python
    def valley(y):  # Rosenbrock's
        return jnp.stack([10 * (y[1] - y[0] ** 2), 1 - y[0]])

    options = inference.FitOptions(progress=print, checkpoint="valley.npz")
    given = {"noise": inference.Gaussian(1.0), "options": options}
    ds.fit(valley, jnp.array([-1.2, 1.0]), jnp.zeros(2), **given)
    ds.fit(valley, jnp.array([-1.2, 1.0]), jnp.zeros(2), **given)  # goes on from there
    ```

    **Arguments**

    - `max_steps`: trial steps before `RESULTS.nonlinear_max_steps_reached`.
    - `progress`: True for a line on stderr that moves, and says so while programs are
        compiled, or a function that is called after every step with a dict: `step`,
        `loss`, `remaining_sigma` (standard deviations that the Gauss-Newton step before
        it had to go, by the scatter of the residuals where that exceeds sigma; NaN in a
        descent), `gradient_norm` (of the loss by the coordinates in units of
        `Free.scale`), `rejected`, `non_finite`, `seconds`.
    - `checkpoint`: a file. The fit is written there as it goes, at most once a second
        and at its end, as `diffsim.save` writes; if the file is there at the start, the
        fit goes on from it, to the same answer as without the interruption. It has to
        be the same fit: data, noise, start, free parameters and all that `Free` says of
        them, the rest of the model, `predict` and the solver, or it is refused with the
        names of what differs. Functions count by what they do, traced operations and
        numbers, and so do the release and the settings of JAX. The loss at the point
        that was reached is evaluated again: where it is another by more than the root
        of the rounding, the file is refused with both numbers. A file that cannot be
        written is a warning.
    - `covariance`: False leaves out the Jacobian that error bars need, for models of
        thousands of parameters fitted by gradient descent.
    - `observed`: error bars by the second derivative of the log posterior at the best
        fit, which knows how far the model is from linear and the residuals from small,
        in place of the expected information.
    - `batches`: for an Optax optimizer, an iterable of arrays of row numbers, as of a
        data loader: each step sees these rows of the data only, `predict(model, rows)`
        returns their prediction, and the loss is scaled to all data. The fit ends with
        the iterable, or `max_steps`, at its last point.
    - `fixed`: paths that do not vary, for all that `free` says.
    - `solver_error`: False leaves out one run at finer steps after the fit, which says
        how much of the error bars the simulation's own error may take.
    - `seed`, `start_scatter`: with `starts=k`, the start and k − 1 others drawn around
        it with this standard deviation in units of `Free.scale`.

    `progress` and `checkpoint` are for Levenberg-Marquardt and Optax optimizers from
    one start; elsewhere the search is one compiled call.
    """

    max_steps: Any = 1000
    progress: bool | Callable[[dict[str, Any]], None] | None = None
    checkpoint: str | pathlib.Path | None = None
    covariance: bool = True
    observed: bool = False
    batches: Any = None
    fixed: Any = ()
    solver_error: bool = True
    seed: int = 0
    start_scatter: float = 0.3

    def __post_init__(self) -> None:
        count("max_steps", self.max_steps)

    def show(self, step: dict[str, Any]) -> None:
        """Tells `progress` about a step."""
        if callable(self.progress):
            self.progress(step)
        elif self.progress:
            remaining_sigma = step["remaining_sigma"]
            is_known, lost = not math.isnan(remaining_sigma), step["rejected"]
            lost += step["non_finite"]
            show_line(
                progress_text(
                    "fit",
                    f"step {step['step']}",
                    f"loss {step['loss']:.6g}",
                    f"gradient {step['gradient_norm']:.1e}",
                    f"{remaining_sigma:.1e} sigma to go" if is_known else "",
                    f"{lost} rejected" if lost else "",
                    seconds=step["seconds"],
                )
            )


Solver = LevenbergMarquardt | OptaxDescent
_NO_TAGS = frozenset()
#: In place of functions and their outputs, which our solvers do not read to begin.
_UNASKED = cast(Any, None)
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
    state: Any = initial_state(solver, z)
    rows, checkpoint = [], None
    if options.checkpoint is not None:
        checkpoint = Checkpoint(options.checkpoint, experiment, solver)
        saved = FitState(z, state, np.zeros((0, len(_HISTORY))))

        def losses(saved):
            """The loss of a state, as it was and as it is."""
            descends = isinstance(solver, OptaxDescent)
            point = saved.state.best if descends else saved.z
            return saved.state.value, evaluate(experiment, point)[0].value

        saved = checkpoint.load(saved, losses)
        z, state, rows = saved.z, saved.state, list(np.asarray(saved.history))

    if options.progress is True:
        show_line(progress_text("fit", "compiling"))
    batches, ended = None, False
    if options.batches is not None:
        batches = iter(options.batches)
    began = time.monotonic()
    while not bool(state.done) and len(rows) < options.max_steps:
        part = experiment
        if batches is not None:
            batch = next(batches, None)
            if ended := batch is None:
                break
            part = _of_batch(experiment, batch)
        z, state = fit_step(part, solver, z, state)
        if is_traced(state.value):
            return None
        step = _progress(state, len(rows) + 1, time.monotonic() - began)
        rows.append(np.array([step[name] for name in _HISTORY], float))
        options.show(step)
        if checkpoint is not None and checkpoint.is_due():
            checkpoint.save(FitState(z, state, _history(rows)))
    if ended and not rows:
        raise ValueError("batches must give at least one array of rows, got none")
    if checkpoint is not None:
        checkpoint.save(FitState(z, state, _history(rows)))
    if options.progress is True:
        print(file=sys.stderr)  # ends the line that moved
    history: dict[str, Any] = dict(zip(_HISTORY, _history(rows).T, strict=True))

    # Batches that end are no lack of steps; how far it is still to go, is said.
    ran_out = not (bool(state.done) or ended or bool(getattr(state, "last", False)))
    if isinstance(solver, OptaxDescent):
        z = state.best
    elif bool(state.stale):
        state = eqx.tree_at(lambda s: s.last, state, jnp.array(True))
        z, state = fit_step(experiment, solver, z, state)
        ran_out = ran_out and not bool(state.newton <= solver.atol)
    if ran_out and bool(state.result != RESULTS.prediction_not_finite):
        over = RESULTS.nonlinear_max_steps_reached
        state = eqx.tree_at(lambda s: s.result, state, over)
    return z, state, history


def _of_batch(experiment: Posterior, batch: Any) -> Posterior:
    """The experiment of some rows of the data."""
    assert experiment.batch is not None
    rows, size = np.asarray(batch), experiment.batch.size
    integers = rows.ndim == 1 and rows.size and np.issubdtype(rows.dtype, np.integer)
    if not integers or rows.min() < 0 or rows.max() >= size:
        raise ValueError(
            f"batches must give arrays of row numbers from 0 to {size - 1}, got "
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
    bounds = experiment.parameters.limits
    if bool(state.stale):
        linear = _linearize(experiment, solver, z, state)
        if is_traced(linear.value):
            return z, eqx.tree_at(lambda s: s.value, state, linear.value)
        state = _update_linearization(solver, z, bounds, linear, state)
    if bool(state.done):
        return z, state
    trial = _propose(solver, z, bounds, state)
    evaluated, _ = evaluate(experiment, trial.point)
    return _accept_or_reject(solver, z, trial, evaluated, state)


def linearize_at(
    experiment: Posterior, solver: LevenbergMarquardt, z: Array
) -> LevenbergMarquardtState:
    """The state with the Jacobian at `z`, where another solver has ended."""
    state = _without_jacobian(z)
    linear = _linearize(experiment, solver, z, state)
    bounds = experiment.parameters.limits
    return _update_linearization(solver, z, bounds, linear, state)


@fresh_jit
def _optax_step(experiment: Posterior, solver: OptaxDescent, z: Array, state: Any):
    # A pytree and no function made here, which an optimizer's would be traced anew for.
    loss = eqx.Partial(_loss, experiment)
    lower, upper = experiment.parameters.limits
    options = {"lower": lower, "upper": upper}
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
        # A trial needs no second derivative.
        values = experiment.parameters.values(z)
        compared = experiment.compared(values)
        rows, aux = z, experiment.objective_of(compared, values)
    else:
        rows, aux, compared = experiment.evaluated(z)
    return evaluation(rows, aux, z.size), compared.masked_predictions


# The parts of a step that call no user's function are the same for every fit.
_update_linearization = eqx.filter_jit(LevenbergMarquardt.update_linearization)
_propose = eqx.filter_jit(LevenbergMarquardt.proposed)
_accept_or_reject = eqx.filter_jit(LevenbergMarquardt.accept_or_reject)


def _progress(state: Any, step: int, seconds: float) -> dict[str, Any]:
    if isinstance(state, DescentState):
        norm = float(state.gradient_norm)
    else:  # of the loss by the coordinates, where the last Jacobian was made
        root, scale = np.asarray(state.root), np.asarray(state.scale)
        norm = float(np.linalg.norm(root[:-1, :-1].T.dot(root[:-1, -1]) * scale))
    return {
        "step": step,
        "loss": float(getattr(state, "latest", state.value)),
        "remaining_sigma": float(getattr(state, "newton", np.nan)),
        "gradient_norm": norm,
        "rejected": int(getattr(state, "rejected", 0)),
        "non_finite": int(state.non_finite),
        "seconds": seconds,
    }
