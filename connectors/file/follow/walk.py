"""The paths that match a pattern. It blocks: for a thread.

Links are followed, so a directory may be reached by many paths, and `**` by 2 to the power of 40 where two links lead
to their own directory. So each directory is visited once for each part of the pattern, by device and inode: first by
paths without links. A walk ends early where it is too long, or where its caller waits no more.
"""

import fnmatch
import glob
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from walflow import world
from walflow.files import DirectoryEntry
from walflow.world import monotonic

MOST_VISITS: Final = 200_000  # of directories
MOST_SECONDS: Final = 60.0


def _never() -> bool:
    return False


class Walked(NamedTuple):
    """`stopped`: why it ended early; "" if it did not."""

    paths: list[str]
    stopped: str = ""


class _Place(NamedTuple):
    """A directory, and which part of the pattern is looked for in it."""

    directory: str
    part: int


class Walk:
    """`cancelled`: its caller waits no more. `visits` and `seconds`: the most of them."""

    def __init__(
        self,
        pattern: str,
        cancelled: Callable[[], bool] = _never,
        *,
        visits: int = MOST_VISITS,
        seconds: float = MOST_SECONDS,
    ) -> None:
        self._disk = world.disk()
        self._cancelled = cancelled
        self._visits = visits
        self._seconds = seconds
        self._root, self._parts = _parts(pattern)
        self._matches = [_matching(part) for part in self._parts]
        self._seen: set[tuple[int, int, int]] = set()
        self._next: deque[_Place] = deque([_Place(self._root, 0)])
        self._links: deque[_Place] = deque()  # later: a path without links is the better name

    def __repr__(self) -> str:
        return f"<Walk of {self._root}{os.sep.join(self._parts)}, {len(self._seen)} visits>"

    def run(self) -> Walked:
        """The paths are sorted."""
        found: dict[str, None] = {}
        began = monotonic()
        while self._next or self._links:
            if self._cancelled():
                return Walked(sorted(found), "it is not wanted any more")
            if len(self._seen) >= self._visits:
                return Walked(sorted(found), f"{self._visits:,} directories were visited")
            if monotonic() - began > self._seconds:
                return Walked(sorted(found), f"it took more than {self._seconds:g} s")
            place = self._next.popleft() if self._next else self._links.popleft()
            found.update((path, None) for path in self._visit(place))
        return Walked(sorted(found))

    def _visit(self, place: _Place) -> Iterator[str]:
        directory, number = place
        if not self._is_new(place):
            return
        part = self._parts[number]
        last = number == len(self._parts) - 1
        matches = self._matches[number]
        if matches is None:
            path = directory + part
            if last:
                yield from [path] if self._is_there(path) else ()
            else:
                self._go(path, number + 1, is_link=False)
            return
        if part == "**" and not last:
            self._next.append(_Place(directory, number + 1))
        for entry in self._entries(directory):
            if matches(entry.name) is None:
                continue
            path = directory + entry.name
            if last:
                yield path
            if entry.is_directory and (part == "**" or not last):
                self._go(path, number if part == "**" else number + 1, is_link=entry.is_link)

    def _go(self, path: str, number: int, *, is_link: bool) -> None:
        (self._links if is_link else self._next).append(_Place(path + os.sep, number))

    def _is_new(self, place: _Place) -> bool:
        try:
            identity = self._disk.identity(place.directory or os.curdir)
        except OSError:
            identity = None
        if identity is None:
            return False
        key = (*identity, place.part)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _is_there(self, path: str) -> bool:
        try:
            self._disk.status(path, follow_links=False)
        except OSError:
            return False
        return True

    def _entries(self, directory: str) -> list[DirectoryEntry]:
        """Sorted. What cannot be read has none."""
        try:
            return sorted(self._disk.entries(directory or os.curdir))
        except OSError:
            return []


def walk(pattern: str, cancelled: Callable[[], bool] = _never) -> Walked:
    """A pattern without magic is a path, which need not be there."""
    if pattern.endswith(os.sep):
        return Walked([])  # directories alone
    return Walk(pattern, cancelled).run() if glob.has_magic(pattern) else Walked([pattern])


def _parts(pattern: str) -> tuple[str, list[str]]:
    """Where it begins, and what is below."""
    root = os.sep if pattern.startswith(os.sep) else ""
    parts = [part for part in pattern.split(os.sep) if part]
    return root, [part for at, part in enumerate(parts) if not (part == "**" and parts[at - 1 : at] == ["**"])]


def _matching(part: str) -> Callable[[str], re.Match[str] | None] | None:
    """None: the part is a name. As in a shell, `*` and `**` match no name that begins with a dot."""
    if not glob.has_magic(part):
        return None
    hidden = "" if part.startswith(".") else r"(?!\.)"
    return re.compile(hidden + fnmatch.translate("*" if part == "**" else part)).match
