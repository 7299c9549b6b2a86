"""Files that are there whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


# Of the name that is asked for, so that one at the limit of the disk can be lengthened.
_KEPT = 32


def check_file(name: str, path: str | os.PathLike) -> int | None:
    """The permissions of the file at `path`, None without one; raises for others."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode) & 0o777
    if stat.S_ISDIR(mode):
        inside = str(Path(path, "name.eqx"))
        raise ValueError(
            f"{name} must name a file, got the folder {str(path)!r}; name one in it, "
            f"{inside!r}"
        )
    raise ValueError(
        f"{name} must name a file, got a device, pipe or socket {str(path)!r}, which a "
        "file would replace; give another name"
    )


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A file to write, which replaces that at `path` once it is on the disk.

    A link stays one, and the file that it leads to is replaced.
    """
    permissions = check_file("path", path)
    path = Path(os.path.realpath(path))
    part = path.with_name(f"{path.name[:_KEPT]}.{secrets.token_hex(4)}.part")
    # Nobody may read it meanwhile who may not read what it replaces.
    part.touch(0o666 if permissions is None else permissions | 0o200, exist_ok=False)
    with _removed_if_it_fails(part):
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # Some disks have no permissions to change, and the same for all files.
        if permissions not in (None, stat.S_IMODE(part.stat().st_mode)):
            part.chmod(permissions)
        part.replace(path)
    sync_folder(path.parent)


@contextlib.contextmanager
def _removed_if_it_fails(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path):
    """Bring the names in a folder onto the disk.

    Else the name of a file may be lost with the power, its content safe.
    """
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    try:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        # The file is there, whole; some disks on the network cannot do more, and some
        # folders may be written to and not read.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise
