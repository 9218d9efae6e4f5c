"""What a connector will need from the machine, tried before a start: `walflow check --environment`.

A trial opens and closes, or asks whether it may. It makes no file, and writes to none.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from walflow.errors import WalflowError
from walflow.handover import OWN


class NotAvailable(WalflowError):
    """Something that a start needs is not there, or may not be used."""


class Room(NamedTuple):
    """The most bytes that will be in a directory. Those that are there already count as room."""

    directory: str
    most: int


class Need(NamedTuple):
    """`what`: the words of a line, as "listen on 127.0.0.1:4242". `trial` raises OSError or WalflowError if it cannot
    be had. It may block for some seconds, and runs on a thread of its own. `folder`: a directory that no start makes.
    `room`: needs on one file system are tried together, by `fit`, and not by their own `trial`. `peer`: the trial is
    noticed by another program, which may be away and come back."""

    what: str
    trial: Callable[[], object]
    folder: str | None = None
    room: Room | None = None
    peer: bool = False


def made_directory(path: str) -> Need:
    """A directory that a start makes if it is missing."""
    return Need(f"write in the directory {path}", lambda: _may_make(path))


def writable_file(path: str) -> Need:
    """A file that a start makes if it is missing, in a directory that must be there."""
    return Need(f"write the file {path}", lambda: _may_write(path), _folder_of(path))


def readable_file(path: str) -> Need:
    return Need(f"read the file {path}", lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)))


def directory(path: str) -> Need:
    """A directory that no start makes."""
    return Need(f"read the directory {path}", lambda: os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY)), path)


def unlocked(path: str) -> Need:
    """The directory of a log, which one process may have open at a time."""
    return Need(f"lock the log in {path}", lambda: _may_lock(path))


def room(path: str, most: int) -> Need:
    """A directory that a start makes if it is missing, and that grows to so many bytes."""
    need = Room(path, most)
    return Need(f"{most:,} bytes of disk in {path}", lambda: fit([need]), room=need)


def fit(rooms: Sequence[Room]) -> None:
    """Raises OSError or NotAvailable. All are on one file system."""
    there = _existing(rooms[0].directory)
    file_system = os.statvfs(there)
    free = file_system.f_bavail * file_system.f_frsize
    taken = sum(min(_taken(one.directory), one.most) for one in rooms)
    if sum(one.most for one in rooms) > free + taken:
        beside = f" beside the {taken:,} bytes that are there" if taken else ""
        raise NotAvailable(f"the file system of {there} has {free:,} bytes free{beside}")


def file_system_of(directory: str) -> int:
    """Its number, also if the directory is not there yet."""
    return os.stat(_existing(directory)).st_dev


def _taken(directory: str) -> int:
    try:
        with os.scandir(directory) as files:
            return sum(file.stat().st_blocks * 512 for file in files)
    except FileNotFoundError:
        return 0


def _existing(path: str) -> str:
    """The directory, or the nearest one above it that is there."""
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    return there


def _folder_of(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _may_make(path: str) -> None:
    there = _existing(path)
    if not os.path.isdir(there):
        raise NotAvailable(f"{there} is no directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise NotAvailable(f"this user may not write in {there}")


def _may_write(path: str) -> None:
    folder = _folder_of(path)
    if not os.path.isdir(folder):
        raise NotAvailable(f"there is no directory {folder}")
    if os.path.isdir(path):
        raise NotAvailable("it is a directory")
    there = path if os.path.exists(path) else folder
    if not os.access(there, os.W_OK):
        raise NotAvailable(f"this user may not write {'it' if there == path else f'in {folder}'}")


def _may_lock(path: str) -> None:
    lock = os.path.join(path, "LOCK")
    if not (_is_free(path) and _is_free(lock)):
        raise NotAvailable(f"it is in use by {_holder(lock)}")


def _is_free(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # a new log, or one whose LOCK was removed
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until it is closed below
    except BlockingIOError:
        return OWN.locks.has(fd)
    finally:
        os.close(fd)
    return True


def _holder(lock: str) -> str:
    try:
        with open(os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            pid = file.read(32).strip()
    except OSError:
        return "another process"
    return f"process {pid.decode()}" if pid.isdigit() else "another process"
