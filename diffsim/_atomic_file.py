"""Files that are there whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


# Characters of the name that the part keeps: one at the limit of the disk would be too
# long with what is appended.
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
    # The part may be read by those only who may read the file that it replaces.
    part.touch(0o666 if permissions is None else permissions | 0o200, exist_ok=False)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # Some disks have no permissions to change, and the same for all files.
        if permissions not in (None, stat.S_IMODE(part.stat().st_mode)):
            part.chmod(permissions)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path):
    """Bring the names in a folder onto the disk.

    Else the name of a file may be lost with the power, its content safe.
    """
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The file is there, whole; some disks on the network cannot do more, and some
        # folders may be written to and not read.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise
