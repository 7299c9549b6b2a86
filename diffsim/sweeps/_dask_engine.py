"""Dask as the engine of a sweep: its workers compute the chunks."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._extras import optional_module
from .._jit._fresh_jit import reading
from ._batching import BatchLayout, Task
from ._chunked_run import Chunks
from ._sweep_options import SweepOptions
from ._sweep_result import KeptInMemory, RunOutcome, failures_in
from ._swept_parameters import Rows


#: Chunks that are with a worker: one that it computes, and one that waits.
_AHEAD = 2
#: Sweeps of which a worker keeps what it has compiled.
_KEPT = 4


def by_dask(
    client: Any,
    task: Task,
    rows: Rows,
    chunks: np.ndarray,
    chunk: int,
    keep: Callable[[np.ndarray, RunOutcome], None],
    layout: BatchLayout,
    shapes: RunOutcome,
    memory: int | None,
    tell: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Does all rows on the workers of a `Client`, those of one of `chunks` in a task.

    Dask gives a task to another worker if one dies. Outcomes come back to this process,
    so that workers need not see the disk of a store.
    """
    distributed = optional_module("distributed", "engine= gives chunks to Dask by")
    borders = np.unique(chunks, return_index=True)[1][1:]
    pieces = iter(np.split(np.arange(rows.runs), borders))
    # As a task, and not data, it is made anew if the worker that holds it dies.
    job = client.submit(
        bytes, _pickled(task, layout.within(chunk), chunk, memory), pure=False
    )
    precision = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    limit = _AHEAD * max(1, len(client.scheduler_info()["workers"]))
    results, under_way, structure = (
        distributed.as_completed(),
        {},
        jax.tree.structure(shapes),
    )
    state = {"done": 0, "runs": rows.runs, "failed": 0, "seconds": 0.0}
    stats = {"chunks": 0, "compile_seconds": 0.0, "run_seconds": 0.0}
    try:
        while True:
            for places in itertools.islice(pieces, limit - len(under_way)):
                mine = rows.take(places)
                future = client.submit(_run_chunk, job, mine, precision, pure=False)
                under_way[future] = places
                results.add(future)
            if not under_way:
                return {**stats, "devices": limit // _AHEAD}
            future = next(results)
            places = under_way.pop(future)
            leaves, spent = future.result()
            outcomes = jax.tree.unflatten(structure, leaves)
            keep(places, outcomes)
            stats = {name: x + spent[name] for name, x in stats.items()}
            state["done"] += len(places)
            state["failed"] += failures_in(outcomes)
            state["seconds"] += spent["compile_seconds"] + spent["run_seconds"]
            tell(state)
    finally:
        client.cancel(list(under_way))


def _pickled(task: Task, layout: BatchLayout, chunk: int, memory: int | None) -> bytes:
    """All that a worker needs to compute runs, the same for every chunk."""
    pickle = optional_module("cloudpickle", "engine= sends predict to workers by")
    try:
        return pickle.dumps((task, layout, chunk, memory))
    except Exception as error:  # of any kind, from what objects do to be pickled
        raise ValueError(
            "engine= sends predict and model to the workers, and they cannot be "
            f"pickled ({error!s:.200}); leave open files, locks and connections out of "
            "them, and open these inside of predict"
        ) from error


@functools.lru_cache(_KEPT)
def _unpickled(job: bytes) -> tuple[Task, BatchLayout, int, int | None, dict]:
    """Once a worker, with room for the sizes of chunks that it has compiled."""
    pickle = optional_module("cloudpickle", "engine= sends predict to workers by")
    return *pickle.loads(job), {}


def _run_chunk(
    job: bytes, rows: Rows, precision: bool
) -> tuple[list[np.ndarray], dict[str, float]]:
    """Outcomes of some runs, on a worker, and the time they took."""
    devices = tuple(jax.local_devices())
    with jax.enable_x64(precision):
        task, layout, chunk, memory, compiled = _unpickled(job)
        first = jax.tree.map(np.asarray, rows.take(0))
        budget = SweepOptions(memory=memory).budget(devices)
        with reading(task):
            kept = KeptInMemory(rows.runs, task.shapes(first))
            group = np.zeros(rows.runs, int)
            chunks = Chunks(task, rows, budget, kept.keep, devices, group, chunk)
            chunks.sizes = compiled.setdefault(chunk, chunks.sizes)
            before = chunks.sizes.seconds
            chunks.complete(layout, lambda: None)
    spent = {
        "chunks": 1,
        "compile_seconds": chunks.sizes.seconds - before,
        "run_seconds": chunks.run_seconds,
    }
    return jax.tree.leaves(kept.outcomes), spent
