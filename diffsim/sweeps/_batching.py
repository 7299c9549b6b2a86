"""A chunk of runs as one compiled program: a loop over tiles of runs side by side."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._jit._fresh_jit import fresh_jit
from .._parameter_selection import Selection, with_selected_values
from .._primitives import ClosedJaxpr
from .._types import PyTree
from ._batch_axis import obstacles
from ._batch_last import batch_last
from ._jaxpr_inspection import largest_in_loops
from ._sweep_result import solver_error, sweep_outcome


#: Arrays of a tile that together fit the 32 kB of a level-1 cache stay there. Leapfrog
#: of 5 bodies (600 B): tiles of 16 and 32 take 0.045 µs per step and run, of 64 0.10.
#: Wisdom and Holman's map of them, which has more small arrays (120 B): 0.25 and 0.33.
_CACHE = 24 * 1024
#: Larger tiles win nothing more; arrays above the second bound gain from no tile.
_LARGEST_TILE, _LARGEST_ARRAY = 32, 8 * 1024


class BatchLayout(NamedTuple):
    """How the runs of a tile lie beside each other.

    - `order`: `"first"`, as `jax.vmap` puts them; `"last"`, see `batch_last`; or
        `"single"`, one run after the other.
    - `tile`: number of runs.
    """

    order: str
    tile: int


class Task(eqx.Module):
    """Computation of a sweep for one row of its table."""

    predict: Callable[[Any], Any]
    model: PyTree
    selection: Selection
    error_estimate: bool = eqx.field(static=True, default=False)

    def __call__(self, row: Float[Array, " number"]) -> PyTree[Array]:
        """Outputs, how the run went, and the error of its solver, if that is asked."""
        model = with_selected_values(self.model, self.selection, row)
        found = sweep_outcome(self.predict, model)
        if not self.error_estimate:
            return *found, None
        return *found, solver_error(self.predict, model, *found)

    def jaxpr(self, row: Array) -> ClosedJaxpr:
        """The jaxpr of one run."""
        arrays, rest = eqx.partition(self, eqx.is_array)
        return jax.make_jaxpr(lambda a, x: _trace(eqx.combine(a, rest), x))(arrays, row)

    def shapes(self, row: Array) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes that one run returns."""
        return eqx.filter_eval_shape(_trace, self, row)


@fresh_jit
def _trace(task: Task, row: Array) -> PyTree[Array]:
    """One run, traced once and not in every call of `sweep`."""
    return task(row)


def batch_layouts(jaxpr: Any, runs: int, batch: int | str | None) -> list[BatchLayout]:
    """The layouts worth trying of a task that is known by its operations.

    The most promising first; one if `batch` says which.
    """
    if batch is None:
        return [BatchLayout("first", runs)]
    against = obstacles(jaxpr)
    order = "first" if against else "last"
    if batch == "auto" and jax.default_backend() != "cpu":
        return [BatchLayout(order, runs)]
    if not isinstance(batch, str):
        return [BatchLayout("single" if batch == 1 else order, min(batch, runs))]
    # Steps that lanes decide on their own make each wait for the slowest: 9.9 ms for an
    # adaptive Dopri8 run of 5 bodies on its own, 13.2 in tiles of 16.
    alone = bool({"while", "cond"} & set(against))
    tile = 1 if alone else _tile_in_cache(largest_in_loops(jaxpr))
    wide = max(tile, 16)
    found = [
        BatchLayout("single", 1) if tile == 1 else _even_tiles(order, tile, runs),
        _even_tiles("first", wide, runs),
        _even_tiles(order, 4 * wide, runs),
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
    table: Float[Array, "tile run number"],
    count: Int[Array, ""],
    layout: BatchLayout,
) -> PyTree[Array]:
    """The outcomes of the first `count` tiles of `table`, with a leading run axis.

    Those of other tiles are zeros: how many tiles are run is decided without compiling.
    """
    together = _side_by_side(task, layout)
    if len(table) == 1:
        return together(table[0])
    shapes = jax.eval_shape(together, table[0])
    empty = jax.tree.map(lambda x: jnp.zeros((len(table), *x.shape), x.dtype), shapes)

    def one_more(i, filled):
        return jax.tree.map(
            lambda all_, x: all_.at[i].set(x), filled, together(table[i])
        )

    filled = jax.lax.fori_loop(0, count, one_more, empty)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), filled)


def _side_by_side(task: Task, layout: BatchLayout) -> Callable[[Array], PyTree[Array]]:
    """`task` for the rows of one tile."""
    if layout.order == "single":
        return lambda rows: jax.tree.map(lambda x: x[None], task(rows[0]))
    if layout.order == "first":
        return jax.vmap(task)
    batched = batch_last(task)
    return lambda rows: jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), batched(rows.T))
