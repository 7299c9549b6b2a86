"""`sweep`: one prediction for many values of its parameters."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from .._jit._fresh_jit import reading
from .._types import PyTree
from .._validation import count, function_of, instance
from ._batching import Task
from ._completed_sweep import Sweep
from ._devices import checked_devices, gathered, share_of
from ._open_store import open_store
from ._run_derivative import check_derivative
from ._stored_runs import StoredRuns
from ._sweep_options import SweepOptions
from ._sweep_plan import Plan
from ._sweep_result import KeptInMemory, RunOutcome
from ._swept_parameters import SweptParameters, swept_parameters


#: The sentence that Equinox raised, in the text that it or JAX makes of it.
_RAISED = re.compile(r"EquinoxRuntimeError: (.*?)(?=\n\n|\n-{9}|\Z)", re.DOTALL)


def sweep(
    predict: Callable[[Any], Any],
    model: PyTree,
    over: Any,
    *,
    batch: Any = "auto",
    devices: Any = None,
    store: Any = None,
    derivative: str | None = None,
    error_estimate: bool = False,
    options: Any = None,
) -> Sweep:
    r"""Compute $f(\theta_i)$ for many $\theta_i$, side by side.

    ```python
    system, times = problems.outer_solar_system(), jnp.linspace(0.0, 50.0, 20)
    method = ds.Method(integrators.Leapfrog(), step=1.0)

    def saturn(system):
        return ds.simulate(system, times, method)["Saturn"].positions

    masses = 1e-3 * np.linspace(0.5, 1.5, 16)
    found = ds.sweep(saturn, system, {"bodies.masses[Jupiter]": masses})
    found.outputs.shape  # (16, 20, 3): run, time, axis
    ```

    **Arguments**

    - `predict`: any JAX function of the model that returns arrays or a `Trajectory`;
        it may take gradients, fit or solve inside. What `numpy.random` draws inside is
        drawn once, for all runs: put `jax.random` keys in the model.
    - `model`: any pytree.
    - `over`: paths to arrays with a leading run axis, taken together (run 3 has the
        third entry of each); `sweeps.grid` makes all combinations, `sweeps.sobol`,
        `latin_hypercube` and `from_prior` draw. Below the run axis an array has the
        shape of what its path names. Values take the dtype of their leaf, which may be
        floats, integers or a PRNG key: `jax.random.split(key, 1000)` are 1000 runs.
    - `batch`: how many runs lie side by side in a tile; one chunk is a loop over tiles.
        `"auto"` on a CPU starts from a tile that fits the level-1 cache, with single
        runs if their steps are adaptive, and times other layouts on the runs to come
        where these take twenty times longer than compiling; elsewhere it puts the
        whole chunk side by side. None is `jax.vmap` of the whole chunk. A number fixes
        the tile.
    - `devices`: what computes, a list of `jax.devices()`; None takes all local ones,
        each with its share of every chunk. The cores of a CPU are devices if JAX is
        told so before it starts: `ds.configure(num_cpu_devices=8)`.
    - `store`: a path for the outcomes, `"runs.zarr"`: whatever is in it stays there if
        the process ends, and the same call goes on where that was, as does one with
        more runs behind the same ones (a longer Sobol sequence). One run is computed
        again and compared. Read it by `xarray.open_zarr`. Outputs are written as they
        come, and need not fit into memory.
    - `derivative`: `"gradient"` of one number that `predict` returns, `"jacobian"` of
        all, or `"fisher"`, $J^T J$, the information on the parameters where each output
        is measured with a standard deviation of 1; by the floats in `over`, by forward
        or reverse mode, whichever takes less.
    - `error_estimate`: whether to repeat every run with half the step, or a tenth of
        the tolerance, and report the largest difference of any number in its outputs as
        `Sweep.error_estimate`. The finer runs come on top: twice the steps where they
        are fixed, 1.3 to 1.8 times as many where a tolerance chooses them.
    - `options`: `sweeps.SweepOptions(progress=, memory=, part=, retry=, engine=,
        chunk=)`.

    **Returns:** `Sweep`. A run that fails has a status and NaN, and touches no other:
    inside, `simulate` turns failures into NaN. The status is that of the trajectories
    that `predict` returns, alone or with more; where these are fine, or it returns
    their states alone, and an output is not finite, `RESULTS.prediction_not_finite`.
    Solutions of Diffrax and Optimistix, by `throw=False`, tell it as well; a derivative
    that is not finite is `RESULTS.derivative_not_finite`.

    The second call with the same `predict` and shapes compiles nothing. Under
    `jax.distributed` every process computes its share of the runs, and returns all.

    **Good values:** `"auto"`. Fixed-step loops over small states gain most: leapfrog of
    4096 systems of 5 bodies takes 0.14 of the time of REBOUND's loop over them, and
    Wisdom and Holman's map 0.31 (one core; two as devices take half of it).

    **Raises:** `ValueError` for paths, shapes or values that do not fit, for a store of
    another sweep, and for being called inside jit; `OSError` for a store that cannot
    be written; `RuntimeError` where `eqx.error_if` or a library raises in a run, which
    ends the sweep; whatever `predict` raises while it is traced.

    **Limits:** All runs have one structure, so shapes and static fields cannot vary
    (mathematics of compiling once). A run is on one device (convenience).
    """
    batch = batch if batch in (None, "auto") else count("batch", batch)
    options = SweepOptions() if options is None else options
    instance("options", options, SweepOptions, "sweeps.SweepOptions()")
    if options.retry is not None and store is None:
        raise ValueError("retry='failed' repeats runs of a store; give store= as well")
    function_of("predict", predict, ("model",))
    runs = swept_parameters(model, over)
    check_derivative(derivative, runs.selection.floats)
    task = Task(predict, model, runs.selection, error_estimate, derivative)
    plan = Plan(task, runs.table, batch, checked_devices(devices), options)
    with reading(task), _explained_errors():
        if store is None:
            return _in_memory(plan, runs)
        return _in_store(plan, runs, store)


@contextlib.contextmanager
def _explained_errors() -> Iterator[None]:
    """Say of an error that Equinox raised in a run what lets that run fail alone."""
    try:
        yield
    except RuntimeError as error:
        raised = _RAISED.search(str(error))
        if raised is None:
            raise
        what = raised[1].rstrip(".")
        raise RuntimeError(
            f"predict raised an error in a run, which ends the sweep: {what}. Let such "
            "a run fail by its outcome, which touches no other: return the "
            "solution of diffrax.diffeqsolve(..., throw=False), call ds.simulate, or "
            "make NaN by jnp.where for what eqx.error_if looks at"
        ) from None


def _in_memory(plan: Plan, runs: SweptParameters) -> Sweep:
    """All outcomes in the memory of the host."""
    share, total = share_of(plan.options.part), plan.table.runs
    own, chunk, layouts = np.arange(total), None, plan.layouts()
    if share is not None:
        # The same in all processes, whatever their devices; which layout is fastest
        # one may find out otherwise than another.
        chunk = plan.chunk(plan.layouts(share.count)[0].tile)
        layouts = [plan.layouts(share.count * len(plan.devices))[0].within(chunk)]
        own = share.runs(total, chunk)
    kept = KeptInMemory(len(own), plan.shapes)
    stats = plan.compute(own, kept.keep, layouts=layouts, chunk=chunk)
    outcomes = kept.outcomes
    if share is not None and share.is_of_hosts:
        assert chunk is not None
        outcomes = gathered(outcomes, share, total, chunk)
        own = np.arange(total)
    parameters = {path: values[own] for path, values in runs.parameters.items()}
    return _as_sweep(plan, parameters, outcomes, stats, own)


def _as_sweep(
    plan: Plan,
    parameters: dict[str, np.ndarray],
    outcomes: RunOutcome,
    stats: Any,
    runs: np.ndarray,
) -> Sweep:
    error = outcomes.error
    if plan.task.error_estimate and error is None:
        error = np.full(len(jax.tree.leaves(outcomes.status)[0]), np.nan)
    return Sweep(
        parameters,
        outcomes.outputs,
        outcomes.status,
        stats,
        error,
        derivative=outcomes.derivative,
        differentiated=plan.differentiated,
        runs=runs,
    )


def _in_store(plan: Plan, runs: SweptParameters, path: Any) -> Sweep:
    """All outcomes in a store, where some may be."""
    share, total = share_of(plan.options.part), plan.table.runs
    with open_store(path, plan, runs.parameters, share) as store:
        own, todo = store.own, store.todo()
        computed = np.concatenate([store.sample(todo), todo])
        stats = plan.compute(
            computed,
            lambda places, outcomes: store.keep(computed[places], outcomes),
            layouts=[store.layout],
            chunk=store.chunk,
            before=(len(own) - len(computed), store.failed),
            stored=True,
        )
        stats["computed"] = len(todo)
    if share is not None and share.is_of_hosts:
        share.wait_for_others()
        own = np.arange(total)
    stored = StoredRuns(store.path, store.contents, own)
    parameters = {path: values[own] for path, values in runs.parameters.items()}
    status, error = stored.status(), stored.error_estimate()
    return Sweep(
        parameters,
        None,
        status,
        stats,
        error,
        differentiated=plan.differentiated,
        stored=stored,
        runs=own,
    )
