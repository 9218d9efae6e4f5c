"""Opens files of the operator: secrets, certificates, keys. It never waits: a named pipe without a writer would block
the loop, and with it every connection."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from walflow import world

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LARGEST: Final = 16 << 20  # bytes: a hundred times what a system has as authorities

_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@contextmanager
def opened(path: str) -> Generator[int]:
    """A descriptor of `walflow.world.disk`. Raises OSError, also if it is no plain file;
    the error's `strerror` is for a log line."""
    disk = world.disk()
    fd = disk.open_to_read(path)
    try:
        found = disk.stat(fd)
        if not found.is_file:
            kind = _KINDS.get(stat.S_IFMT(found.mode), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}, and must be a plain file")
        if found.size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST:,} bytes")
        yield fd
    finally:
        disk.close(fd)


def read_plain(path: str, most: int) -> bytes:
    """Its first bytes. Raises OSError, as `opened` does."""
    with opened(path) as fd:
        return world.disk().read(fd, most, 0)


@contextmanager
def held(path: str) -> Generator[str]:
    """A file name for a library that needs one. It stays valid even if the file is renamed meanwhile.
    Raises OSError."""
    with opened(path) as fd:
        by_number = f"/dev/fd/{fd}"
        yield by_number if os.path.exists(by_number) else path


def warn_if_open(path: str | Path, what: str, log: "FilteringBoundLogger", *, group: bool = False) -> None:
    """Warns if users other than the owner (with `group`: and its group) may read or write a secret file."""
    try:
        mode = stat.S_IMODE(world.disk().status(str(path)).mode)
    except OSError:
        return  # the read says so
    if mode & (0o007 if group else 0o077):
        advice = f"chmod {'640' if group else '600'} {path}"
        log.warning(f"{what} open to others", file=str(path), mode=f"{mode:04o}", advice=advice)
