"""Shared by connectors that keep files: a disk, what is replaced or locked there, compressed members, jobs
of a thread, and what a start needs."""

from walflow.disk import DirectoryEntry, Disk, Landed, RealDisk, Stat
from walflow.durable import DiskFolder, replace, replace_and_keep
from walflow.framing.compression import FILE_WINDOW_BITS, Corrupt, Members
from walflow.lock import HeldDirectory, LockFile
from walflow.log_thread import error_on_thread, read_on_thread
from walflow.needs import directory, made_directory, readable_file, room, unlocked, writable_file

__all__ = [
    "FILE_WINDOW_BITS",
    "Corrupt",
    "DirectoryEntry",
    "Disk",
    "DiskFolder",
    "HeldDirectory",
    "Landed",
    "LockFile",
    "Members",
    "RealDisk",
    "Stat",
    "directory",
    "error_on_thread",
    "made_directory",
    "read_on_thread",
    "readable_file",
    "replace",
    "replace_and_keep",
    "room",
    "unlocked",
    "writable_file",
]
