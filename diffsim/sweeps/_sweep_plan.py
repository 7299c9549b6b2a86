"""Runs to be done, by whom, and how: what a sweep hands to devices or to an engine."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _tuning
from .._jaxpr._batch_axis import equations_left_to_vmap
from .._jaxpr._tracing import ClosedJaxpr
from ._batching import BatchLayout, Task
from ._chunked_run import Chunks
from ._dask_engine import by_dask
from ._layout_choice import batch_layouts, complete_in_fastest
from ._run_derivative import Differentiated
from ._sweep_options import SweepOptions
from ._sweep_result import RunOutcome
from ._swept_parameters import Rows


Keep = Callable[[np.ndarray, RunOutcome], None]


@dataclasses.dataclass
class Plan:
    """All runs of a sweep, and what may compute them."""

    task: Task
    table: Rows
    batch: int | str | None
    devices: tuple[Any, ...]
    options: SweepOptions

    @property
    def row(self) -> Rows:
        """The first run."""
        return jax.tree.map(jnp.asarray, self.table.take(0))

    @functools.cached_property
    def jaxpr(self) -> ClosedJaxpr:
        """The operations of one run."""
        return self.task.jaxpr(self.row)

    @functools.cached_property
    def shapes(self) -> RunOutcome:
        """Shapes of what comes out of one run."""
        return self.task.shapes(self.row)

    @property
    def differentiated(self) -> Differentiated | None:
        """Which derivative is asked for."""
        kind = self.task.derivative
        if kind is None:
            return None
        return Differentiated(kind, self.task.selection.floats)

    def layouts(self, places: int | None = None) -> list[BatchLayout]:
        """The layouts worth trying, the most promising first.

        For runs that are divided among so many places, the devices by default.
        """
        places = len(self.devices) if places is None else places
        return batch_layouts(self.jaxpr, self.table.runs, self.batch, places)

    def chunk(self, tile: int) -> int:
        """Runs of a chunk, the unit of what is stored and of what a part owns."""
        if self.options.chunk is not None:
            return min(self.options.chunk, self.table.runs)
        leaves = jax.tree.leaves(self.shapes)
        size = sum(x.dtype.itemsize * int(np.prod(x.shape)) for x in leaves)
        fitting = _tuning.MOST_STORED_BYTES // max(1, size)
        most = max(1, min(_tuning.MOST_CHUNK_RUNS, fitting))
        chunk = min(most, -(-self.table.runs // _tuning.STORED_CHUNKS))
        if tile <= min(_tuning.WHOLE_TILE, most):
            chunk = -(-chunk // tile) * tile
        else:  # of a GPU, which few runs leave idle
            wide = -(-self.table.runs // _tuning.WIDE_CHUNKS)
            chunk = max(chunk, min(most, tile, wide))
        return min(chunk, self.table.runs)

    def compute(
        self,
        todo: np.ndarray,
        keep: Keep,
        *,
        layouts: list[BatchLayout],
        chunk: int | None = None,
        before: tuple[int, int] = (0, 0),
        stored: bool = False,
    ) -> dict[str, Any]:
        """Does the runs `todo`; `keep` takes their places in it and their outcomes.

        **Arguments:** `chunk`, if runs of each chunk lie side by side with no others;
        `before`, runs that were done earlier, and how many failed; `stored`, whether
        the outcomes are written.

        **Returns:** what it took, as `Sweep.stats` has it.
        """
        stats = {
            "batch": layouts[0].tile,
            "order": layouts[0].order,
            "devices": len(self.devices),
            "chunks": 0,
            "computed": len(todo),
            "compile_seconds": 0.0,
            "run_seconds": 0.0,
            "by_vmap": equations_left_to_vmap(self.jaxpr),
        }
        if not len(todo):
            return stats
        if self.options.engine is not None:
            chunk = chunk or self.chunk(layouts[0].tile)
            return stats | self._by_engine(todo, keep, layouts[0], chunk, before)
        options, (done, failed) = self.options, before
        chunks = Chunks(
            self.task,
            self.table.take(todo),
            options.budget(self.devices, stored),
            keep,
            self.devices,
            None if chunk is None else todo // chunk,
            None if chunk is None else self.table.runs,
        )

        def state():
            return {
                "done": done + chunks.done,
                "runs": done + len(todo),
                "failed": failed + chunks.failed,
                "seconds": chunks.sizes.seconds + chunks.run_seconds,
            }

        chunks.sizes.compiling = lambda: options.compiling(state())
        layout = complete_in_fastest(chunks, layouts, lambda: options.show(state()))
        return stats | {
            "batch": layout.tile,
            "order": layout.order,
            "devices": len(chunks.devices),
            "chunks": chunks.chunks,
            "compile_seconds": chunks.sizes.seconds,
            "run_seconds": chunks.run_seconds,
        }

    def _by_engine(
        self,
        todo: np.ndarray,
        keep: Keep,
        layout: BatchLayout,
        chunk: int,
        before: tuple[int, int],
    ) -> dict[str, Any]:
        """As `compute`, elsewhere."""
        options = self.options

        def tell(state):
            done, failed = before
            counts = {"done": done, "runs": done, "failed": failed}
            options.show(state | {key: state[key] + n for key, n in counts.items()})

        rows = self.table.take(todo)
        return by_dask(
            options.engine,
            self.task,
            rows,
            todo // chunk,
            chunk,
            keep,
            layout,
            self.shapes,
            options.memory,
            tell,
        )
