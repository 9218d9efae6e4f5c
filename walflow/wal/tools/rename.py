"""Gives the mark of a sink another name, because the sink has another name in the flow file.
The log must not be in use."""

from walflow import world
from walflow.disk import Disk
from walflow.errors import WalflowError
from walflow.wal.directory import Directory
from walflow.wal.mark_file import MAGIC, NAME
from walflow.wal.slot_file import SlotFile
from walflow.wal.trail import OPEN, Trail


class CannotRename(WalflowError):
    """There is no mark of the old name, or there is one of the new name."""


def rename(path: str, uuid: bytes, old: str, new: str, disk: Disk | None = None) -> None:
    """The other slot gets all marks, one of them under its new name. A crash before leaves the old name. Raises
    CannotRename, DiskFull or FailStop."""
    directory = Directory(path, disk or world.disk())
    file = SlotFile(directory, uuid, NAME, MAGIC)
    try:
        stored = file.read()
        if old not in stored:
            known = f"it has marks of {', '.join(stored)}" if stored else "it has no marks"
            raise CannotRename(f"the log has no mark of {old!r}: {known}")
        if new in stored:
            raise CannotRename(f"the log has a mark of {new!r} already")
        file.save({new if name == old else name: mark for name, mark in stored.items()}).flush()
        _rename_in_trail(Trail(directory, uuid, world.clocks()), old, new)
    finally:
        file.close()


def _rename_in_trail(trail: Trail, old: str, new: str) -> None:
    """After the marks: without it, it says that another sink was linked."""
    try:
        trail.read(OPEN - 1)
        trail.rename(old, new)
        save = trail.save()
        if save is not None:
            save.flush()
    finally:
        trail.close()
