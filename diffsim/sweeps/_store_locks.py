"""Locks of a store: no two processes run the same chunks of it at the same time.

They go with the process, however it ends. Where a disk has none, two that run the same
write the same.
"""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ._devices import Share
from ._store_manifest import FOLDER, written_or_explained


@contextlib.contextmanager
def claimed(store: Path, share: Share | None) -> Iterator[None]:
    """Inside, no other process has this part of the sweep, or one that overlaps it."""
    index, count = (0, 1) if share is None else (share.index, share.count)
    part = "all" if count == 1 else f"part {index} of {count}"
    with contextlib.ExitStack() as stack:
        with written_or_explained(store):
            division, own = (
                stack.enter_context((store / FOLDER / f"{name}.lock").open("a+"))
                for name in ("division", part)
            )
        _join_division(division, store, count)
        if not _lock(own):
            raise ValueError(
                f"store {str(store)!r}: {part} of this sweep is being run by "
                f"{_read(own) or 'another process'}; give every job a part of its "
                "own, or wait until that one has ended"
            )
        _write(own, _this_process())
        yield


def _join_division(file: TextIO, store: Path, count: int):
    """Hold the number of parts, together with all processes that have the same."""
    if _lock(file):
        _write(file, f"{count} {_this_process()}")
    _lock(file, shared=True)
    number, _, process = _read(file).partition(" ")
    if number not in ("", str(count)):
        there = "as a whole" if number == "1" else f"in {number} parts"
        here = "the whole of it" if count == 1 else f"one of {count} parts"
        raise ValueError(
            f"store {str(store)!r}: this sweep is being run {there}, by {process} "
            f"among others, and {here} has runs of theirs; divide it alike, or wait "
            "until they have ended"
        )


def _lock(file: TextIO, *, shared: bool = False) -> bool:
    """Lock the file; whether no other process has it for itself.

    To share it waits for a process that is about to share it, too.
    """
    try:
        import fcntl

        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # no such thing on Windows, and on some disks
        pass
    return True


def _this_process() -> str:
    return f"process {os.getpid()} on {platform.node()}"


def _read(file: TextIO) -> str:
    file.seek(0)
    return file.read().strip()


def _write(file: TextIO, text: str):
    file.truncate(0)
    file.write(text)
    file.flush()
