"""Outcomes of runs that are read from a store when they are asked for."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from .._results import RESULTS
from ._store_contents import NOT_RUN, STATUS, StoreContents
from ._store_files import opened_group
from ._sweep_result import RunOutcome


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRuns:
    """Some runs of a store, by their numbers in ascending order."""

    path: Path
    contents: StoreContents
    runs: np.ndarray

    def outcome(self) -> RunOutcome:
        """All of their outcomes, in memory."""
        return self.contents.outcome(self._read, len(self.runs))

    def status(self) -> RESULTS:
        """How they went."""
        return self.contents.part("status", self._read, len(self.runs))

    def error_estimate(self) -> np.ndarray | None:
        """Of the solver."""
        return self.contents.part("error", self._read, len(self.runs))

    def _read(self, name: str) -> np.ndarray:
        array: Any = opened_group(self.path, "r")[name]
        runs = self.runs
        # A part owns every n-th chunk: one slice for each that is in a row.
        ends = np.flatnonzero(np.diff(runs) != 1) + 1
        pieces = np.split(runs, ends) if len(runs) else []
        try:
            found = [array[x[0] : x[-1] + 1] for x in pieces]
        except (ValueError, RuntimeError) as error:
            raise ValueError(
                f"store {str(self.path)!r}: {name} is damaged ({error!s:.100}); the "
                "same sweep, called again, repeats the runs of that chunk"
            ) from error
        if name == STATUS and any(np.any(x == NOT_RUN) for x in found):
            raise ValueError(
                f"store {str(self.path)!r}: some of its runs were not run; the same "
                "sweep, called again, runs them"
            )
        if not found:
            return np.empty((0, *array.shape[1:]), array.dtype)
        return found[0] if len(found) == 1 else np.concatenate(found)
