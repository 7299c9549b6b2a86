"""`SweepOptions`: what a sweep shows while it goes, and how much memory it may take."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from .. import _tuning
from .._progress import progress_text, show_line
from .._validation import count, one_of


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """How a sweep is run; nothing here changes what it computes.

    ```python
    def period(pendulum):
        return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

    pendulum = {"length": jnp.array(1.0), "g": jnp.array(9.81)}
    options = sweeps.SweepOptions(progress=True, memory=2**20)  # 1 MiB a chunk
    lengths = {"length": np.linspace(0.1, 2.0, 10_000)}
    ds.sweep(period, pendulum, lengths, options=options)
    ```

    **Arguments**

    - `progress`: True for a line on stderr that moves, and says so while programs are
        compiled, or a function that is called after every chunk with a dict: `done`,
        `runs`, `failed`, `seconds`.
    - `memory`: bytes that one chunk may take on a device; None takes 1 GiB, with a
        store 128 MiB, or a quarter of the machine's memory, whichever is less, divided
        among the devices of a CPU, and one half of the memory that a GPU has of its
        own. Outputs are collected in the memory of the machine whatever this says, if
        there is no `store`.
    - `part`: (i, n) for the i-th of n jobs, from 0, each with its share of the runs:
        `(int(os.environ["SLURM_ARRAY_TASK_ID"]), 16)` say. They may share a store.
    - `retry`: `"failed"` repeats the runs of a store that failed; those that were not
        run are run in any case.
    - `engine`: a `dask.distributed.Client`, whose workers compute the chunks; one that
        dies is replaced by another.
    - `chunk`: runs of a chunk, the unit that is stored, that a part owns and that a
        worker is given; None divides a sweep into about 128, of 64 MiB at most.
    """

    progress: bool | Callable[[dict[str, Any]], None] | None = None
    memory: Any = None
    part: Any = None
    retry: str | None = None
    engine: Any = None
    chunk: Any = None

    def __post_init__(self) -> None:
        for name, value in (("memory", self.memory), ("chunk", self.chunk)):
            if value is not None:
                count(name, value)
        one_of("retry", self.retry, (None, "failed"))
        index, parts = (0, 1) if self.part is None else self.part
        if not 0 <= count("part", index, 0) < count("part", parts):
            raise ValueError(
                f"part must be (i, n) with i from 0 to n - 1, got {self.part}; the "
                "first of 16 jobs is (0, 16), the last (15, 16)"
            )

    def show(self, state: dict[str, Any]) -> None:
        """Tells `progress` how far the sweep is."""
        if callable(self.progress):
            self.progress(state)
        elif self.progress:
            failed = f"{state['failed']} failed" if state["failed"] else ""
            line = progress_text(
                "sweep", _done(state), failed, seconds=state["seconds"]
            )
            show_line(line, end="\n" if state["done"] == state["runs"] else "")

    def compiling(self, state: dict[str, Any]) -> None:
        """Says on the line that a layout of the runs is being compiled."""
        if self.progress is True:
            show_line(progress_text("sweep", _done(state), "compiling"))

    def budget(self, devices: Sequence[Any], stored: bool = False) -> int:
        """Bytes that a chunk may take on each of the devices.

        Of chunks that are `stored` several copies are in memory, as they are fetched,
        put together and written.
        """
        if self.memory is not None:
            return self.memory
        stats = devices[0].memory_stats()
        if stats and "bytes_limit" in stats:
            return stats["bytes_limit"] // 2
        most = _tuning.STORED_MEMORY if stored else 2**30
        return min(most, _physical_memory() // 4) // len(devices)


def _done(state: dict[str, Any]) -> str:
    return f"{state['done']} of {state['runs']} runs"


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such thing on Windows
        return 4 * 2**30
