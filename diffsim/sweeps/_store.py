"""`Store`: chunks of outcomes, read and written by the process that owns them."""

import concurrent.futures
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._results import RESULTS
from ._batching import BatchLayout
from ._store_contents import StoreContents
from ._store_files import ChunkFiles
from ._store_manifest import (
    Entry,
    checksums,
    damage,
    entries,
    read_description,
    sync,
    write_entry,
)
from ._stored_runs import StoredRuns
from ._sweep_plan import Plan
from ._sweep_result import RunOutcome, failures_in


#: Chunks that wait to be written while others are computed.
_WAITING = 2


class Store:
    """The chunks of a store that this process owns.

    - `own`: the runs that are this process's, `chunk` to a chunk.
    - `layout`: how runs lie side by side, whoever computes them: to the last bit a run
        depends on it.
    """

    def __init__(self, path: Path, plan: Plan, contents: StoreContents, share: Any):
        description = read_description(path)
        self.path, self.contents = path, contents
        self.chunk = description["chunk"]
        self.layout = BatchLayout(*description["layout"])
        if plan.batch != "auto":
            self.layout = plan.layouts()[0]
        self.total = plan.table.runs
        self.own = np.arange(self.total)
        if share is not None:
            self.own = share.runs(self.total, self.chunk)
        self.files = ChunkFiles(path, self.chunk)
        self.retry = plan.options.retry
        self.filling: dict[int, tuple[RunOutcome, np.ndarray]] = {}
        self.writer = concurrent.futures.ThreadPoolExecutor(1)
        self.waiting: list[concurrent.futures.Future] = []
        self.done = 0

    def todo(self) -> np.ndarray:
        """Own runs that are not in the store, or that are to be repeated."""
        chunks = set((self.own // self.chunk).tolist())
        self.files.discard_unfinished(chunks)
        unreadable: list[int] = []
        left = np.ones(self.total, bool)
        for entry in entries(self.path, unreadable):
            if entry.chunk not in chunks:
                continue
            wrong = damage(self.path, entry)
            if wrong:
                self._tell(entry.chunk, wrong)
                continue
            self.done += 1
            runs = slice(entry.chunk * self.chunk, (entry.chunk + 1) * self.chunk)
            left[runs] = False
            if entry.failed and self.retry == "failed":
                left[runs] = self._repeated(entry.chunk)
        for chunk in chunks.intersection(unreadable):
            self._tell(chunk, "its entry in the manifest cannot be read")
        return self.own[left[self.own]]

    def _tell(self, chunk: int, wrong: str):
        warnings.warn(
            f"store {str(self.path)!r}: chunk {chunk} is damaged, {wrong}; its "
            f"{self.chunk} runs are run again, all others stay",
            stacklevel=5,
        )

    def _repeated(self, chunk: int) -> np.ndarray:
        """The runs of a chunk that failed; the others are filled in."""
        runs = self._runs(chunk)
        found = StoredRuns(self.path, self.contents, runs).outcome()
        failed = np.asarray(found.status != RESULTS.successful)
        self.filling[chunk] = jax.tree.map(np.array, found), ~failed
        return failed

    def _runs(self, chunk: int) -> np.ndarray:
        return np.arange(chunk * self.chunk, min((chunk + 1) * self.chunk, self.total))

    def keep(self, runs: np.ndarray, found: RunOutcome):
        """Take over outcomes; chunks that are whole by then are written."""
        for chunk in np.unique(runs // self.chunk).tolist():
            here = runs // self.chunk == chunk
            size = len(self._runs(chunk))
            if chunk not in self.filling:
                empty = jax.tree.map(
                    lambda x, size=size: np.empty((size, *x.shape[1:]), x.dtype), found
                )
                self.filling[chunk] = empty, np.zeros(size, bool)
            filled, known = self.filling[chunk]
            places = runs[here] - chunk * self.chunk
            pairs = zip(*map(jax.tree.leaves, (filled, found)), strict=True)
            for all_, new in pairs:
                all_[places] = new[here]
            known[places] = True
            if known.all():
                self._submit(chunk, self.filling.pop(chunk)[0])

    def _submit(self, chunk: int, found: RunOutcome):
        while len(self.waiting) >= _WAITING:
            self.waiting.pop(0).result()
        self.waiting.append(self.writer.submit(self._write, chunk, found))

    def write_all(self):
        """Wait until every chunk that is whole is on the disk."""
        while self.waiting:
            self.waiting.pop(0).result()

    def _write(self, chunk: int, found: RunOutcome):
        """Write a chunk, and vouch for it once it is on the disk."""
        paths = self.files.write(chunk, self.contents.written(found))
        sync(self.path, paths)
        failed = failures_in(found)
        write_entry(self.path, Entry(chunk, failed, checksums(self.path, paths)))
        self.done += 1
