"""The file `consumers`, of a log that Spark reads: how far each of its queries is. Two slots, written in turn,
with all their bytes from the start on. So a commit, after which a chunk is deleted, needs no new block, also on
a full disk.

A slot is one line of JSON and one with its checksum:

    {"log": "…", "generation": 7, "consumers": {"spark": {"position": 120, "time_ns": …, "peer": "127.0.0.1:4000",
    "scan": "…"}}} crc32 1a2b3c4d

Before it had slots, the file was these two lines, without a generation. That is a first slot, and is read as one.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Final

from walflow.durable import replace_and_keep
from walflow.errors import DiskFull
from walflow.wal.directory import Directory

CONSUMERS: Final = "consumers"
SLOT: Final = 256 << 10

Fields = Mapping[str, Mapping[str, object]]


class ConsumerFile:
    def __init__(self, directory: Directory, log: str) -> None:
        self._directory = directory
        self._log = log
        self._generation = 0
        self._fd = -1
        self._has_slots = False

    def read(self) -> Fields:
        """What the sound slot with the highest generation says; nothing if there is no file. It is synced when this
        returns. Raises ValueError if no slot is sound, or it is of another log; DiskFull, FailStop, ReadFailed."""
        directory = self._directory
        if CONSUMERS not in directory.disk.names(directory.path):
            return {}
        self._fd = directory.open(CONSUMERS)
        self._has_slots = directory.disk.stat(self._fd).size >= 2 * SLOT
        found = [_unpack(directory.read(CONSUMERS, self._fd, SLOT, at)) for at in (0, SLOT)]
        generation, fields = max(found, key=lambda slot: slot[0])
        if generation < 0:
            raise ValueError("damaged: its checksum is wrong")
        if fields["log"] != self._log:
            raise ValueError("of another log")
        self._generation = generation
        directory.sync(
            CONSUMERS, self._fd
        )  # who wrote it may have died before, and the next write is to the other slot
        consumers: Fields = fields["consumers"]  # type: ignore[assignment]
        return consumers

    def fits(self, consumers: Fields) -> bool:
        return len(self._text(consumers)) <= SLOT

    def write(self, consumers: Fields) -> None:
        """Durable when it returns. Raises DiskFull, if the file has no slots yet and there is no room for them, or
        the file system copies on write; FailStop."""
        text = self._text(consumers)
        if not self._has_slots:
            self._make(text)
        else:
            self._directory.write(CONSUMERS, self._fd, [text], (self._generation + 1) % 2 * SLOT)
            self._directory.sync(CONSUMERS, self._fd)
        self._generation += (
            1  # not before: a write that failed is tried again in the same place, and the other slot stays sound
        )

    def make_slots(self, consumers: Fields) -> None:
        """If it has none, and there is room. Raises FailStop."""
        if not self._has_slots:
            try:
                self.write(consumers)
            except DiskFull:  # the next write tries it again
                return

    def close(self) -> None:
        if self._fd >= 0:
            self._directory.close(self._fd)
            self._fd = -1

    def _make(self, text: bytes) -> None:
        empty = bytes(SLOT)
        slots = (
            [text.ljust(SLOT, b"\0"), empty] if (self._generation + 1) % 2 == 0 else [empty, text.ljust(SLOT, b"\0")]
        )
        fd = replace_and_keep(self._directory, CONSUMERS, slots)
        self.close()
        self._fd = fd
        self._has_slots = True

    def _text(self, consumers: Fields) -> bytes:
        fields = {"log": self._log, "generation": self._generation + 1, "consumers": consumers}
        line = json.dumps(fields).encode() + b"\n"
        return line + b"crc32 %08x\n" % zlib.crc32(line)


def _unpack(data: bytes) -> tuple[int, Mapping[str, object]]:
    """The generation; -1 if the slot is not sound."""
    line, _, rest = data.partition(b"\n")
    if not line or not rest.startswith(b"crc32 %08x\n" % zlib.crc32(line + b"\n")):
        return -1, {}
    fields: dict[str, object] = json.loads(line)
    generation = fields.get("generation", 0)
    return generation if isinstance(generation, int) else -1, fields
