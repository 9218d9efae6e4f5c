"""What became of positions that cannot be read any more. Their bytes are copied aside before the log goes on behind
them, with a report in JSON that a person or a script may follow up: nothing is ever given up in silence.

`quarantine/` lies beside the budget, and nothing in it is ever read or removed by the log.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from walflow.durable import DiskFolder, replace
from walflow.wal.chunk import Pages
from walflow.wal.cursor import Acked
from walflow.wal.directory import Directory

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
    """Its report has this name and .json, its bytes this and .bytes."""
    return f"{gap.first:020d}-{gap.last:020d}"


class Quarantine:
    """Its errors are OSError: the log does not depend on it."""

    def __init__(self, directory: Directory) -> None:
        self._disk = directory.disk
        self._directory = directory
        self._folder = directory.file(FOLDER)

    def report(self, gap: Gap, pages: Pages | None, **more: str) -> None:
        """Once: after a restart the same damage may be met again. `more` is added to the report."""
        name = stem(gap)
        self._disk.makedir(self._folder)
        self._disk.sync_directory(self._directory.path)  # or a power cut takes the folder, and what is in it
        if self._disk.is_file(os.path.join(self._folder, f"{name}.json")):
            self._disk.sync_directory(self._folder)  # who wrote it may have been killed before
            return
        if pages is not None and gap.size:
            self._save(f"{name}.bytes", _pieces(pages, gap.offset, gap.size))
        text = json.dumps({**gap._asdict(), **more, "reported_ns": time.time_ns()}, indent=1) + "\n"
        self._save(f"{name}.json", [text.encode()])

    def move(self, name: str) -> str:
        """A whole file, or whatever has that name, that no record can be read from. Returns where it is now."""
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
        """A crash leaves no half report that passes for one."""
        replace(DiskFolder(self._disk, self._folder), name, pieces, temporary="saving.tmp")


class Losses:
    """Positions that no sink can ever ack. They are acked here, once their bytes are kept and reported."""

    def __init__(self, directory: Directory, acked: Acked) -> None:
        self._quarantine = Quarantine(directory)
        self._acked = acked
        self.gaps: list[Gap] = []

    def add(self, gap: Gap, pages: Pages | None) -> bool:
        """False: they had been acked already, nothing is lost."""
        if gap in self.gaps:
            return True
        if self._acked.covers(gap.first, gap.last):
            return False
        self.gaps.append(gap)
        try:
            self._quarantine.report(gap, pages)
        except OSError as error:  # going on matters more than the evidence
            self.gaps[-1] = gap._replace(reason=f"{gap.reason} (not kept in {FOLDER}/: {error.strerror})")
        self._acked.add(gap.first, gap.last)
        return True


def _pieces(pages: Pages, offset: int, size: int) -> Iterator[bytes]:
    end = min(offset + size, pages.limit)
    for at in range(offset, end, PIECE):
        yield pages.read(at, min(PIECE, end - at))
