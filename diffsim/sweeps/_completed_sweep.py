"""`Sweep`: outcomes of runs, by parameters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from .._extras import pictures
from .._results import RESULTS
from .._text_table import (
    MOST_ROWS,
    Block,
    Table,
    html_representation,
    text_representation,
)
from .._types import PyTree
from ..simulations import AbstractStateAxes
from ._run_derivative import Differentiated
from ._stored_runs import StoredRuns
from ._sweep_result import RunOutcome
from ._sweep_tables import Tabled, sbi_arrays, sweep_dataframe, sweep_dataset


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
        memory of the host (NumPy). Trajectories come without `steps`. Those of a store
        are read each time they are asked for.
    - `derivative`: of `sweep(..., derivative=...)`; else None. Of a gradient or a
        Jacobian a dict, from each path in `over` to the outputs, with the axes of what
        the path names behind those of the output; of Fisher information an array of
        shape (run, parameter, parameter), parameters in the order of `over`.
    - `runs`: the number of each run in the whole sweep, of which `part=` has some.
    - `status`: a RESULTS per run; `status == RESULTS.successful` is an array.
    - `stats`: `batch` and `order` of the tiles, `devices`, `chunks`, `compile_seconds`
        and `run_seconds` apart, how many runs were `computed` in this call, and
        `by_vmap`: why `jax.vmap` batches equations where the runs could lie last, and
        how many. It is slower, and as right.
    - `error_estimate`: of the solver, in any number of the outputs of each run, shape
        (run,), if `sweep(..., error_estimate=True)`; else None. NaN for runs that
        failed, and for all where nothing in `predict` takes steps that can be finer;
        infinite where the run at finer steps failed.
    """

    parameters: dict[str, np.ndarray]
    status: RESULTS
    stats: dict[str, Any]
    runs: np.ndarray
    error_estimate: Float[np.ndarray, " run"] | None
    _outputs: PyTree
    _derivative: PyTree
    _differentiated: Differentiated | None = eqx.field(static=True)
    _stored: StoredRuns | None = eqx.field(static=True)

    def __init__(
        self,
        parameters: dict[str, np.ndarray],
        outputs: PyTree,
        status: RESULTS,
        stats: dict[str, Any],
        error_estimate: np.ndarray | None = None,
        *,
        derivative: PyTree = None,
        differentiated: Differentiated | None = None,
        stored: StoredRuns | None = None,
        runs: np.ndarray | None = None,
    ):
        self.parameters, self.status, self.stats = parameters, status, stats
        self.error_estimate = error_estimate
        self._outputs, self._derivative = outputs, derivative
        self._differentiated, self._stored = differentiated, stored
        self.runs = np.arange(len(self)) if runs is None else runs

    @property
    def outputs(self) -> PyTree:
        """Outputs of `predict`, every array with a leading run axis (NumPy)."""
        return self._outcome().outputs

    @property
    def derivative(self) -> PyTree:
        """Derivatives of the outputs, see `sweep(derivative=...)`; None without."""
        if self._differentiated is None:
            return None
        return self._differentiated.arranged(self._outcome().derivative)

    def _outcome(self) -> RunOutcome:
        if self._stored is not None:
            return self._stored.outcome()
        error = self.error_estimate
        return RunOutcome(self._outputs, self.status, error, self._derivative)

    def _tabled(self) -> Tabled:
        outcome = self._outcome()
        return Tabled(self.parameters, outcome, self._differentiated, self.runs)

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
            self._failure(i, RESULTS[runs_of(self.status, np.asarray(i))])
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

        **Raises:** `ValueError` for trajectories beside other outputs and for arrays of
        one name; `ImportError` with the `pip` command where xarray is missing.
        """
        return sweep_dataset(self._tabled(), axes)

    def to_dataframe(self, axes: AbstractStateAxes | None = None) -> "pandas.DataFrame":
        """The runs as a `pandas.DataFrame`: parameters and outputs, a row each.

        **Raises:** `ValueError` for outputs of more than a number a run, which
        `to_xarray` holds.
        """
        return sweep_dataframe(self._tabled(), axes)

    def to_sbi(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Parameters, outputs and which runs succeeded, as the package sbi has them.

        ```python
        def period(pendulum):
            return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

        free = {"length": (0.1, 2.0), "g": (1.0, 25.0)}
        over = sweeps.from_prior(free, 1000, seed=1)
        found = ds.sweep(period, {"length": jnp.array(1.0), "g": jnp.array(9.8)}, over)
        theta, x, mask = found.to_sbi()  # float32, shapes (1000, 2), (1000, 1), (1000,)
        ```

        With PyTorch and sbi (arXiv:2411.17337), which are no dependencies:
        `inference.append_simulations(torch.from_numpy(theta[mask]),
        torch.from_numpy(x[mask]))`.

        **Returns:** `theta`, shape (run, parameter), in the order of `over`, without
        PRNG keys (vectors of uint32); `x`, shape (run, number), the outputs of a run in
        a row, of trajectories and solutions their states; `mask`, shape (run,), False
        for runs that failed, whose `x` are NaN, and for rows with a number that is not
        finite in float32, which neural networks are trained in and all are returned in.

        **Raises:** `ValueError` for complex outputs.
        """
        return sbi_arrays(self._tabled())

    def plot(self, **options: Any) -> "matplotlib.axes.Axes":
        """Draw an output over one parameter or two; see `plots.sweep`."""
        return pictures().sweep(self, **options)

    def _failure(self, place: int, message: str) -> Failure:
        values = {path: np.asarray(x[place]) for path, x in self.parameters.items()}
        return Failure(int(self.runs[place]), values, message)

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
            message = RESULTS[runs_of(self.status, alike[0])]
            shown = alike[: min(_SPELLED_OUT, left)].tolist()
            left -= len(shown)
            failures = [self._failure(i, message) for i in shown]
            yield message, failures, alike.size - len(shown)

    def _solver_error(self) -> list[str]:
        """A line on the error of the solver, and one on runs where it is unknown."""
        if self.error_estimate is None or not np.any(self.successful):
            return []
        error = self.error_estimate[self.successful]
        if np.any(np.isnan(error)):
            return ["error of the solver: none, no step in predict can be made finer"]
        runs = np.flatnonzero(self.successful)
        estimated, lines = runs[np.isfinite(error)], []
        if estimated.size:
            worst = estimated[np.argmax(self.error_estimate[estimated])]
            size = self.error_estimate[worst]
            lines += [f"error of the solver up to {size:.2g}, in {self._named(worst)}"]
        if (lost := runs[np.isposinf(error)]).size:
            more = f" and {lost.size - 1} more" if lost.size > 1 else ""
            failed = self._named(lost[0]) + more
            lines += [f"error of the solver unknown: finer steps fail in {failed}"]
        return lines

    def _named(self, run: Any) -> str:
        return str(self._failure(int(run), ""))


def _text(sweep: Sweep) -> list[Block]:
    lines = [sweep._headline()]
    for message, failures, more in sweep._failed_alike():
        lines += [f"{len(failures) + more} failed. {message}"]
        lines += [f"  {failure}" for failure in failures]
        lines += [f"  and {more} more in .failures"] if more else []
    return [*lines, *sweep._solver_error()]


def _tables(sweep: Sweep) -> list[Block]:
    blocks: list[Block] = [sweep._headline()]
    for message, failures, more in sweep._failed_alike():
        rows = [
            (str(failure.run), *map(_in_digits, failure.parameters.values()))
            for failure in failures
        ]
        header = "run", *sweep.parameters
        blocks += [f"{len(failures) + more} failed. {message}"]
        blocks += [Table(header, rows, ">", more=more)]
    return [*blocks, *sweep._solver_error()]


def runs_of(status: RESULTS, index: Any) -> RESULTS:
    """The status of some runs; it is a module of one array."""
    return jax.tree.map(lambda value: np.asarray(value[index]), status)
