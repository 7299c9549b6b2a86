"""The host loop of a sweep: chunks that fit into memory, a short trial of layouts."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import PyTree
from ._batching import BatchLayout, Task, run_tiles


#: Another layout is tried if the runs that remain take so many times its compilation:
#: three that are no better then cost a sixth. It is tried for so many seconds.
_WORTH_TRYING, _TRIAL = 20.0, 0.1
#: Seconds that runs take, at least, where a chunk is over sooner than an empty one.
_LEAST_TIME = 1e-5
#: A chunk tells the speed of its runs if it takes so many times as long as an empty
#: one; else the next has so many times as many tiles.
_TELLING, _MORE = 3.0, 8
#: Runs that a chunk of many tiles has place for. All of its outputs are made, fetched
#: and copied, whatever is run: of 10^6 that is half a second, in each chunk.
_MOST_RUNS = 2**16
#: Seconds to compile, at least.
_LEAST_COST = 0.5
#: Seconds of a chunk once the speed is known, so that progress is seen.
_CHUNK = 3.0


class Fitting(NamedTuple):
    """A layout that fits into memory, compiled.

    - `capacity`: how many tiles do.
    - `overhead`: seconds that a chunk takes of which no tile is run. All of its outputs
        are made and fetched; taken for the time of runs, a first chunk of one tile in
        10^5 would seem so slow that three other layouts were compiled.
    """

    layout: BatchLayout
    capacity: int
    overhead: float = 0.0


@dataclasses.dataclass
class Chunks:
    """A sweep under way: what is done, what came out, what it took."""

    task: Task
    table: Float[np.ndarray, "run number"]
    memory: int
    done: int = 0
    chunks: int = 0
    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    most: int | None = None
    """largest number of runs in a chunk, once the device ran out of memory"""
    collected: PyTree = None
    """outcomes, in arrays of the host with a leading axis for all runs"""
    compiling: Callable[[], None] = lambda: None
    """called before a layout is compiled"""
    sizes: dict[BatchLayout, Fitting] = dataclasses.field(default_factory=dict)
    """by layout that was asked for"""

    @property
    def remaining(self) -> int:
        """Runs to be done."""
        return len(self.table) - self.done

    def complete(
        self, candidates: Sequence[BatchLayout], tell: Callable[[], None]
    ) -> BatchLayout:
        """Does all runs, in the fastest of `candidates`; returns what ran of it."""
        layout, speed = candidates[0], math.inf
        if len(candidates) > 1:
            layout, speed = self._fastest_layout(candidates, tell)
        while self.remaining:
            # One tile while nothing is known, or after the memory did not suffice.
            tiles = max(1, int(_CHUNK / (speed * layout.tile)))
            speed = self.advance(layout, tiles=tiles)
            tell()
        return self.sizes.get(layout, Fitting(layout, 1)).layout

    def _fastest_layout(
        self, candidates: Sequence[BatchLayout], tell: Callable[[], None]
    ):
        """Times layouts on runs that are to be done anyway, while that is worth it."""
        speeds: dict[BatchLayout, float] = {}
        for layout in candidates:
            before, best = self.compile_seconds, min(speeds.values(), default=math.inf)
            tiles = max(1, int(_TRIAL / (best * layout.tile)))
            speeds[layout] = self._timed(layout, tiles, tell)
            # What is compiled already says nothing about the next layout.
            cost = max(_LEAST_COST, self.compile_seconds - before)
            if self.remaining * min(speeds.values()) < _WORTH_TRYING * cost:
                break
        fastest = min(speeds, key=speeds.__getitem__)
        return fastest, speeds[fastest]

    def _timed(
        self, layout: BatchLayout, tiles: int, tell: Callable[[], None]
    ) -> float:
        """Seconds per run, from a chunk that takes long enough to tell.

        An empty chunk of 10^6 takes half a second, whose noise is longer than a tile:
        a layout would be chosen by it.
        """
        while True:
            before = self.run_seconds
            speed = self.advance(layout, tiles=tiles)
            tell()
            seconds = self.run_seconds - before
            overhead = self.sizes[layout].overhead if layout in self.sizes else 0.0
            if not self.remaining or seconds >= _TELLING * overhead:
                return speed
            tiles *= _MORE

    def advance(self, layout: BatchLayout, *, tiles: int) -> float:
        """Does one chunk of at most so many tiles; seconds per run.

        Infinite if the device ran out of memory; the next chunk is then half as large.
        """
        try:
            fitting = self._fitting(layout)
            return self._do(fitting, min(tiles, fitting.capacity))
        except jax.errors.JaxRuntimeError as error:
            fitting = self.sizes.get(layout, Fitting(layout, 1))
            size = fitting.layout.tile * fitting.capacity
            if "RESOURCE_EXHAUSTED" not in str(error) or size == 1:
                raise
            self.most = size // 2
            self.sizes.clear()
            return math.inf

    def _do(self, fitting: Fitting, tiles: int) -> float:
        layout, capacity, overhead = fitting
        rows = self.table[self.done : self.done + tiles * layout.tile]
        count = -(-len(rows) // layout.tile)
        # The places that stay empty repeat a run, so that nothing new is compiled.
        empty = capacity * layout.tile - len(rows)
        padded = np.concatenate(
            [rows, np.broadcast_to(rows[-1], (empty, rows.shape[1]))]
        )
        start = time.perf_counter()
        found = run_tiles(self.task, *_inputs(padded, capacity, layout, count))
        self._collect(jax.device_get(found), len(rows))
        seconds = time.perf_counter() - start
        self.run_seconds += seconds
        self.chunks += 1
        return max(seconds - overhead, _LEAST_TIME) / (count * layout.tile)

    def _collect(self, found: PyTree, runs: int):
        if self.collected is None:
            self.collected = jax.tree.map(
                lambda x: np.empty((len(self.table), *x.shape[1:]), x.dtype), found
            )
        here = slice(self.done, self.done + runs)
        for all_, new in zip(
            *map(jax.tree.leaves, (self.collected, found)), strict=True
        ):
            all_[here] = new[:runs]
        self.done += runs

    def _fitting(self, layout: BatchLayout) -> Fitting:
        """How the layout fits into memory, compiled and tried without a run."""
        if layout not in self.sizes:
            self.compiling()
            start = time.perf_counter()
            fitting = self.sizes[layout] = self._searched(layout)
            # A single tile is run whatever the count says, and then all is its time.
            if fitting.capacity > 1:
                overhead = self._overhead(fitting)
                self.sizes[layout] = fitting._replace(overhead=overhead)
            self.compile_seconds += time.perf_counter() - start
        return self.sizes[layout]

    def _overhead(self, fitting: Fitting) -> float:
        """Seconds that a chunk takes of which no tile is run."""
        layout, capacity, _ = fitting
        rows, seconds = self._empty(layout, capacity), 0.0
        for _ in range(2):  # what the first one prepares the second one has
            start = time.perf_counter()
            jax.device_get(run_tiles(self.task, *_inputs(rows, capacity, layout, 0)))
            seconds = time.perf_counter() - start
        return seconds

    def _searched(self, layout: BatchLayout) -> Fitting:
        tile, runs = layout.tile, len(self.table)
        most = min(
            self.most or runs, max(1, self.memory // (2 * self._bytes_per_run()))
        )
        measured: list[tuple[int, int]] = []
        while True:
            layout = BatchLayout(layout.order, min(tile, most))
            places = min(most, _MOST_RUNS)
            capacity = max(1, min(-(-runs // layout.tile), places // layout.tile))
            size = capacity * layout.tile
            needed = self._needed(layout, capacity)
            if needed <= self.memory or size == 1:
                return Fitting(layout, capacity)
            measured.append((size, needed))
            most = min(size - 1, _size_that_fits(measured, self.memory))

    def _bytes_per_run(self) -> int:
        shapes = self.task.shapes(jnp.asarray(self.table[0]))
        found = [math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(shapes)]
        return sum(found) + self.table[0].nbytes

    def _empty(self, layout: BatchLayout, capacity: int) -> np.ndarray:
        return np.zeros((capacity * layout.tile, self.table.shape[1]), self.table.dtype)

    def _needed(self, layout: BatchLayout, capacity: int) -> int:
        """Bytes of the compiled program, with what goes in and comes out."""
        rows = self._empty(layout, capacity)
        lowered = run_tiles.lower(self.task, *_inputs(rows, capacity, layout, 1))
        found = lowered.compile().compiled.memory_analysis()
        if found is None:  # a backend that does not say: RESOURCE_EXHAUSTED will
            return 0
        return (
            found.temp_size_in_bytes
            + found.argument_size_in_bytes
            + found.output_size_in_bytes
        )


def _inputs(
    rows: np.ndarray, capacity: int, layout: BatchLayout, count: int
) -> tuple[Array, Array, BatchLayout]:
    table = jnp.asarray(rows).reshape(capacity, layout.tile, -1)
    return table, jnp.asarray(count), layout


def _size_that_fits(measured: Sequence[tuple[int, int]], memory: int) -> int:
    """Runs for which m0 + m1 runs = memory, from the last two sizes measured."""
    (size, needed), *before = reversed(measured)
    guess = int(0.9 * size * memory / needed)
    if before:
        (other, other_needed) = before[0]
        slope = (other_needed - needed) / (other - size)
        guess = int((memory - needed) / slope) + size if slope > 0 else guess
    return max(1, guess)
