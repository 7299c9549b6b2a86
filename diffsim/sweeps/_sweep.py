"""`sweep`: one prediction for many values of its parameters."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._extras import pictures
from .._jit._fresh_jit import reading
from .._results import RESULTS
from .._text_table import (
    MOST_ROWS,
    Block,
    Table,
    html_representation,
    text_representation,
)
from .._types import PyTree
from .._validation import check_signature
from ..simulations import AbstractStateAxes
from ._batch_axis import equations_left_to_vmap
from ._batching import Task, batch_layouts
from ._chunked_run import Chunks
from ._sweep_options import SweepOptions, is_positive_integer
from ._sweep_tables import sweep_dataframe, sweep_dataset
from ._swept_parameters import swept_parameters


if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import xarray


#: Failures that the printed summary spells out.
_SPELLED_OUT = 10


class Failure(NamedTuple):
    """One run that failed: its number, its parameters, and what to try."""

    run: int
    parameters: dict[str, np.ndarray]
    message: str

    def __repr__(self) -> str:
        return text_representation(self, _named_values)


def _named_values(failure: Failure) -> list[Block]:
    values = ", ".join(
        f"{path} = {_in_digits(value)}" for path, value in failure.parameters.items()
    )
    return [f"run {failure.run}: {values}"]


def _in_digits(value: np.ndarray) -> str:
    return np.array2string(np.asarray(value), precision=8, threshold=6)


class Sweep(eqx.Module):
    """Result of `sweep`; `print` it for a summary with the failures.

    ```python
    def end(problem):  # an explicit method, which takes many steps where it is stiff
        method = ds.Method(diffrax.Dopri5(), max_steps=500)
        return ds.simulate(problem, 1.0, method)

    over = {"epsilon": [1.0, 0.1, 1e-5]}
    found = ds.sweep(end, problems.kaps(), over)  # a sweeps.Sweep
    found.outputs.states[found.successful]  # e⁻², e⁻¹ for every epsilon
    found.failures[0].message  # what went wrong with the third, and what to try
    ```

    - `parameters`: paths to values as they were given, leading run axis.
    - `outputs`: what `predict` returns, every array with a leading run axis, in the
        memory of the host (NumPy). Trajectories come without `steps`.
    - `status`: a RESULTS per run; `status == RESULTS.successful` is an array.
    - `stats`: `batch` and `order` of the tiles, `chunks`, `compile_seconds` and
        `run_seconds` apart, and `by_vmap`: why `jax.vmap` batches equations where the
        runs could lie last, and how many. It is slower, and as right.
    - `error_estimate`: of the solver, in any number of the outputs of each run, shape
        (run,), if `sweep(..., error_estimate=True)`; else None. NaN for runs that
        failed, and for all where nothing in `predict` takes steps that can be finer;
        infinite where the run at finer steps failed.
    """

    parameters: dict[str, np.ndarray]
    outputs: PyTree
    status: RESULTS
    stats: dict[str, Any]
    error_estimate: Float[np.ndarray, " run"] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    @property
    def successful(self) -> np.ndarray:
        """Whether each run succeeded, shape (run,)."""
        return np.asarray(self.status == RESULTS.successful)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The runs that failed, with their parameter values."""
        return tuple(
            Failure(i, self._at(i), RESULTS[_runs(self.status, np.asarray(i))])
            for i in np.flatnonzero(~self.successful).tolist()
        )

    def to_xarray(self, axes: AbstractStateAxes | None = None) -> "xarray.Dataset":
        """The runs as an `xarray.Dataset` along `run`, parameters as its coordinates.

        ```python
        def height(rod):
            return ds.simulate(rod, 0.1).states.max()

        rod = pde.Evolution(pde.Diffusion(0.1), lambda x: x[0], pde.Grid(16))
        over = {"equation.diffusivity": np.linspace(0.1, 1.0, 8)}
        dataset = ds.sweep(height, rod, over).to_xarray()
        dataset.output.plot(x="equation.diffusivity")
        ```

        Of trajectories the variables are those of `Trajectory.to_xarray`; of other
        outputs one for each array, `output` if there is one. `status` has the codes of
        outcomes, and their names as an attribute. A product, as `sweeps.grid` makes,
        becomes an axis a parameter by
        `.set_index(run=["equation.diffusivity", "t0"]).unstack("run")`.

        **Arguments**

        - `axes`: names for the outputs and their axes, a `simulations.StateAxes`.

        **Raises:** `ValueError` for trajectories beside other outputs; `ImportError`
        with the `pip` command where xarray is missing.
        """
        return sweep_dataset(self, axes)

    def to_dataframe(self, axes: AbstractStateAxes | None = None) -> "pandas.DataFrame":
        """The runs as a `pandas.DataFrame`: parameters and outputs, a row each.

        **Raises:** `ValueError` for outputs of more than a number a run, which
        `to_xarray` holds.
        """
        return sweep_dataframe(self, axes)

    def plot(self, **options: Any) -> "matplotlib.axes.Axes":
        """Draw an output over one parameter or two; see `plots.sweep`."""
        return pictures().sweep(self, **options)

    def _at(self, run: int) -> dict[str, np.ndarray]:
        return {
            path: np.asarray(values[run]) for path, values in self.parameters.items()
        }

    def __repr__(self) -> str:
        return text_representation(self, _text)

    def _repr_html_(self) -> str:
        return html_representation(self, _tables)

    def _headline(self) -> str:
        failed = int(np.sum(~self.successful))
        runs = "1 run" if len(self) == 1 else f"{len(self)} runs"
        return (
            f"sweep of {runs} over {', '.join(self.parameters)}: "
            f"{len(self) - failed} successful, {failed} failed"
        )

    def _failed_alike(self) -> Iterator[tuple[str, list[Failure], int]]:
        """Yield each failure, the first runs that had it, and how many more did.

        Only these are looked at one by one, of what may be a million.
        """
        failed, left = np.flatnonzero(~self.successful), MOST_ROWS
        (codes,) = (np.asarray(x)[failed] for x in jax.tree.leaves(self.status))
        for code in dict.fromkeys(codes.tolist()):
            alike = failed[codes == code]
            message = RESULTS[_runs(self.status, alike[0])]
            shown = alike[: min(_SPELLED_OUT, left)].tolist()
            left -= len(shown)
            found = [Failure(i, self._at(i), message) for i in shown]
            yield message, found, alike.size - len(shown)

    def _solver_error(self) -> list[str]:
        """A line on the error of the solver, and one on runs where it is unknown."""
        if self.error_estimate is None or not np.any(self.successful):
            return []
        error = self.error_estimate[self.successful]
        if np.any(np.isnan(error)):
            return ["error of the solver: none, no step in predict can be made finer"]
        runs = np.flatnonzero(self.successful)
        known, lines = runs[np.isfinite(error)], []
        if known.size:
            worst = known[np.argmax(self.error_estimate[known])]
            size = self.error_estimate[worst]
            lines += [f"error of the solver up to {size:.2g}, in {self._named(worst)}"]
        if (lost := runs[np.isposinf(error)]).size:
            more = f" and {lost.size - 1} more" if lost.size > 1 else ""
            at = self._named(lost[0]) + more
            lines += [f"error of the solver unknown: finer steps fail in {at}"]
        return lines

    def _named(self, run: Any) -> str:
        return str(Failure(int(run), self._at(int(run)), ""))


def _text(found: Sweep) -> list[Block]:
    lines = [found._headline()]
    for message, failures, more in found._failed_alike():
        lines += [f"{len(failures) + more} failed. {message}"]
        lines += [f"  {failure}" for failure in failures]
        lines += [f"  and {more} more in .failures"] if more else []
    return [*lines, *found._solver_error()]


def _tables(found: Sweep) -> list[Block]:
    blocks: list[Block] = [found._headline()]
    for message, failures, more in found._failed_alike():
        rows = [
            (str(one.run), *map(_in_digits, one.parameters.values()))
            for one in failures
        ]
        header = "run", *found.parameters
        blocks += [f"{len(failures) + more} failed. {message}"]
        blocks += [Table(header, rows, ">", more=more)]
    return [*blocks, *found._solver_error()]


def sweep(
    predict: Callable[[Any], Any],
    model: PyTree,
    over: Any,
    *,
    batch: Any = "auto",
    options: Any = None,
    error_estimate: bool = False,
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
        third entry of each); `sweeps.grid` makes all combinations. Below the run axis
        an array has the shape of what its path names. Values take the dtype of their
        leaf.
    - `batch`: how many runs lie side by side in a tile; one chunk is a loop over tiles.
        `"auto"` on a CPU starts from a tile that fits the level-1 cache, with single
        runs if their steps are adaptive, and times other layouts on the runs to come
        where these take twenty times longer than compiling; elsewhere it puts the
        whole chunk side by side. None is `jax.vmap` of the whole chunk. A number fixes
        the tile.
    - `options`: `sweeps.SweepOptions(progress=, memory=)`.
    - `error_estimate`: whether to repeat every run with half the step, or a tenth of
        the tolerance, and report the largest difference of any number in its outputs as
        `Sweep.error_estimate`. The finer runs come on top: twice the steps where they
        are fixed, 1.3 to 1.8 times as many where a tolerance chooses them.

    **Returns:** `Sweep`. A run that fails has a status and NaN, and touches no other:
    inside, `simulate` turns failures into NaN. The status is that of the trajectories
    that `predict` returns, alone or with more; where these are fine, or it returns
    their states alone, and an output is not finite, `RESULTS.prediction_not_finite`.

    The second call with the same `predict` and shapes compiles nothing.

    **Good values:** `"auto"`. Fixed-step loops over small states gain most: leapfrog of
    5 bodies takes half the time of REBOUND's loop over the runs, and 0.28 of that of
    one `jax.vmap` over 64 (one core).

    **Raises:** `ValueError` for paths, shapes or values that do not fit, and for being
    called inside jit; whatever `predict` raises while it is traced.

    **Limits:** one device (convenience). All runs have one structure, so shapes and
    static fields cannot vary (mathematics of compiling once).
    """
    if not (batch is None or batch == "auto" or is_positive_integer(batch)):
        raise ValueError(f"batch must be 'auto', None or a positive int, got {batch!r}")
    options = SweepOptions() if options is None else options
    if not isinstance(options, SweepOptions):
        raise ValueError(f"options must be a sweeps.SweepOptions(...), got {options!r}")
    check_signature("predict", predict, ("model",))
    runs = swept_parameters(model, over)
    batch = batch if batch in (None, "auto") else int(batch)
    task = Task(predict, model, runs.selection, bool(error_estimate))
    chunks = Chunks(task, runs.table, options.budget())
    chunks.compiling = lambda: options.compiling(_state(chunks))
    with reading(task):
        jaxpr = task.jaxpr(jnp.asarray(runs.table[0]))
        candidates = batch_layouts(jaxpr, len(runs.table), batch)
        layout = chunks.complete(candidates, lambda: options.show(_state(chunks)))
    outputs, status, error = chunks.collected
    if error_estimate and error is None:
        error = np.full(len(runs.table), np.nan)
    stats = {
        "batch": layout.tile,
        "order": layout.order,
        "chunks": chunks.chunks,
        "compile_seconds": chunks.compile_seconds,
        "run_seconds": chunks.run_seconds,
        "by_vmap": equations_left_to_vmap(jaxpr),
    }
    return Sweep(runs.parameters, outputs, status, stats, error)


def _runs(status: RESULTS, index: Any) -> RESULTS:
    """The status of some runs; it is a module of one array."""
    return jax.tree.map(lambda value: np.asarray(value[index]), status)


def _state(chunks: Chunks) -> dict[str, Any]:
    failed = 0
    if chunks.done:
        done = _runs(chunks.collected[1], slice(chunks.done))
        failed = int(np.sum(np.asarray(done != RESULTS.successful)))
    return {
        "done": chunks.done,
        "runs": len(chunks.table),
        "failed": failed,
        "seconds": chunks.compile_seconds + chunks.run_seconds,
    }
