"""Shares of the runs: of the parts of a job, and of processes of `jax.distributed`."""

import dataclasses
from typing import Any

import jax
import numpy as np

from ._sweep_result import RunOutcome


@dataclasses.dataclass(frozen=True)
class Share:
    """Every `count`-th chunk of runs, from chunk `index` on."""

    index: int
    count: int
    is_of_hosts: bool
    """whether the others are processes of `jax.distributed`"""

    def runs(self, total: int, chunk: int, index: int | None = None) -> np.ndarray:
        """Numbers of the runs that it owns; of another one's, by its index."""
        numbers = np.arange(total)
        index = self.index if index is None else index
        return numbers[numbers // chunk % self.count == index]

    def wait_for_others(self):
        """Until all processes are here."""
        from jax.experimental import multihost_utils  # starts what hosts need only

        multihost_utils.sync_global_devices("diffsim sweep")


def share_of(part: Any) -> Share | None:
    """The share that `part` names, or that of this process of several."""
    if part is not None:
        return Share(int(part[0]), int(part[1]), is_of_hosts=False)
    if jax.process_count() > 1:
        return Share(jax.process_index(), jax.process_count(), is_of_hosts=True)
    return None


def gathered(found: RunOutcome, share: Share, total: int, chunk: int) -> RunOutcome:
    """The outcomes of all runs, of which each process has its own."""
    from jax.experimental import multihost_utils

    owned = [share.runs(total, chunk, index) for index in range(share.count)]
    most = max(map(len, owned))

    def one(mine: np.ndarray) -> np.ndarray:
        # Bytes, as JAX would round doubles where it has none.
        padded = np.zeros((most, *mine.shape[1:]), mine.dtype)
        padded[: len(mine)] = mine
        flat = np.frombuffer(padded.tobytes(), np.uint8)
        parts = np.asarray(multihost_utils.process_allgather(flat))
        all_ = np.empty((total, *mine.shape[1:]), mine.dtype)
        for part, runs in zip(parts, owned, strict=True):
            values = np.frombuffer(part.tobytes(), mine.dtype).reshape(padded.shape)
            all_[runs] = values[: len(runs)]
        return all_

    return jax.tree.map(one, found)
