"""Which files there are now, and what that changes. Everything here blocks, or decides; nothing needs a loop."""

import fnmatch
import glob
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from connectors.file.file_source import ALGORITHMS
from connectors.file.follow.walk import Walked, walk
from walflow import world
from walflow.files import Stat

Walker = Callable[[str], Walked]
Identity = tuple[int, int]  # device, inode


class NamedFile(NamedTuple):
    """A regular file that has the name."""

    path: str
    identity: Identity
    size: int
    changed_ns: int  # when it was written to last


class FilesNow(NamedTuple):
    """`refused`: paths that match and cannot be followed, with the reason."""

    files: list[NamedFile]
    refused: dict[str, str]


class Changes(NamedTuple):
    """Against the files that are known. `gone`: no name that matches leads to them any more."""

    new: list[NamedFile]
    still: list[NamedFile]
    gone: list[Identity]


def scan(pattern: str, known: Iterable[str] = (), find: Walker = walk) -> FilesNow:
    """Links are followed. Of several names of one file the first one counts. `known`: the paths of files that are
    looked for also where the walk ended early."""
    files: dict[Identity, NamedFile] = {}
    refused: dict[str, str] = {}
    disk = world.disk()
    names, stopped = find(pattern)
    if stopped:
        refused[pattern] = f"the search for files ended early: {stopped}. Files behind that are not found"
        names = sorted({*names, *known})
    for path in names:
        try:
            found = disk.status(path)
        except FileNotFoundError:
            continue  # removed meanwhile, or a link to nothing
        except OSError as error:
            refused[path] = error.strerror or str(error)
            continue
        if found.is_file and path.endswith(".bz2"):
            refused[path] = f"it is compressed by bzip2; what ends in {', '.join(ALGORITHMS)} can be read"
        elif found.is_file:
            files.setdefault(found.identity, NamedFile(path, found.identity, found.size, found.changed_ns))
        elif not (found.is_directory and glob.has_magic(pattern)):  # `*` matches directories, as in a shell
            refused[path] = f"it is {_kind(found)}, which does not grow as a file does"
    return FilesNow(list(files.values()), refused)


def fixed_part(pattern: str) -> str:
    """The directory that must be there: the one before the first part with a pattern."""
    parts = os.path.dirname(os.path.abspath(pattern)).split(os.sep)
    number = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return os.sep.join(parts[:number]) or os.sep


def leads_to(pattern: str, directory: str) -> bool:
    """Whether files in this directory could match."""
    pattern, directory = os.path.abspath(pattern), os.path.abspath(directory)
    folders = os.path.dirname(pattern).split(os.sep)
    places = directory.split(os.sep)
    for number, folder in enumerate(folders):
        if folder == "**":
            return True
        if number >= len(places) or not fnmatch.fnmatchcase(places[number], folder):
            return False
    return len(folders) == len(places)


def _kind(found: Stat) -> str:
    if found.is_directory:
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(found.mode) else "a device or a socket"


def compare(known: Iterable[Identity], found: Iterable[NamedFile]) -> Changes:
    here = {each.identity: each for each in found}
    before = set(known)
    return Changes(
        [each for each in here.values() if each.identity not in before],
        [each for each in here.values() if each.identity in before],
        [identity for identity in before if identity not in here],
    )


def find_again(wanted: Mapping[Identity, str]) -> dict[Identity, str]:
    """Where files are now that had these paths: under another name, each in its directory."""
    directories: dict[str, dict[int, Identity]] = {}
    for identity, path in wanted.items():
        directories.setdefault(os.path.dirname(path) or ".", {})[identity[1]] = identity
    disk = world.disk()
    found: dict[Identity, str] = {}
    for directory, inodes in directories.items():
        try:
            for entry in disk.entries(directory):
                sought = inodes.get(entry.inode)
                path = os.path.join(directory, entry.name)
                if sought is not None and entry.is_file and disk.identity(path) == sought:
                    found[sought] = path
        except OSError:
            continue  # the directory is gone, or this file has just gone
    return found


def shown(path: str) -> str:
    """A name may have bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "replace")
