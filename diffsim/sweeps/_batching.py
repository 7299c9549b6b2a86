"""A chunk of runs as one compiled program: a loop over tiles of runs side by side."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int

from .._jaxpr._batch_axis import obstacles
from .._jaxpr._batch_last import batch_last
from .._jaxpr._inspection import largest_in_loops, operations
from .._jaxpr._tracing import ClosedJaxpr, run_jaxpr
from .._jit._fresh_jit import fresh_jit
from .._types import PyTree
from ._run_costs import counted
from ._run_derivative import run_derivative
from ._sweep_result import RunOutcome, solver_error, sweep_outcome
from ._swept_parameters import Rows, RowSelection


#: Arrays of a tile that together fit the 32 kB of a level-1 cache stay there. Leapfrog
#: of 8 bodies (1.5 kB): tiles of 16 take 0.096 µs per step and run, of 32 0.36. Loops
#: over 64 numbers LLVM makes of whole vectors, where it writes out those over 32. Of
#: 5 bodies (120 B): tiles of 16, 32, 64, 128 take 61, 33, 24, 27 ns by leapfrog, and
#: by Wisdom and Holman's map 248, 191, 173, 232.
_CACHE = 24 * 1024
#: Larger tiles win nothing more; arrays above the second bound gain from no tile.
_LARGEST_TILE, _LARGEST_ARRAY = 64, 8 * 1024
#: Tiles of runs on a GPU whose steps differ, and the fewest runs in one.
_BUCKETS, _FEWEST_LANES = 8, 1024


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
            found, derivative = run(row.floats), None
        else:
            found, derivative = run_derivative(
                self.derivative, run, jnp.asarray(row.floats)
            )
        error = None
        if self.error_estimate:
            error = solver_error(self.predict, self._model(row), *found)
        return RunOutcome(*found, error, derivative)

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


def batch_layouts(
    jaxpr: Any, runs: int, batch: int | str | None, devices: int = 1
) -> list[BatchLayout]:
    """The layouts worth trying of a task that is known by its operations.

    The most promising first; one if `batch` says which.
    """
    share = -(-runs // devices)
    if batch is None:
        return [BatchLayout("first", share)]
    against = obstacles(jaxpr)
    order = "first" if against else "last"
    if batch == "auto" and jax.default_backend() != "cpu":
        # Runs that differ in their steps, sorted by them, end together.
        lanes = max(_FEWEST_LANES, -(-share // _BUCKETS))
        order = "first" if against else "elements"
        return [BatchLayout(order, min(share, lanes) if "while" in against else share)]
    if not isinstance(batch, str):
        return [BatchLayout("single" if batch == 1 else order, min(batch, share))]
    # Steps that lanes decide on their own make each wait for the slowest: 9.9 ms for an
    # adaptive Dopri8 run of 5 bodies on its own, 13.2 in tiles of 16.
    alone = bool({"while", "cond"} & set(against))
    tile = 1 if alone else _tile_in_cache(largest_in_loops(jaxpr))
    wide = max(tile, 16)
    found = [
        BatchLayout("single", 1) if tile == 1 else _even_tiles(order, tile, share),
        _even_tiles("first", wide, share),
        _even_tiles(order, 4 * wide, share),
        BatchLayout("single", 1),
    ]
    return list(dict.fromkeys(found))


def _tile_in_cache(size: int) -> int:
    if size > _LARGEST_ARRAY:
        return 1
    fitting = max(4, min(_LARGEST_TILE, _CACHE // max(size, 1)))
    return 1 << (fitting.bit_length() - 1)


def _even_tiles(order: str, tile: int, runs: int) -> BatchLayout:
    """Tiles at most that large, and such that few places of the last stay empty."""
    return BatchLayout(order, -(-runs // -(-runs // tile)))


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

    def one(consts, row):
        outputs = run_jaxpr(closed, *jax.tree.leaves(row), consts=consts)
        return jax.tree.unflatten(structure, outputs)

    def on_device(consts, table, counts):
        run = functools.partial(one, consts)
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
    together, tiles = _side_by_side(run, layout), len(table.floats)
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


def _side_by_side(
    run: Callable[[Rows], RunOutcome], layout: BatchLayout
) -> Callable[[Rows], RunOutcome]:
    """`run` for the rows of one tile."""
    if layout.order == "single":
        return lambda rows: jax.tree.map(lambda x: x[None], run(rows.take(0)))
    if layout.order == "first":
        return jax.vmap(_with_cost(run))
    batched = batch_last(run, by_elements=layout.order == "elements")

    def last(rows):
        found = batched(jax.tree.map(jnp.transpose, rows))
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), found)

    return last


def _with_cost(run: Callable[[Rows], RunOutcome]) -> Callable[[Rows], RunOutcome]:
    """`run`, and how often its loops go round, if that is decided as they go."""

    def one(row: Rows) -> RunOutcome:
        closed, shapes = jax.make_jaxpr(run, return_shape=True)(row)
        if "while" not in operations(closed):
            return run(row)
        found, cost = counted(closed)(*jax.tree.leaves(row))
        return jax.tree.unflatten(jax.tree.structure(shapes), found)._replace(cost=cost)

    return one
