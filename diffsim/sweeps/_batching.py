"""A chunk of runs as one compiled program: a loop over tiles of runs side by side."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int

from .._jaxpr._batch_last import batch_last
from .._jaxpr._inspection import operations
from .._jaxpr._tracing import ClosedJaxpr, run_jaxpr
from .._jit._fresh_jit import fresh_jit
from .._types import PyTree
from ._run_costs import counted
from ._run_derivative import run_derivative
from ._sweep_result import RunOutcome, solver_error, sweep_outcome
from ._swept_parameters import Rows, RowSelection


class BatchLayout(NamedTuple):
    """How the runs of a tile lie beside each other.

    - `order`: `"first"`, as `jax.vmap` puts them; `"last"`, see `batch_last`;
        `"elements"`, last, and in small loops each number is an array by itself; or
        `"single"`, one run after the other.
    - `tile`: number of runs.
    """

    order: str
    tile: int

    def within(self, runs: int) -> "BatchLayout":
        """With tiles of at most so many runs."""
        return self._replace(tile=min(self.tile, runs))

    def batched(
        self, run: "Callable[[Rows], RunOutcome]"
    ) -> "Callable[[Rows], RunOutcome]":
        """`run` for the rows of one tile."""
        if self.order == "single":
            return lambda rows: jax.tree.map(lambda x: x[None], run(rows.take(0)))
        if self.order == "first":
            return jax.vmap(_with_cost(run))
        last = batch_last(run, by_elements=self.order == "elements")

        def runs_first(rows):
            outcomes = last(jax.tree.map(jnp.transpose, rows))
            return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), outcomes)

        return runs_first


class Task(eqx.Module):
    """Computation of a sweep for one row of its table."""

    predict: Callable[[Any], Any]
    model: PyTree
    selection: RowSelection
    error_estimate: bool = eqx.field(static=True, default=False)
    derivative: str | None = eqx.field(static=True, default=None)

    def __call__(self, row: Rows) -> RunOutcome:
        """Outputs, how the run went, and what else was asked of it."""

        def run(floats):
            return sweep_outcome(self.predict, self._model(row._replace(floats=floats)))

        if self.derivative is None:
            outcome, derivative = run(row.floats), None
        else:
            outcome, derivative = run_derivative(
                self.derivative, run, jnp.asarray(row.floats)
            )
        error = None
        if self.error_estimate:
            error = solver_error(self.predict, self._model(row), *outcome)
        return RunOutcome(*outcome, error, derivative)

    def _model(self, row: Rows) -> PyTree:
        return self.selection.put(self.model, row)

    def jaxpr(self, row: Rows) -> ClosedJaxpr:
        """The jaxpr of one run."""
        arrays, rest = eqx.partition(self, eqx.is_array)
        return jax.make_jaxpr(lambda a, x: _trace(eqx.combine(a, rest), x))(arrays, row)

    @property
    def arrays(self) -> list[Array]:
        """The inputs of `jaxpr` before those of a row."""
        return jax.tree.leaves(eqx.filter(self, eqx.is_array))

    def shapes(self, row: Rows) -> RunOutcome:
        """Shapes that one run returns."""
        return eqx.filter_eval_shape(_trace, self, row)


@fresh_jit
def _trace(task: Task, row: Rows) -> RunOutcome:
    """One run, traced once and not in every call of `sweep`."""
    return task(row)


@fresh_jit
def run_tiles(
    task: Task,
    table: Rows,
    counts: Int[Array, " device"],
    layout: BatchLayout,
    mesh: Mesh | None = None,
) -> RunOutcome:
    """The outcomes of the first tiles of `table`, with a leading run axis.

    Those of other tiles are zeros: how many tiles are run is decided without compiling.
    Of a mesh each device has its part of the table, and runs as many of the tiles in it
    as `counts` says; none waits for another before all are done.
    """
    if mesh is None:
        return _tiles(task, table, counts[0], layout)
    # Traced out here: inside, all that a user's code makes would belong to the mesh.
    row = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), table)
    closed, shapes = jax.make_jaxpr(task, return_shape=True)(row)
    structure = jax.tree.structure(shapes)

    def run_one(consts, row):
        outputs = run_jaxpr(closed, *jax.tree.leaves(row), consts=consts)
        return jax.tree.unflatten(structure, outputs)

    def on_device(consts, table, counts):
        run = functools.partial(run_one, consts)
        return _tiles(run, table, counts[0], layout)

    along = PartitionSpec(mesh.axis_names[0])
    return jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(PartitionSpec(), along, along),
        out_specs=along,
        check_vma=False,
    )(closed.consts, table, counts)


def _tiles(
    run: Callable[[Rows], RunOutcome],
    table: Rows,
    count: Int[Array, ""],
    layout: BatchLayout,
) -> RunOutcome:
    """The outcomes of `count` tiles on one device."""
    together, tiles = layout.batched(run), len(table.floats)
    if tiles == 1:
        return together(table.take(0))
    # Traced once: a tenth of the time of a first sweep.
    closed, shapes = jax.make_jaxpr(together, return_shape=True)(table.take(0))
    leaves, structure = jax.tree.flatten(shapes)
    empty = [jnp.zeros((tiles, *x.shape), x.dtype) for x in leaves]

    def one_more(i, filled):
        tile = run_jaxpr(closed, *jax.tree.leaves(table.take(i)))
        return [all_.at[i].set(x) for all_, x in zip(filled, tile, strict=True)]

    filled = jax.lax.fori_loop(0, count, one_more, empty)
    every = [x.reshape(-1, *x.shape[2:]) for x in filled]
    return jax.tree.unflatten(structure, every)


def _with_cost(run: Callable[[Rows], RunOutcome]) -> Callable[[Rows], RunOutcome]:
    """`run`, and how often its loops go round, if that is decided as they go."""

    def with_cost(row: Rows) -> RunOutcome:
        closed, shapes = jax.make_jaxpr(run, return_shape=True)(row)
        if "while" not in operations(closed):
            return run(row)
        leaves, cost = counted(closed)(*jax.tree.leaves(row))
        outcome = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
        return outcome._replace(cost=cost)

    return with_cost
