"""Which layout a sweep takes: those worth trying, and a trial of them on its runs."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .. import _tuning
from .._jaxpr._batch_axis import obstacles
from .._jaxpr._inspection import largest_in_loops
from ._batching import BatchLayout
from ._chunked_run import Chunks


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
        lanes = max(_tuning.FEWEST_LANES, -(-share // _tuning.BUCKETS))
        order = "first" if against else "elements"
        return [BatchLayout(order, min(share, lanes) if "while" in against else share)]
    if not isinstance(batch, str):
        return [BatchLayout("single" if batch == 1 else order, min(batch, share))]
    # Steps that lanes decide on their own make each wait for the slowest: 9.9 ms for an
    # adaptive Dopri8 run of 5 bodies on its own, 13.2 in tiles of 16.
    alone = bool({"while", "cond"} & set(against))
    size = largest_in_loops(jaxpr)
    tile = 1
    if not alone and size <= _tuning.LARGEST_TILED_ARRAY:
        fitting = max(4, min(_tuning.LARGEST_TILE, _tuning.TILE_BYTES // max(size, 1)))
        tile = 1 << (fitting.bit_length() - 1)
    wide = max(tile, 16)
    layouts = [
        BatchLayout("single", 1) if tile == 1 else _even_tiles(order, tile, share),
        _even_tiles("first", wide, share),
        _even_tiles(order, 4 * wide, share),
        BatchLayout("single", 1),
    ]
    return list(dict.fromkeys(layouts))


def _even_tiles(order: str, tile: int, runs: int) -> BatchLayout:
    """Tiles at most that large, and such that few places of the last stay empty."""
    return BatchLayout(order, -(-runs // -(-runs // tile)))


def complete_in_fastest(
    chunks: Chunks, candidates: Sequence[BatchLayout], tell: Callable[[], None]
) -> BatchLayout:
    """Does all runs, in the fastest of `candidates`; returns what ran of it."""
    layout, speed = candidates[0], math.inf
    if len(candidates) > 1:
        layout, speed = _fastest_layout(chunks, candidates, tell)
    return chunks.complete(layout, tell, speed)


def _fastest_layout(
    chunks: Chunks, candidates: Sequence[BatchLayout], tell: Callable[[], None]
):
    """Times layouts on runs that are to be done anyway, while that is worth it."""
    speeds: dict[BatchLayout, float] = {}
    for layout in candidates:
        before, best = chunks.sizes.seconds, min(speeds.values(), default=math.inf)
        tiles = chunks.whole_tiles(_tuning.TRIAL_SECONDS / (best * layout.tile))
        speeds[layout] = _timed(chunks, layout, tiles, tell)
        # A layout that is compiled already says nothing about the next one.
        cost = max(_tuning.LEAST_COMPILE_SECONDS, chunks.sizes.seconds - before)
        if chunks.remaining * min(speeds.values()) < _tuning.WORTH_A_TRIAL * cost:
            break
    fastest = min(speeds, key=speeds.__getitem__)
    return fastest, speeds[fastest]


def _timed(
    chunks: Chunks, layout: BatchLayout, tiles: int, tell: Callable[[], None]
) -> float:
    """Seconds per run, from a chunk that takes long enough to tell.

    An empty chunk of 10^6 takes half a second, whose noise is longer than a tile:
    a layout would be chosen by it.
    """
    while True:
        before = chunks.run_seconds
        speed = chunks.advance(layout, tiles=tiles)
        tell()
        fitting = chunks.sizes.sizes.get(layout)
        overhead = 0.0 if fitting is None else fitting.overhead
        seconds = chunks.run_seconds - before
        if not chunks.remaining or seconds >= _tuning.TELLING * overhead:
            return speed
        tiles *= _tuning.MORE_TILES
