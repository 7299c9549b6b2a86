"""`store_status`: how far a sweep is, from its store."""

import os
from pathlib import Path
from typing import NamedTuple

from ._store_manifest import entries, read_description


class StoreStatus(NamedTuple):
    """How far a sweep is.

    - `runs`: how many it has.
    - `done`: how many are in the store.
    - `failed`: how many of these failed.
    - `chunks`: how many there are, of which `chunks_done` are in the store.
    - `parameters`: the paths that it is over.
    """

    runs: int
    done: int
    failed: int
    chunks: int
    chunks_done: int
    parameters: tuple[str, ...]

    def __repr__(self) -> str:
        left = self.runs - self.done
        return (
            f"sweep of {self.runs} runs over {', '.join(self.parameters)}: "
            f"{self.done} done, {self.failed} of them failed, {left} left "
            f"({self.chunks_done} of {self.chunks} chunks)"
        )


def store_status(store: str | os.PathLike[str]) -> StoreStatus:
    """How far the sweep is whose outcomes are in a store.

    ```python
    def period(pendulum):
        return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

    pendulum = {"length": jnp.array(1.0), "g": jnp.array(9.81)}
    over = {"length": np.linspace(0.1, 2.0, 100)}
    ds.sweep(period, pendulum, over, store="runs.zarr")
    print(sweeps.store_status("runs.zarr"))  # 100 done, 0 of them failed
    ```

    It may be asked while processes write. Only the manifest is read, no outputs.

    **Arguments:** `store`, the path that `sweep(..., store=)` was given.

    **Returns:** `StoreStatus`, with fields `runs`, `done`, `failed`, `chunks`,
    `chunks_done` and `parameters`.

    **Raises:** `ValueError` for what is no store of a sweep.
    """
    if not isinstance(store, str | os.PathLike):
        raise ValueError(f"store must be a path, 'runs.zarr' say, got {store!r:.60}")
    path = Path(store)
    if not path.exists():
        raise ValueError(f"store {str(path)!r} does not exist")
    about = read_description(path)
    runs, chunk = about["runs"], about["chunk"]
    done = failed = number = 0
    for entry in entries(path):
        number += 1
        done += min((entry.chunk + 1) * chunk, runs) - entry.chunk * chunk
        failed += entry.failed
    chunks = -(-runs // chunk)
    return StoreStatus(runs, done, failed, chunks, number, tuple(about["parameters"]))
