"""Devices of a sweep, parts of a job, and processes of `jax.distributed`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._types import PyTree
from ._sweep_result import RunOutcome


_AXIS = "runs"


def checked_devices(devices: Any) -> tuple[Any, ...]:
    """The devices that are meant, all local ones by default."""
    if devices is None:
        return tuple(jax.local_devices())
    devices = (devices,) if isinstance(devices, jax.Device) else devices
    are_devices = isinstance(devices, Sequence) and all(
        isinstance(device, jax.Device) for device in devices
    )
    # One program runs on all, and every process of `jax.distributed` has its own share.
    kinds = {(d.platform, d.process_index) for d in devices} if are_devices else ()
    alike = len(kinds) == 1 and {here for _, here in kinds} == {jax.process_index()}
    if not alike or len(set(devices)) < len(devices):
        raise ValueError(
            "devices must be devices of JAX, jax.local_devices()[:2] say, of one kind "
            "and of this process, at least one and none of them twice, or None for all "
            f"local ones, got {devices!r:.60}"
        )
    return tuple(devices)


def mesh_of(devices: Sequence[Any]) -> Mesh | None:
    """A mesh of more than one device."""
    return Mesh(np.array(devices), (_AXIS,)) if len(devices) > 1 else None


def on_devices(tree: PyTree, devices: Sequence[Any]) -> PyTree:
    """Arrays of the host in parts along the first axis, one on each device."""
    mesh = mesh_of(devices)
    if mesh is not None:
        return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(_AXIS)))
    if devices[0] == jax.local_devices()[0]:
        return jax.tree.map(jnp.asarray, tree)
    return jax.device_put(tree, devices[0])


def answering(devices: Sequence[Any]) -> tuple[Any, ...]:
    """The devices that still compute."""
    answered = []
    for device in devices:
        try:
            number = jax.device_put(np.float32(1.0), device)
            (number + number).block_until_ready()
        except jax.errors.JaxRuntimeError:
            continue
        answered.append(device)
    return tuple(answered)


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


def gathered(outcome: RunOutcome, share: Share, total: int, chunk: int) -> RunOutcome:
    """The outcomes of all runs, of which each process has its own."""
    from jax.experimental import multihost_utils

    owned = [share.runs(total, chunk, index) for index in range(share.count)]
    most = max(map(len, owned))

    def of_all(mine: np.ndarray) -> np.ndarray:
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

    return jax.tree.map(of_all, outcome)
