"""`save` and `load`: pytrees of modules in one file, without pickle."""

import hashlib
import json
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._atomic_file import whole_file
from ..._types import PyTree
from ._class_names import checked_classes
from ._tree_description import Contents, describe, dtype_name
from ._tree_rebuild import find_classes, rebuild


_FORMAT = 2
_BEGINNING = re.compile(rb'\{"format": (\d{1,9}),')
_DIGEST = 64  # bytes of a blake2b
_CHUNK = 2**20
# What reading a description raises that `save` has not written.
_OF_NO_TREE = (
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
)


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a simulation, trajectory, fit or any pytree of modules to `path`.

    ```python
    system = problems.outer_solar_system()
    ds.save("planets.eqx", system)
    ds.save("run.eqx", ds.simulate(system, [0.0, 100.0]))
    ```

    The file is one line of JSON, which says what the tree is made of, the bytes of the
    arrays, and a BLAKE2b digest of all before it. Values come back to the bit, numbers
    and arrays in their types. The file appears whole or not at all: it is written in
    the same folder, under a name that ends in `.part`, and moved to `path` once it is
    on the disk. Permissions of a file that is replaced are kept, and where `path` is a
    link, what it leads to is replaced.

    **Arguments**

    - `path`: where; by custom `name.eqx`.
    - `tree`: modules, tuples, named tuples, lists, dicts, arrays (bfloat16, float8,
        int4 and keys of `jax.random.key` included), numbers, strings, functions and
        None. Classes and functions are written as their public names.

    **Raises:** `ValueError` naming what cannot be described, a lambda for instance, and
    for a `path` to a folder, a device or a pipe; `OSError` if the disk is full or
    the folder cannot be written to.
    """
    node, contents = describe(tree)
    arrays = [[dtype_name(x.dtype), list(x.shape)] for x in contents.arrays]
    header = {"format": _FORMAT, "arrays": arrays, "names": contents.names}
    header["tree"] = node
    # Numbers that JSON does not have are written by their bits.
    line = json.dumps(header, allow_nan=False).encode() + b"\n"
    with whole_file(path) as file:
        _write(file, line, contents.arrays)


def load(path: str | os.PathLike[str], *, classes: Any = ()) -> PyTree:
    """Read what `save` wrote.

    ```python
    ds.save("run.eqx", (problems.kepler(), ds.Method(diffrax.Tsit5(), step=0.1)))
    system, method = ds.load("run.eqx", classes=(diffrax.Tsit5,))
    ```

    Whether the file is as it was written is checked before anything is made of it.
    Names in it are looked up in diffsim, in `jax.numpy`, in the script that is running
    and in `classes`, and stand for classes of Equinox modules, named tuples and
    functions only. No code is run meanwhile; that of the functions and methods of what
    is loaded runs when you use it.

    **Arguments**

    - `path`: of the file.
    - `classes`: classes and functions that are not diffsim's, as
        `classes=(MyForce, diffrax.Tsit5)`: yours if they are defined in a module, and
        those of Diffrax, Equinox and other libraries.

    **Raises:** `ValueError` if the file is not ours, not whole or of another format, if
    a class has to be handed over or has changed its fields, or if the file holds double
    precision that JAX here does not.
    """
    given = checked_classes(classes)
    with Path(path).open("rb") as file:
        size = _check_whole(file, path)
        try:
            header = json.loads(file.readline(size))
            arrays = _read_arrays(file, header["arrays"], size)
            found = find_classes(header["names"], given)
            return rebuild(header["tree"], Contents(arrays, found))
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from error
        except _OF_NO_TREE as error:
            raise ValueError(
                f"{path} describes no tree; it was not written by diffsim.save"
            ) from error


def _write(file: BinaryIO, line: bytes, arrays: Sequence[np.ndarray]):
    """The line, the arrays and the digest of both."""
    digest = hashlib.blake2b(line)
    file.write(line)
    for array in arrays:
        content = array.tobytes()
        digest.update(content)
        file.write(content)
    file.write(digest.digest())


def _check_whole(file: BinaryIO, path: str | os.PathLike) -> int:
    """The size without the digest, `file` at its beginning; raises for damage."""
    found = _BEGINNING.match(file.read(64))
    if found is None:
        raise ValueError(f"{path} was not written by diffsim.save")
    version = int(found[1])
    if version != _FORMAT:
        raise ValueError(
            f"{path} has format {version}, this diffsim reads {_FORMAT}; save it again"
        )
    size = max(file.seek(0, os.SEEK_END) - _DIGEST, 0)
    file.seek(0)
    digest, left = hashlib.blake2b(), size
    while left and (chunk := file.read(min(left, _CHUNK))):
        digest.update(chunk)
        left -= len(chunk)
    if file.read() != digest.digest():
        raise ValueError(
            f"{path} is damaged: its bytes are not those that were written; copy or "
            "save it again"
        )
    file.seek(0)
    return size


def _read_arrays(file: BinaryIO, kinds: Any, size: int) -> list[np.ndarray]:
    """The arrays behind the first line, which have to fill the file up to `size`."""
    types = [(np.dtype(name), tuple(shape)) for name, shape in kinds]
    counts = [int(np.prod(shape, dtype=object)) * t.itemsize for t, shape in types]
    if sum(counts) != size - file.tell() or any(t.hasobject for t, _ in types):
        raise ValueError("its arrays are not those that its first line names")
    return [
        np.ndarray(shape, dtype, bytearray(file.read(count)))
        for (dtype, shape), count in zip(types, counts, strict=True)
    ]
