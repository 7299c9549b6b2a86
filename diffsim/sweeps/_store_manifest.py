"""Manifest of a store: a description of its sweep, and an entry for each chunk done.

Every entry is a file that is there whole or not at all, and follows what it vouches
for onto the disk. No two processes write the same one, so that none is locked.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .._atomic_file import sync_folder, whole_file


FOLDER, DESCRIPTION = "manifest", "sweep.json"
_DESCRIBED = {"identity", "runs", "chunk", "layout", "parameters"}


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
    with whole_file(store / FOLDER / DESCRIPTION) as file:
        file.write(json.dumps(description, indent=1).encode())


def read_description(store: Path) -> dict[str, Any]:
    """The description; raises where there is none, or it cannot be read."""
    if not store.is_dir():
        raise ValueError(
            f"store {str(store)!r} is a file; a store is a folder, name another"
        )
    try:
        found = json.loads((store / FOLDER / DESCRIPTION).read_bytes())
        if not isinstance(found, dict) or not set(found) >= _DESCRIBED:
            raise ValueError("no description of a sweep")
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
    with whole_file(store / FOLDER / entry.name) as file:
        file.write(json.dumps(entry._asdict()).encode())


def entries(store: Path, damaged: list[int] | None = None) -> Iterator[Entry]:
    """All entries; numbers of those that cannot be read are added to `damaged`."""
    for path in sorted((store / FOLDER).glob("[0-9]*.json")):
        try:
            yield Entry(**json.loads(path.read_bytes()))
        except FileNotFoundError:  # another process repeats it just now
            continue
        except (ValueError, TypeError):
            if damaged is not None and path.stem.isdecimal():
                damaged.append(int(path.stem))


def checksums(store: Path, paths: list[Path]) -> dict[str, list[int]]:
    """Sizes and checksums of files, by path inside the store."""
    return {str(path.relative_to(store)): list(_checksum(path)) for path in paths}


def damage(store: Path, entry: Entry) -> str:
    """Say how the files of a chunk are damaged; nothing if they are not."""
    for name, (size, checksum) in entry.files.items():
        try:
            found = _checksum(store / name)
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        if found != (size, checksum):
            return f"{name} has {found[0]} bytes for {size}, or another checksum"
    return ""


def _checksum(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    return len(content), zlib.crc32(content)


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
