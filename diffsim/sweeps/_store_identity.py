"""Identity of a sweep: a digest of each part that its outcomes depend on."""

import hashlib
import importlib.metadata
import re
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ._jaxpr_inspection import equations
from ._sweep_plan import Plan
from ._swept_parameters import is_key


#: Parts that say something to a reader.
IN_WORDS = {"precision", "versions", "runs", "derivative", "error_estimate"}
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def identity_of(plan: Plan) -> dict[str, str]:
    """Every part of a sweep by what users call it, in words or as a digest.

    The function counts by the program that it is traced to, so that another process,
    and a script that was edited elsewhere, has the same. What a callback of JAX does,
    which is not traced, does not count.
    """
    task, empty = plan.task, jax.tree.map(np.zeros_like, plan.row)
    model = jax.tree.leaves(task.selection.put(task.model, empty))
    numbers = [leaf for leaf in model if hasattr(leaf, "dtype")]
    # Arrays in the fields of a module that is called are inputs of its program.
    fields = jax.tree.leaves(eqx.filter(task.predict, eqx.is_array))
    return {
        "precision": "float64" if jax.config.jax_enable_x64 else "float32",
        "versions": _versions(),
        "runs": str(plan.table.runs),
        "predict": _digest(*_program(plan.jaxpr), *map(_bytes, fields)),
        "model": _digest(*map(_bytes, numbers)),
        "over": _digest(
            repr(task.selection.floats.names).encode(),
            repr(task.selection.integers.names).encode(),
            *map(_bytes, jax.tree.leaves(plan.table)),
        ),
        "derivative": str(task.derivative),
        "error_estimate": str(task.error_estimate),
    }


def _versions() -> str:
    try:
        version = importlib.metadata.version("diffsim")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        version = "not installed"
    return f"diffsim {version}, JAX {jax.__version__}"


def _program(closed: Any) -> list[bytes]:
    """Operations, without addresses of what they hold, and the numbers in them."""
    found = [_ADDRESS.sub("", str(closed.jaxpr)).encode()]
    found += map(_bytes, closed.consts)
    for eqn in equations(closed):
        for atom in eqn.invars:
            if hasattr(atom, "val"):
                found.append(_bytes(atom.val))
        for value in eqn.params.values():
            found += map(_bytes, getattr(value, "consts", ()))
    return found


def _bytes(x: Any) -> bytes:
    if is_key(x):
        x = jax.random.key_data(x)
    try:
        array = np.asarray(x)
    except (TypeError, ValueError):
        return repr(type(x)).encode()
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()


def _digest(*parts: bytes) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()
