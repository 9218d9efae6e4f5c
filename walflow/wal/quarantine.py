"""Positions that cannot be read any more.

Their bytes are copied before the log continues after them, with a report in JSON for a person or a script. So no
event is lost silently. `quarantine/` does not count in the budget, and the log never reads or removes anything in it.
"""

import json
import os
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from walflow.durable import DiskFolder, replace
from walflow.wal.chunk import Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory
from walflow.world import wall_ns

FOLDER: Final = "quarantine"
PIECE: Final = 1 << 20


class Gap(NamedTuple):
    """Positions `first` to `last`, both included, are lost. `file` is empty where no bytes of them were found."""

    first: int
    last: int
    file: str
    offset: int
    size: int
    reason: str

    def __str__(self) -> str:
        where = f" in {self.file} at {self.offset}, {self.size} bytes" if self.file else ""
        return f"positions {self.first} to {self.last} are lost: {self.reason}{where}"


def stem(gap: Gap) -> str:
    """The file name of the report is this and .json, of the bytes this and .bytes."""
    return f"{gap.first:020d}-{gap.last:020d}"


class Quarantine:
    """Its errors are OSError, because the log works without it."""

    def __init__(self, directory: Directory) -> None:
        self._disk = directory.disk
        self._directory = directory
        self._folder = directory.file(FOLDER)

    def report(self, gap: Gap, pages: Pages | None, **more: str) -> None:
        """Writes the report once: after a restart the same damage may be found again.
        `more` is added to the report."""
        name = stem(gap)
        self._disk.makedir(self._folder)
        self._disk.sync_directory(self._directory.path)  # or a power cut takes the folder, and what is in it
        if self._disk.is_file(os.path.join(self._folder, f"{name}.json")):
            self._disk.sync_directory(self._folder)  # who wrote it may have been killed before
            return
        if pages is not None and gap.size:
            self._save(f"{name}.bytes", _pieces(pages, gap.offset, gap.size))
        text = json.dumps({**gap._asdict(), **more, "reported_ns": wall_ns()}, indent=1) + "\n"
        self._save(f"{name}.json", [text.encode()])

    def move(self, name: str) -> str:
        """Moves a file, or anything else of that name, from which no record can be read. Returns its new place."""
        self._disk.makedir(self._folder)
        self._disk.sync_directory(self._directory.path)  # before a name goes from there: as in `report`
        taken = self._disk.names(self._folder)
        target, number = name, 0
        while target in taken:
            number += 1
            target = f"{name}.{number}"
        self._disk.rename(self._directory.file(name), os.path.join(self._folder, target))
        self._disk.sync_directory(self._folder)
        self._disk.sync_directory(self._directory.path)
        return f"{FOLDER}/{target}"

    def _save(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes a file so that a crash never leaves half of it under its name."""
        replace(DiskFolder(self._disk, self._folder), name, pieces, temporary="saving.tmp")


class Losses:
    """Positions that no sink can ever ack. They are acked here, when their bytes are kept and reported."""

    def __init__(self, directory: Directory, acked: Acked) -> None:
        self._quarantine = Quarantine(directory)
        self._acked = acked
        self.gaps: list[Gap] = []

    def add(self, gap: Gap, pages: Pages | None) -> bool:
        """False: they were acked already, so nothing is lost. Raises ReadFailed if the bytes cannot be copied now:
        then nothing is given up."""
        if gap in self.gaps:
            return True
        if self._acked.covers(gap.first, gap.last):
            return False
        try:
            self._quarantine.report(gap, pages)
        except OSError as error:  # going on matters more than the evidence
            gap = gap._replace(reason=f"{gap.reason} (not kept in {FOLDER}/: {error.strerror})")
        self.gaps.append(gap)
        self._acked.add(gap.first, gap.last)
        return True


def _pieces(pages: Pages, offset: int, size: int) -> Iterator[bytes]:
    end = min(offset + size, pages.limit)
    for at in range(offset, end, PIECE):
        piece = pages.read(at, min(PIECE, end - at))
        pages.check(at, len(piece))
        yield piece
