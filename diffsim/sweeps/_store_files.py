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
from ._store_manifest import (
    FOLDER,
    checksums,
    damaged_files,
    read_description,
    sync,
    write_description,
)
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
    try:
        with _made_beside(path, contents, parameters, description) as part:
            os.rename(part, path)
            sync_folder(path.parent)
    except Exception:
        # Another process was first, and has removed what others had begun, of which
        # zarr says this or that.
        if not (path / FOLDER).is_dir():
            raise


def mend(
    path: Path,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    description: dict[str, Any],
):
    """Write again what is damaged: what the runs are over, places, and descriptions."""
    damaged = damaged_files(path, description["files"])
    if not damaged:
        return
    more = f" and {len(damaged) - 1} more files" if len(damaged) > 1 else ""
    warnings.warn(
        f"store {str(path)!r}: {next(iter(damaged))}{more}: what the runs are over, or "
        "what is in the store, is damaged there, and written again",
        stacklevel=6,
    )
    replace(path, contents, parameters, description, list(damaged))


def replace(
    path: Path,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    description: dict[str, Any],
    names: list[str] | None = None,
):
    """Write files of a store again that hold no outcomes, the description last.

    **Arguments:** `names`: which files; None is all of them.
    """
    with _made_beside(path, contents, parameters, description) as part:
        made = read_description(part)["files"]
        names = list(made) if names is None else names
        for name in names:
            make_room(path / name)
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(part / name, path / name)
        sync(path.parent, [path / name for name in names])
        files = made | {k: x for k, x in description["files"].items() if k not in names}
        write_description(path, {**description, "files": files})


def make_room(path: Path):
    """Remove a folder in the place of a file, which could not be replaced."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


@contextlib.contextmanager
def _made_beside(
    path: Path,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    description: dict[str, Any],
) -> Iterator[Path]:
    """A store without outcomes, which is removed in the end."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        _fill(part, contents, parameters, description)
        yield part
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
    # A path of its own type: in text, # and ? would be taken for parts of an address.
    store = zarr.storage.LocalStore(path)
    encoding = {str(name): {"compressors": _codecs()} for name in dataset.variables}
    with _without_warnings_of_zarr():
        dataset.to_zarr(
            store, mode="w-", zarr_format=3, consolidated=False, encoding=encoding
        )
        group = zarr.open_group(store, mode="r+")
        for variable in contents.variables:
            _create_array(group, variable, contents.dtype(variable), runs, chunk)
        group.create_group(FOLDER)
        zarr.consolidate_metadata(store)
    files = sorted(x for x in path.rglob("*") if x.is_file())
    write_description(path, {**description, "files": checksums(path, files)})
    sync(path.parent, files)


def _create_array(
    group: Any, variable: StoredVariable, dtype: np.dtype, runs: int, chunk: int
):
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
        compressors=_codecs(),
        attributes=_about_status() if status else {},
    )


def _codecs() -> list[Any]:
    """Compression, and a checksum by which readers see that a file was damaged."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return [ZstdCodec(level=1), Crc32cCodec()]


def opened_group(path: Path, mode: str) -> "zarr.Group":
    """The arrays of a store, as Zarr has them."""
    try:
        zarr, _ = modules()
        return zarr.open_group(zarr.storage.LocalStore(path), mode=mode)
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
                inner = ["0"] * (values.ndim - 1)
                files.append(self.path.joinpath(name, "c", str(chunk), *inner))
                make_room(files[-1])
                array[first : first + len(values)] = values
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
