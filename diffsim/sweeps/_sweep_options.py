"""`SweepOptions`: what a sweep shows while it goes, and how much memory it may take."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._progress import progress_text, show_line


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
    - `memory`: bytes that one chunk may take on the device; None takes 1 GiB or a
        quarter of the machine's memory, whichever is less, and one half of the memory
        that a GPU has of its own. Outputs are collected in the memory of the machine
        whatever this says.
    """

    progress: bool | Callable[[dict[str, Any]], None] | None = None
    memory: Any = None

    def __post_init__(self) -> None:
        if self.memory is not None and not is_positive_integer(self.memory):
            raise ValueError(
                f"memory must be a positive integer, in bytes, got {self.memory!r}"
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

    def budget(self) -> int:
        """Bytes that a chunk may take."""
        if self.memory is not None:
            return self.memory
        stats = jax.local_devices()[0].memory_stats()
        if stats and "bytes_limit" in stats:
            return stats["bytes_limit"] // 2
        return min(2**30, _physical_memory() // 4)


def _done(state: dict[str, Any]) -> str:
    return f"{state['done']} of {state['runs']} runs"


def is_positive_integer(x: Any) -> bool:
    """Whether `x` counts something."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool) and bool(x > 0)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such thing on Windows
        return 4 * 2**30
