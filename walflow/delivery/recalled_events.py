"""What a log still has of the events of a source, by a value in their metadata."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from msgspec import MsgspecError

from walflow.contract import Inlet, Outlet, Recalled
from walflow.delivery.tag import metas_of, plain
from walflow.errors import FailStop
from walflow.wal import Log, Record

RECALL_BYTES: Final = 64 << 20  # of the newest chunks; what a source has sent and not heard of is far less
READ_BYTES: Final = 1 << 20  # asked of the log at a time
MOST: Final = 100_000  # of each source

Wanted = Mapping[str, tuple[str, str]]


class Recalling:
    """Tells the sources of a log what it has of theirs, before it takes events: so before they may send any."""

    def __init__(self, log: Log, inlet: Inlet) -> None:
        self._log = log
        self._inlet = inlet
        self._wanted = inlet.upstream.recalled_by
        self._found: Mapping[str, Sequence[Recalled]] = {}

    def __repr__(self) -> str:
        return f"<Recalling of {self._log!r} for {list(self._wanted)}>"

    @property
    def needed(self) -> bool:
        return bool(self._wanted and self._log.recovery.backlog)

    def read(self) -> None:
        """Blocks: for a thread. Raises DiskFull, ReadFailed and FailStop."""
        self._found = recall(self._log, self._wanted)

    def tell(self, out: Outlet, error: BaseException | None) -> None:
        """Tells the sources what `read` has found, or logs its error. A disk that has failed ends the process."""
        if isinstance(error, FailStop):
            out.fatal(error)
        if error is not None:
            out.log.warning("not recalled for its sources", reason=str(error))
        for source, events in self._found.items():
            self._inlet.remember(source, events)


def recall(log: Log, wanted: Wanted) -> Mapping[str, Sequence[Recalled]]:
    """Blocks: for a thread. Of the records that are not acked, and that no power cut can take. `wanted`: by source,
    the two keys of the value. Raises DiskFull and FailStop."""
    found: dict[str, deque[Recalled]] = {source: deque(maxlen=MOST) for source in wanted}
    marks = [keys[1].encode() for keys in wanted.values()]
    reader = log.reader(log.newest(RECALL_BYTES))
    try:
        while records := reader.read(READ_BYTES):
            for record in records:
                if log.unsafe_from is not None and record.position >= log.unsafe_from:
                    return found
                if _has_one_of(marks, record.tag):
                    for source, recalled in _values(record, wanted):
                        found[source].append(recalled)
    finally:
        reader.close()
    return found


def _has_one_of(marks: Sequence[bytes], tag: bytes) -> bool:
    try:
        tag = plain(tag)
    except MsgspecError:  # the source half of the log says so, when it comes to it
        return False
    return any(mark in tag for mark in marks)


def _values(record: Record, wanted: Wanted) -> Iterator[tuple[str, Recalled]]:
    try:
        source, meta, event_metas = metas_of(record.tag)
    except MsgspecError:
        return
    keys = wanted.get(source)
    if keys is None:
        return
    if event_metas is None:
        if (value := _value(meta, keys)) is not None:
            yield source, Recalled(value, record.count, record.ingest_ns)
        return
    for one in event_metas:
        if (value := _value({**meta, **one}, keys)) is not None:
            yield source, Recalled(value, 1, record.ingest_ns)


def _value(meta: Mapping[str, object], keys: tuple[str, str]) -> object:
    within = meta.get(keys[0])
    return cast(Mapping[str, object], within).get(keys[1]) if isinstance(within, dict) else None
