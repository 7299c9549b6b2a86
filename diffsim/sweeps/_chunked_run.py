"""The host loop of a sweep: chunks on all devices, after a short trial of layouts."""

import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import _tuning
from ._batching import BatchLayout, Task
from ._chunk_memory import ChunkMemory, Fitting
from ._devices import answering
from ._run_costs import RunCosts
from ._sweep_result import RunOutcome, failures_in
from ._swept_parameters import Rows


class _UnderWay(NamedTuple):
    """A chunk that the devices compute."""

    outcomes: RunOutcome
    """on the devices"""
    runs: np.ndarray
    """which runs of the table"""
    places: np.ndarray
    """where their outcomes are"""
    length: int
    """how many runs it takes the time of, with places that stay empty"""
    fitting: Fitting
    begun: float
    seconds: float | None
    """what it took, if it was over as soon as it was begun"""


@dataclasses.dataclass
class Chunks:
    """A sweep under way: what is done, what it took.

    - `keep`: is given numbers of runs and their outcomes, in the memory of the host.
    - `groups`: for every run the number of its group, of which no two share a tile, so
        that a run comes to the same, to the last bit, whatever else is to be done; None
        where all may lie side by side, in any order.
    - `size_for`: how many runs programs are made for, the number of them by default.
    """

    task: Task
    table: Rows
    memory: int
    keep: Callable[[np.ndarray, RunOutcome], None]
    devices: tuple[Any, ...] = dataclasses.field(
        default_factory=lambda: tuple(jax.local_devices()[:1])
    )
    groups: np.ndarray | None = None
    size_for: int | None = None
    costs: RunCosts = dataclasses.field(init=False)
    sizes: ChunkMemory = dataclasses.field(init=False)
    begun: int = 0
    done: int = 0
    failed: int = 0
    chunks: int = 0
    run_seconds: float = 0.0
    ended: float = 0.0
    """when the last chunk was over"""

    def __post_init__(self):
        self.costs = RunCosts(self.table)
        self._size_for(self.devices)

    def _size_for(self, devices: tuple[Any, ...]):
        self.devices = devices
        row, runs = self.table.take(0), self.size_for or self.table.runs
        self.sizes = ChunkMemory(self.task, row, runs, self.memory, devices)

    @property
    def remaining(self) -> int:
        """Runs to be done."""
        return self.table.runs - self.done

    def complete(
        self,
        layout: BatchLayout,
        tell: Callable[[], None],
        speed: float = math.inf,
    ) -> BatchLayout:
        """Does the remaining runs, of `speed` seconds each; returns the layout used."""
        under_way = None
        while self.remaining:
            # One tile while nothing is known, or after the memory did not suffice.
            tiles = self.whole_tiles(_tuning.CHUNK_SECONDS / (speed * layout.tile))
            try:
                following = self._start(layout, tiles)
                if under_way is not None:
                    speed = self._finish(under_way)
                    tell()
                elif following is not None and (
                    math.isinf(speed) or following.seconds is not None
                ):
                    speed, following = self._finish(following), None
                    tell()
                under_way = following
            except jax.errors.JaxRuntimeError as error:
                self._recover(layout, error)
                under_way, speed = None, math.inf
        return self.sizes.sizes.get(layout, Fitting(layout, 1)).layout

    def whole_tiles(self, tiles: float) -> int:
        """So many, as many on each device."""
        devices = len(self.devices)
        return max(1, int(tiles) // devices) * devices

    def advance(self, layout: BatchLayout, *, tiles: int) -> float:
        """Does one chunk of at most so many tiles; seconds per run.

        Infinite if a device ran out of memory; the next chunk is then half as large.
        """
        try:
            under_way = self._start(layout, tiles)
            return math.inf if under_way is None else self._finish(under_way)
        except jax.errors.JaxRuntimeError as error:
            self._recover(layout, error)
            return math.inf

    def _recover(self, layout: BatchLayout, error: Exception):
        """Shorter chunks, or fewer devices, for what was begun and is not done."""
        if "RESOURCE_EXHAUSTED" in str(error):
            if not self.sizes.halve(layout):
                raise error
        else:
            left = answering(self.devices)
            if len(left) in (0, len(self.devices)):
                raise error
            lost = ", ".join(str(d) for d in self.devices if d not in left)
            warnings.warn(
                f"device {lost} failed ({error!s:.200}); the sweep goes on with "
                f"{len(left)} of {len(self.devices)} devices",
                stacklevel=4,
            )
            compiling = self.sizes.compiling
            self._size_for(left)
            self.sizes.compiling = compiling
        self.begun = self.done

    def _start(self, layout: BatchLayout, tiles: int) -> _UnderWay | None:
        """Begins the next runs, dealt to the devices tile by tile; None if all are."""
        if self.begun == self.table.runs:
            return None
        fitting = self.sizes.fitting(layout)
        tile, capacity = fitting.layout.tile, fitting.capacity
        devices = len(self.devices)
        runs, tiles_of, lanes = self._next(tile, min(tiles, devices * capacity))
        # Devices have the same number of tiles, but for one; neighbours, whose steps
        # may be as many, are on different ones.
        dealt = np.arange(tiles_of[-1] + 1)
        slots = dealt % devices * capacity + dealt // devices
        places = slots[tiles_of] * tile + lanes
        # The places that stay empty repeat a run, the last one of their tile, so that
        # nothing new is compiled.
        last = runs[np.flatnonzero(np.diff(tiles_of, append=-1))]
        filled = np.full((devices * capacity, tile), runs[-1])
        filled[slots] = last[:, None]
        filled = filled.reshape(-1)
        filled[places] = runs
        counts = np.bincount(dealt % devices, minlength=devices).astype(np.int32)
        begun = time.perf_counter()
        outcomes = self.sizes.start(self.table.take(filled), fitting, counts)
        # A CPU does before the call returns what XLA takes for little work, such as a
        # loop whose length it does not know.
        is_over = all(x.is_ready() for x in jax.tree.leaves(outcomes))
        seconds = time.perf_counter() - begun if is_over else None
        self.begun += len(runs)
        length = int(counts.max()) * devices * tile
        return _UnderWay(outcomes, runs, places, length, fitting, begun, seconds)

    def _next(self, tile: int, tiles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The next runs, in at most so many tiles, and the tile and lane of each."""
        end = min(self.begun + tiles * tile, self.table.runs)
        runs = np.arange(self.begun, end)
        if self.groups is None:
            runs = self.costs.sorted(runs) if tile > 1 else runs
            return runs, np.arange(len(runs)) // tile, np.arange(len(runs)) % tile
        place = self.places_in_groups[runs]
        is_new = np.diff(self.groups[runs], prepend=-1) != 0
        tiles_of = np.cumsum(is_new | (place % tile == 0)) - 1
        count = int(np.searchsorted(tiles_of, tiles))
        # Whole groups, if one has room: they are what is kept.
        ends = np.flatnonzero(np.diff(self.groups[self.begun : end + 1]) != 0) + 1
        whole = ends[ends <= count]
        if self.begun + count < self.table.runs and len(whole):
            count = int(whole[-1])
        return runs[:count], tiles_of[:count], place[:count] % tile

    @functools.cached_property
    def places_in_groups(self) -> np.ndarray:
        """The place of every run in its group."""
        groups = np.asarray(self.groups)
        first = np.flatnonzero(np.diff(groups, prepend=-1) != 0)
        return np.arange(len(groups)) - np.repeat(first, np.diff([*first, len(groups)]))

    def _finish(self, chunk: _UnderWay) -> float:
        """Hand over the outcomes of a chunk; seconds per run."""
        outcomes = jax.device_get(chunk.outcomes)
        outcomes = jax.tree.map(lambda x: x[chunk.places], outcomes)
        end = time.perf_counter()
        seconds = chunk.seconds
        if seconds is None:
            seconds = end - max(chunk.begun, self.ended)
        self.failed += failures_in(outcomes)
        if outcomes.cost is not None:
            self.costs.learn(chunk.runs, outcomes.cost)
        self.keep(chunk.runs, outcomes._replace(cost=None))
        self.run_seconds += seconds
        self.ended = end
        self.chunks += 1
        self.done += len(chunk.runs)
        seconds = max(seconds - chunk.fitting.overhead, _tuning.LEAST_RUN_SECONDS)
        return seconds / chunk.length
