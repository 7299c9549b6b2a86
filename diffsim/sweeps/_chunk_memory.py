"""Chunks that fit into the memory of a device: how many tiles of runs have place."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from .. import _tuning
from ._batching import BatchLayout, Task, run_tiles
from ._devices import mesh_of, on_devices
from ._sweep_result import RunOutcome
from ._swept_parameters import Rows


class Fitting(NamedTuple):
    """A layout that fits into memory, compiled.

    - `capacity`: how many tiles do, on each device.
    - `overhead`: seconds that a chunk takes of which no tile is run. All of its outputs
        are made and fetched; taken for the time of runs, a first chunk of one tile in
        10^5 would seem so slow that three other layouts were compiled.
    """

    layout: BatchLayout
    capacity: int
    overhead: float = 0.0


@dataclasses.dataclass
class ChunkMemory:
    """Sizes of chunks of `runs` runs, `memory` bytes for one on each of the devices."""

    task: Task
    row: Rows
    runs: int
    memory: int
    devices: tuple[Any, ...]
    seconds: float = 0.0
    """spent on compiling"""
    most: int | None = None
    """largest number of runs on a device, once one ran out of memory"""
    compiling: Callable[[], None] = lambda: None
    """called before a layout is compiled"""
    sizes: dict[BatchLayout, Fitting] = dataclasses.field(default_factory=dict)
    """by layout that was asked for"""

    def fitting(self, layout: BatchLayout) -> Fitting:
        """How the layout fits into memory, compiled and tried without a run."""
        if layout not in self.sizes:
            self.compiling()
            start = time.perf_counter()
            fitting = self.sizes[layout] = self._searched(layout)
            # A single tile is run whatever the count says, and then all is its time.
            if fitting.capacity > 1:
                overhead = self._overhead(fitting)
                self.sizes[layout] = fitting._replace(overhead=overhead)
            self.seconds += time.perf_counter() - start
        return self.sizes[layout]

    def halve(self, layout: BatchLayout) -> bool:
        """Make chunks half as large; whether the one that failed can be halved."""
        fitting = self.sizes.get(layout, Fitting(layout, 1))
        size = fitting.layout.tile * fitting.capacity
        if size > 1:
            self.most = size // 2
            self.sizes.clear()
        return size > 1

    def start(self, rows: Rows, fitting: Fitting, counts: np.ndarray) -> RunOutcome:
        """Begin a chunk, of so many tiles on each device."""
        return run_tiles(self.task, *self._inputs(rows, fitting, counts))

    def _inputs(
        self, rows: Rows, fitting: Fitting, counts: np.ndarray
    ) -> tuple[Rows, Array, BatchLayout, Mesh | None]:
        layout, capacity = fitting.layout, fitting.capacity
        tiles = len(self.devices) * capacity
        table = jax.tree.map(lambda x: x.reshape(tiles, layout.tile, -1), rows)
        placed = on_devices((table, counts), self.devices)
        return *placed, layout, mesh_of(self.devices)

    def _overhead(self, fitting: Fitting) -> float:
        """Seconds that a chunk takes of which no tile is run."""
        seconds, none = 0.0, np.zeros(len(self.devices), np.int32)
        for _ in range(2):  # what the first one prepares the second one has
            start = time.perf_counter()
            jax.device_get(self.start(self._empty(fitting), fitting, none))
            seconds = time.perf_counter() - start
        return seconds

    def _searched(self, layout: BatchLayout) -> Fitting:
        # The last bit of a run depends on the tile, so that few runs keep the tile.
        tile, runs = layout.tile, -(-self.runs // len(self.devices))
        runs = max(tile, runs)
        most = min(
            self.most or runs, max(1, self.memory // (2 * self._bytes_per_run()))
        )
        measured: list[tuple[int, int]] = []
        while True:
            layout = BatchLayout(layout.order, min(tile, most))
            places = min(most, _tuning.MOST_CHUNK_RUNS // len(self.devices))
            capacity = max(1, min(-(-runs // layout.tile), places // layout.tile))
            size = capacity * layout.tile
            needed = self.needed(Fitting(layout, capacity))
            if needed <= self.memory or size == 1:
                return Fitting(layout, capacity)
            measured.append((size, needed))
            most = min(size - 1, size_that_fits(measured, self.memory))

    def _bytes_per_run(self) -> int:
        shapes = self.task.shapes(jax.tree.map(jnp.asarray, self.row))
        sizes = [math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(shapes)]
        return sum(sizes) + sum(x.nbytes for x in jax.tree.leaves(self.row))

    def _empty(self, fitting: Fitting) -> Rows:
        places = len(self.devices) * fitting.capacity * fitting.layout.tile
        return jax.tree.map(lambda x: np.zeros((places, *x.shape), x.dtype), self.row)

    def needed(self, fitting: Fitting) -> int:
        """Bytes on a device of the program, and of the inputs and outputs of two.

        The outputs of one chunk are fetched while the next one is computed.
        """
        counts = np.ones(len(self.devices), np.int32)
        inputs = self._inputs(self._empty(fitting), fitting, counts)
        lowered = run_tiles.lower(self.task, *inputs)
        analysis = lowered.compile().compiled.memory_analysis()
        if analysis is None:  # a backend that does not say: RESOURCE_EXHAUSTED will
            return 0
        around = analysis.argument_size_in_bytes + analysis.output_size_in_bytes
        return analysis.temp_size_in_bytes + 2 * around


def size_that_fits(measured: Sequence[tuple[int, int]], memory: int) -> int:
    """Runs for which m0 + m1 runs = memory, from the last two sizes measured."""
    (size, needed), *before = reversed(measured)
    guess = int(0.9 * size * memory / needed)
    if before:
        (other, other_needed) = before[0]
        slope = (other_needed - needed) / (other - size)
        guess = int((memory - needed) / slope) + size if slope > 0 else guess
    return max(1, guess)
