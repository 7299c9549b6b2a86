"""Manifest of a store: a description of its sweep, and an entry for each chunk done.

Every entry is a file that is there whole or not at all, and follows what it vouches
for onto the disk. No two processes write the same one, so that none is locked. Every
file has a checksum of itself.
"""

import contextlib
import json
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .._atomic_file import sync_folder, whole_file


FOLDER, DESCRIPTION = "manifest", "sweep.json"


class Entry(NamedTuple):
    """A chunk that is done: how many of its runs failed, and its files.

    - `files`: by path inside the store, size and checksum.
    """

    chunk: int
    failed: int
    files: dict[str, list[int]]

    @property
    def name(self) -> str:
        """The file it is kept in."""
        return f"{self.chunk:08d}.json"


def write_description(store: Path, description: dict[str, Any]):
    """Say which sweep the store is of."""
    _write(store / FOLDER / DESCRIPTION, description)


def read_description(store: Path) -> dict[str, Any]:
    """The description; raises where there is none, or it cannot be read."""
    if not store.is_dir():
        raise ValueError(
            f"store {str(store)!r} is a file; a store is a folder, name another"
        )
    try:
        found = _read(store / FOLDER / DESCRIPTION)
    except FileNotFoundError:
        raise ValueError(
            f"store {str(store)!r} is a folder that no sweep has made; name one that "
            "does not exist"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"store {str(store)!r} has a damaged manifest, {FOLDER}/{DESCRIPTION} "
            f"({error}); its arrays can be read by xarray.open_zarr, and for the sweep "
            "name another store"
        ) from None
    return found


def write_entry(store: Path, entry: Entry):
    """Vouch for a chunk, whose files are on the disk."""
    _write(store / FOLDER / entry.name, entry._asdict())


def entries(store: Path, damaged: list[int] | None = None) -> Iterator[Entry]:
    """All entries; numbers of those that cannot be read are added to `damaged`."""
    for path in sorted((store / FOLDER).glob("[0-9]*.json")):
        try:
            entry = Entry(**_read(path))
            if entry.name != path.name:
                raise ValueError("a copy of another entry")
            yield entry
        except FileNotFoundError:  # another process repeats it just now
            continue
        except ValueError:
            if damaged is not None and path.stem.isdecimal():
                damaged.append(int(path.stem))


def _write(path: Path, content: dict[str, Any]):
    checksum = zlib.crc32(json.dumps(content).encode())
    with whole_file(path) as file:
        file.write(json.dumps({"checksum": checksum, **content}, indent=1).encode())


def _read(path: Path) -> dict[str, Any]:
    """The content of a file; raises `ValueError` where it is damaged."""
    content = json.loads(_bytes(path))
    if not isinstance(content, dict):
        raise ValueError("no description of a sweep")
    checksum = content.pop("checksum", None)
    if checksum != zlib.crc32(json.dumps(content).encode()):
        raise ValueError("its checksum is another")
    return content


def checksums(store: Path, paths: list[Path]) -> dict[str, list[int]]:
    """Sizes and checksums of files, by path inside the store."""
    return {str(path.relative_to(store)): list(_checksum(path)) for path in paths}


def damage(store: Path, entry: Entry) -> str:
    """Say how the files of a chunk are damaged; nothing if they are not."""
    for name in entry.files:
        if Path(name).parts[2:3] != (str(entry.chunk),):
            return f"its entry in the manifest names {name}"
    return next(iter(damaged_files(store, entry.files).values()), "")


def damaged_files(store: Path, files: dict[str, list[int]]) -> dict[str, str]:
    """Files with another size or checksum than these, and how they are damaged."""
    damaged = {}
    for name, (size, checksum) in files.items():
        try:
            here, found = _checksum(store / name)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            damaged[name] = f"{name} cannot be read ({reason})"
            continue
        if (here, found) != (size, checksum):
            damaged[name] = f"{name} has {here} bytes for {size}, or another checksum"
    return damaged


def _checksum(path: Path) -> tuple[int, int]:
    content = _bytes(path)
    return len(content), zlib.crc32(content)


def _bytes(path: Path) -> bytes:
    """The content of a file; a pipe in its place, say, would never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")
    return path.read_bytes()


def sync(store: Path, paths: list[Path]):
    """Bring files and the folders that name them onto the disk."""
    folders: dict[Path, None] = {}
    for path in paths:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
        parent = path.parent
        while parent != store:
            folders[parent] = None
            parent = parent.parent
    for folder in sorted(folders, key=lambda path: -len(path.parts)):
        sync_folder(folder)


@contextlib.contextmanager
def written_or_explained(store: Path) -> Iterator[None]:
    """Say of a disk that is full, or may not be written to, what stays.

    Around what the store itself does: predict may read files, and lack one.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        done = len(list(entries(store)))
        raise OSError(
            error.errno,
            f"store {str(store)!r} cannot be written ({reason}); {done} chunks are in "
            "it and stay. Make room or give leave, and the same call goes on from "
            "there",
        ) from error
