"""Digests of what users' code does, which a file is known again by."""

import hashlib
import importlib.metadata
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._jaxpr._tracing import Program, in_full
from ._jit._placeholders import Extracted
from ._types import PyTree


_ADDRESS = re.compile(r"0x[0-9a-f]+")


def settings() -> dict[str, str]:
    """All beside a program that changes numbers by more than rounding, in words."""
    try:
        version = importlib.metadata.version("diffsim")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        version = "not installed"
    config: Any = jax.config
    partitionable = config.jax_threefry_partitionable
    return {
        "precision": "float64" if config.jax_enable_x64 else "float32",
        "random numbers": f"jax_threefry_partitionable={partitionable}",
        "matrix products": f"precision {config.jax_default_matmul_precision}",
        "versions": f"diffsim {version}, JAX {jax.__version__}",
    }


def program_digest(closed: Any) -> str:
    """Of a closed jaxpr: its operations, and the numbers in it.

    What a callback does, which is not traced, does not count.
    """
    token = in_full.set(True)
    try:
        program = Program(closed.jaxpr, None)
    finally:
        in_full.reset(token)
    return tree_digest((repr(program.key), program.numbers, closed.consts))


def tree_digest(tree: PyTree) -> str:
    """Of a pytree: its structure and numbers, without functions that users wrote."""
    leaves, structure = jax.tree.flatten(Extracted(tree).tree)
    digest = hashlib.blake2b(digest_size=16)
    for part in (repr(structure), *leaves):
        content = _bytes(part)
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _bytes(x: Any) -> bytes:
    if eqx.is_array(x) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return repr(x.dtype).encode() + _bytes(jax.random.key_data(x))
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        array = np.asarray(x)
        return f"{array.dtype}{array.shape}".encode() + array.tobytes()
    return f"{type(x).__name__} {_ADDRESS.sub('', repr(x))}".encode()
