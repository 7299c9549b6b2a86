"""Devices of a sweep: which, how runs are put on them, and which still answer."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._types import PyTree


_AXIS = "runs"


def checked_devices(devices: Any) -> tuple[Any, ...]:
    """The devices that are meant, all local ones by default."""
    if devices is None:
        return tuple(jax.local_devices())
    if isinstance(devices, jax.Device):
        devices = (devices,)
    if not isinstance(devices, Sequence) or not all(
        isinstance(device, jax.Device) for device in devices
    ):
        raise ValueError(
            "devices must be devices of JAX, jax.devices()[:2] say, or None for all "
            f"local ones, got {devices!r:.60}"
        )
    if not devices or len(set(devices)) < len(devices):
        raise ValueError(
            "devices must be at least one, and none of them twice, got "
            f"{[str(device) for device in devices]}"
        )
    here = jax.process_index()
    remote = [str(d) for d in devices if d.process_index != here]
    if remote:
        raise ValueError(
            f"devices must be those of this process, got {remote} of another; every "
            "process of jax.distributed sweeps its own share on jax.local_devices()"
        )
    if len({device.platform for device in devices}) > 1:
        raise ValueError(
            "devices must be of one kind, as one program runs on all, got "
            f"{[str(device) for device in devices]}"
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
    found = []
    for device in devices:
        try:
            one = jax.device_put(np.float32(1.0), device)
            (one + one).block_until_ready()
        except jax.errors.JaxRuntimeError:
            continue
        found.append(device)
    return tuple(found)
