"""A fit under way as one file, written whole or not at all."""

import json
import os
import pathlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def save_checkpoint(path: Any, state: Any, label: dict[str, Any]):
    """Writes the arrays of `state`; a crash meanwhile leaves the old file."""
    path = pathlib.Path(path)
    leaves = [
        np.asarray(x) for x in jax.tree.leaves(eqx.filter(state, eqx.is_array_like))
    ]
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, *leaves, label=np.array(json.dumps(label)))
    os.replace(partial, path)


def load_checkpoint(path: Any, like: Any, label: dict[str, Any]) -> Any:
    """The state in the file, `like` without one; objects to another fit's file."""
    path = pathlib.Path(path)
    if not path.exists():
        return like
    arrays, rest = eqx.partition(like, eqx.is_array_like)
    leaves, structure = jax.tree.flatten(arrays)
    with np.load(path) as file:
        found = json.loads(str(file["label"]))
        if found != label:
            differ = [k for k in label if found.get(k) != label[k]]
            raise ValueError(
                f"checkpoint {str(path)!r} belongs to another fit (its "
                f"{', '.join(differ)} differ); remove it or name another file"
            )
        loaded = [jnp.asarray(file[f"arr_{i}"]) for i in range(len(leaves))]
    return eqx.combine(jax.tree.unflatten(structure, loaded), rest)
