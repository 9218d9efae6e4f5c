"""Opens files of the operator: secrets, certificates, keys. It never waits: a named pipe without a writer would block
the loop, and with it every connection."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

LARGEST: Final = 16 << 20  # bytes: a hundred times what a system has as authorities

_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_plain(path: str | Path) -> int:
    """A descriptor for reading. Raises OSError, also if it is no plain file;
    the error's `strerror` is for a log line."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}, and must be a plain file")
        if found.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST:,} bytes")
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def held(path: str) -> Generator[str]:
    """A file name for a library that needs one. It stays valid even if the file is renamed meanwhile.
    Raises OSError."""
    fd = open_plain(path)
    try:
        by_number = f"/dev/fd/{fd}"
        yield by_number if os.path.exists(by_number) else path
    finally:
        os.close(fd)


def warn_if_open(path: str | Path, what: str, log: FilteringBoundLogger, *, group: bool = False) -> None:
    """Warns if users other than the owner (with `group`: and its group) may read or write a secret file."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return  # the read says so
    if mode & (0o007 if group else 0o077):
        advice = f"chmod {'640' if group else '600'} {path}"
        log.warning(f"{what} open to others", file=str(path), mode=f"{mode:04o}", advice=advice)
