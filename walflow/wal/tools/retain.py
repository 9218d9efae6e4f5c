"""`walflow wal retain --off`: what a log keeps of acked events is not protected any more."""

from walflow.errors import WalflowError
from walflow.wal.directory import Directory
from walflow.wal.format import META, has_history, unpack_meta
from walflow.wal.opening.recovery import write_meta


class NothingKept(WalflowError):
    """The log has no history."""


def forget_history(directory: Directory, uuid: bytes) -> None:
    """Raises NothingKept."""
    fd = directory.disk.open(directory.file("meta"))
    try:
        data = directory.read("meta", fd, META.size + 4, 0)
    finally:
        directory.disk.close(fd)
    if unpack_meta(data) is None or not has_history(data):
        raise NothingKept(f"{directory.path} keeps no acked events")
    write_meta(directory, uuid)
