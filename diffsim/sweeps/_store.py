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
    written_or_explained,
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
            self.layout = plan.layouts()[0].within(self.chunk)
        self.total = plan.table.runs
        self.own = np.arange(self.total)
        if share is not None:
            self.own = share.runs(self.total, self.chunk)
        self.files = ChunkFiles(path, self.chunk)
        self.retry = plan.options.retry
        self.repeated: set[int] = set()
        self.sampled = np.empty(0, int)
        self.failed = 0  # of the runs that are there and stay
        self.filling: dict[int, tuple[RunOutcome, np.ndarray]] = {}
        self.writer = concurrent.futures.ThreadPoolExecutor(1)
        self.waiting: list[concurrent.futures.Future] = []

    def todo(self) -> np.ndarray:
        """Own runs that are not in the store, or that are to be repeated."""
        chunks, damaged = set((self.own // self.chunk).tolist()), {}
        with written_or_explained(self.path):
            self.files.discard_unfinished(chunks)
        unreadable: list[int] = []
        left = np.ones(self.total, bool)
        for entry in entries(self.path, unreadable):
            if entry.chunk not in chunks:
                continue
            wrong = damage(self.path, entry)
            if wrong:
                damaged[entry.chunk] = wrong
                continue
            runs = slice(entry.chunk * self.chunk, (entry.chunk + 1) * self.chunk)
            left[runs] = False
            if entry.failed and self.retry == "failed":
                left[runs] = self._failed(entry.chunk)
                self.repeated.add(entry.chunk)
            else:
                self.failed += entry.failed
        for chunk in chunks.intersection(unreadable):
            damaged[chunk] = "its entry in the manifest cannot be read"
        if damaged:
            self._warn(damaged)
        return self.own[left[self.own]]

    def sample(self, todo: np.ndarray) -> np.ndarray:
        """One run that is in the store and went well, to be run again and compared."""
        runs = np.setdiff1d(self.own, todo)[: self.chunk]
        status = StoredRuns(self.path, self.contents, runs).status()
        self.sampled = runs[np.asarray(status == RESULTS.successful)][:1]
        return self.sampled

    def _warn(self, damaged: dict[int, str]):
        chunk, wrong = next(iter(damaged.items()))
        more = f", and so are {len(damaged) - 1} more" if len(damaged) > 1 else ""
        runs = sum(len(self._runs(chunk)) for chunk in damaged)
        warnings.warn(
            f"store {str(self.path)!r}: chunk {chunk} is damaged, {wrong}{more}; their "
            f"{runs} runs are run again, all others stay",
            stacklevel=5,
        )

    def _failed(self, chunk: int) -> np.ndarray:
        """Which runs of a chunk that is in the store failed."""
        status = StoredRuns(self.path, self.contents, self._runs(chunk)).status()
        return np.asarray(status != RESULTS.successful)

    def _runs(self, chunk: int) -> np.ndarray:
        return np.arange(chunk * self.chunk, min((chunk + 1) * self.chunk, self.total))

    def keep(self, runs: np.ndarray, found: RunOutcome):
        """Take over outcomes; chunks that are whole by then are written."""
        again = np.isin(runs, self.sampled)
        if again.any():
            self._compare(runs[again], jax.tree.map(lambda x: x[again], found))
            runs, found = runs[~again], jax.tree.map(lambda x: x[~again], found)
        if not len(runs):
            return
        numbers = runs // self.chunk
        order = np.argsort(numbers, kind="stable")
        borders = np.flatnonzero(np.diff(numbers[order])) + 1
        for here in np.split(order, borders):
            chunk = int(numbers[here[0]])
            if chunk not in self.filling:
                self.filling[chunk] = self._begun(chunk, found)
            filled, known = self.filling[chunk]
            places = runs[here] - chunk * self.chunk
            pairs = zip(*map(jax.tree.leaves, (filled, found)), strict=True)
            for all_, new in pairs:
                all_[places] = new[here]
            known[places] = True
            if known.all():
                self._submit(chunk, self.filling.pop(chunk)[0])

    def _compare(self, runs: np.ndarray, found: RunOutcome):
        """Raise `ValueError` where runs have other outputs than in the store."""
        stored = StoredRuns(self.path, self.contents, runs).outcome()
        pairs = zip(*(jax.tree.leaves(x.outputs) for x in (stored, found)), strict=True)
        for there, here in pairs:
            if not np.issubdtype(there.dtype, np.inexact):
                continue
            # Processors differ in the last digits, and with them steps that are chosen.
            allowed = np.finfo(there.dtype).eps ** 0.5 * (1 + np.max(np.abs(there)))
            is_far = ~(np.abs(here - there) <= allowed)
            is_far &= ~(np.isnan(here) & np.isnan(there))
            if is_far.any():
                old, new = there[is_far][0], here[is_far][0]
                raise ValueError(
                    f"store {str(self.path)!r}: run {runs[0]} has {old!s} in it, and "
                    f"{new!s} here: what predict reads has changed, by a callback "
                    "perhaps; name another store, or delete it to begin anew"
                )

    def _begun(self, chunk: int, like: RunOutcome) -> tuple[RunOutcome, np.ndarray]:
        """Outcomes of a chunk to be filled in, and which of its runs are known."""
        runs = self._runs(chunk)
        if chunk not in self.repeated:
            empty = jax.tree.map(
                lambda x: np.empty((len(runs), *x.shape[1:]), x.dtype), like
            )
            return empty, np.zeros(len(runs), bool)
        # Read now, and not all of them at first: they need not fit into memory.
        found = StoredRuns(self.path, self.contents, runs).outcome()
        return jax.tree.map(np.array, found), ~self._failed(chunk)

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
        with written_or_explained(self.path):
            paths = self.files.write(chunk, self.contents.written(found))
            sync(self.path, paths)
            failed = failures_in(found)
            write_entry(self.path, Entry(chunk, failed, checksums(self.path, paths)))
