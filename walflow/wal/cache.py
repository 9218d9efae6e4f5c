"""The newest records, as the objects that were appended. So a record that is read soon after is neither read from
disk nor copied. A reader that lags behind reads from disk until it has caught up."""

from collections import OrderedDict
from typing import Final

from walflow.wal.commit import Entry

OVERHEAD: Final = 400  # bytes that the objects around one record take


class Cache:
    """`shared`: several readers want the same records. Then they stay until newer ones need their room."""

    def __init__(self, max_bytes: int) -> None:
        self.shared = False
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[int, Entry] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Cache of {len(self._entries)} records, {self._bytes} bytes>"

    @property
    def bytes(self) -> int:
        return self._bytes

    def __contains__(self, position: int) -> bool:
        """Whether it has the record that begins there."""
        return position in self._entries

    def put(self, entries: list[Entry]) -> None:
        known = self._entries
        for entry in entries:
            record = entry[0]
            known[record.position] = entry
            self._bytes += len(record.tag) + len(record.payload) + OVERHEAD
        while self._bytes > self._max_bytes:
            self._forget(known.popitem(last=False)[1])

    def take(self, position: int) -> Entry | None:
        """Returns the record that begins there.
        Unless it is shared, it is removed, because a record is rarely read twice."""
        if self.shared:
            return self._entries.get(position)
        entry = self._entries.pop(position, None)
        if entry is not None:
            self._forget(entry)
        return entry

    def _forget(self, entry: Entry) -> None:
        record = entry[0]
        self._bytes -= len(record.tag) + len(record.payload) + OVERHEAD
