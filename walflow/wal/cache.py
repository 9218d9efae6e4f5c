"""The records that were appended last, as the very objects that were appended, so that what is read soon after is
neither read from disk nor copied. A reader that lags reads the disk until it has caught up."""

from collections import OrderedDict
from typing import Final

from walflow.wal.commit import Entry

OVERHEAD: Final = 400  # bytes that the objects around one record take


class Cache:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[int, Entry] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Cache of {len(self._entries)} records, {self._bytes} bytes>"

    @property
    def bytes(self) -> int:
        return self._bytes

    def put(self, entries: list[Entry]) -> None:
        known = self._entries
        for entry in entries:
            record = entry[0]
            known[record.position] = entry
            self._bytes += len(record.tag) + len(record.payload) + OVERHEAD
        while self._bytes > self._max_bytes:
            self._forget(known.popitem(last=False)[1])

    def take(self, position: int) -> Entry | None:
        """The record that begins there. It leaves the cache: what is read once is rarely read again."""
        entry = self._entries.pop(position, None)
        if entry is not None:
            self._forget(entry)
        return entry

    def _forget(self, entry: Entry) -> None:
        record = entry[0]
        self._bytes -= len(record.tag) + len(record.payload) + OVERHEAD
