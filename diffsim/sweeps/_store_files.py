"""Arrays of a store on the disk: made all at once, written chunk by chunk."""

import contextlib
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._atomic_file import sync_folder
from .._extras import optional_module
from ._store_contents import (
    NOT_RUN,
    STATUS,
    StoreContents,
    StoredVariable,
    stored_name,
)
from ._store_manifest import FOLDER, sync, write_description
from ._sweep_tables import status_attributes


if TYPE_CHECKING:
    import zarr


def _not_run(dtype: np.dtype) -> np.generic:
    """A value that no run comes to, nearly: of what is true or false there is none."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return dtype.type(limits.min if dtype.kind == "i" else limits.max)
    return dtype.type({"f": np.nan, "c": np.nan, "b": False}[dtype.kind])


def modules() -> tuple[Any, Any]:
    """Return zarr and xarray; a sentence where one is not installed."""
    purpose = "store= writes by"
    return optional_module("zarr", purpose), optional_module("xarray", purpose)


def create(
    path: Path,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    description: dict[str, Any],
):
    """Make a store without outcomes; none is left where that fails.

    Of several processes that do so at once, one is first, and all use its store.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        _fill(part, contents, parameters, description)
        os.rename(part, path)
        sync_folder(path.parent)
    except Exception:
        # Another process was first, and has removed what others had begun, of which
        # zarr says this or that.
        if not (path / FOLDER).is_dir():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fill(
    path: Path,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    description: dict[str, Any],
):
    zarr, xarray = modules()
    runs, chunk = description["runs"], description["chunk"]
    along = {}
    for parameter, x in parameters.items():
        name = stored_name(parameter)
        dims = ("run", *(f"{name}_axis_{i}" for i in range(x.ndim - 1)))
        along[name] = dims, x, {"path": parameter}
    coordinates = {"run": np.arange(runs), **along}
    dataset = xarray.Dataset(contents.coordinates.variables).assign_coords(coordinates)
    dataset = dataset.set_coords(list(contents.coordinates.variables))
    with _without_warnings_of_zarr():
        dataset.to_zarr(path, mode="w-", zarr_format=3, consolidated=False)
        group = zarr.open_group(path, mode="r+")
        for variable in contents.variables:
            _create_array(group, variable, contents.dtype(variable), runs, chunk)
        group.create_group(FOLDER)
        zarr.consolidate_metadata(path)
    write_description(path, description)
    sync(path.parent, [x for x in path.rglob("*") if x.is_file()])


def mend_parameters(path: Path, parameters: dict[str, np.ndarray]):
    """Write what the runs are over again where it is damaged."""
    group = opened_group(path, "r")
    for parameter, x in parameters.items():
        name = stored_name(parameter)
        try:
            intact = np.asarray(group[name]).tobytes() == x.tobytes()
        except (KeyError, ValueError, RuntimeError, OSError):
            intact = False
        if intact:
            continue
        warnings.warn(
            f"store {str(path)!r}: {name}, which says what the runs are over, is "
            "damaged, and written again",
            stacklevel=6,
        )
        array: Any = opened_group(path, "r+")[name]
        array[...] = x
        files = [file for file in (path / name).rglob("*") if file.is_file()]
        sync(path, files)


def _create_array(
    group: Any, variable: StoredVariable, dtype: np.dtype, runs: int, chunk: int
):
    from zarr.codecs import Crc32cCodec, ZstdCodec

    if dtype.kind not in "fciub":
        raise ValueError(
            f"store: {variable.name} is {dtype}, which Zarr has no type for; return "
            "float32 or float64 from predict"
        )
    status = variable.name == STATUS
    group.create_array(
        variable.name,
        shape=(runs, *variable.shape),
        chunks=(chunk, *variable.shape),
        dtype=dtype,
        fill_value=dtype.type(NOT_RUN) if status else _not_run(dtype),
        dimension_names=("run", *variable.dims),
        # Readers see by the checksum that a file was damaged.
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        attributes=_about_status() if status else {},
    )


def opened_group(path: Path, mode: str) -> "zarr.Group":
    """The arrays of a store, as Zarr has them."""
    try:
        return modules()[0].open_group(path, mode=mode)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise ValueError(
            f"store {str(path)!r}: its description for Zarr, zarr.json, is damaged "
            f"({error!s:.100}); put a copy back, or name another store"
        ) from error


@contextlib.contextmanager
def _without_warnings_of_zarr() -> Iterator[None]:
    """Nothing that users could do about what Zarr says of its own format."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Zarr format 3.*")
        warnings.filterwarnings("ignore", message=".*Zarr V3 specification.*")
        warnings.filterwarnings("ignore", message=".*has a space in its name.*")
        yield


def _about_status() -> dict[str, Any]:
    attributes = status_attributes()
    values = attributes["flag_values"].tolist()
    return {**attributes, "flag_values": values, "not_run": NOT_RUN}


class ChunkFiles:
    """The arrays of a store, to write and read chunks of runs."""

    def __init__(self, path: Path, chunk: int):
        self.path, self.chunk = path, chunk
        self.group = opened_group(path, "r+")

    def write(self, chunk: int, arrays: dict[str, np.ndarray]) -> list[Path]:
        """Write a chunk of every array, how the runs went last; the files of it."""
        names = sorted(arrays, key=lambda name: name == STATUS)
        first = chunk * self.chunk
        files = []
        # What is all zeros is written as well: a file that is missing was lost.
        with modules()[0].config.set({"array.write_empty_chunks": True}):
            for name in names:
                values = arrays[name]
                array: Any = self.group[name]
                array[first : first + len(values)] = values
                inner = ["0"] * (values.ndim - 1)
                files.append(self.path.joinpath(name, "c", str(chunk), *inner))
        return files

    def discard_unfinished(self, chunks: set[int]):
        """Delete what a process that was killed had begun to write of these chunks."""
        for path in self.path.glob("*/c/**/*.partial"):
            under = path.relative_to(self.path).parts
            if int(under[2].partition(".")[0]) in chunks:
                path.unlink(missing_ok=True)
        for path in self.path.glob(f"{FOLDER}/[0-9]*.part"):
            if int(path.name.partition(".")[0]) in chunks:
                path.unlink(missing_ok=True)
