"""Which batch of each query was published last, and the one that is being published: one file, replaced as a whole.

walflow publications 1 <crc32 of the next line, hex>
{"queries":{<query>:[<batch>,<rows>],…},"intent":[<query>,<batch>,<log>,<first>,[[<stage>,<rows>,<bytes>],…]]|null}
"""

import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from connectors.spark.results.staging import Staged
from walflow.files import replace
from walflow.wal import Directory

FILE: Final = "publications"
TITLE: Final = b"walflow publications 1 "
ONCE: Final = "write-"  # queries of one batch: `df.write` has no other
KEPT: Final = 10_000  # queries remembered
KEPT_ONCE: Final = 1_000  # of those with one batch: to know the driver's second try is all they are for


class Published(NamedTuple):
    batch: int
    rows: int


class PublishIntent(NamedTuple):
    """The stages `staged` are being appended to `log`, in this order. The first row gets position `first`."""

    query: str
    batch: int
    log: str
    first: int
    staged: tuple[Staged, ...]

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.staged]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.staged)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.staged)


class _State(msgspec.Struct):
    queries: dict[str, Published]
    intent: PublishIntent | None


class Publications:
    """`save` and `load` block. The state in memory is the one that was saved last."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._queries: dict[str, Published] = {}  # the one published longest ago first
        self.intent: PublishIntent | None = None

    def __repr__(self) -> str:
        return f"<Publications of {len(self._queries)} queries, in hand: {self.intent}>"

    def last(self, query: str) -> Published | None:
        return self._queries.get(query)

    def load(self) -> str:
        """Loads the file. Returns a line about its damage, or "". A damaged file is moved aside, and it is then
        unknown what was published. Raises OSError."""
        directory = self._directory
        names = directory.disk.names(directory.path)
        if f"{FILE}.tmp" in names:
            directory.disk.unlink(directory.file(f"{FILE}.tmp"))
        if FILE not in names:
            return ""
        fd = directory.disk.open(directory.file(FILE))
        try:
            data = directory.disk.read(fd, directory.disk.stat(fd).size, 0)
        finally:
            directory.disk.close(fd)
        state = _unpack(data)
        if state is None:
            directory.rename(FILE, f"{FILE}.damaged")
            directory.sync_names()
            return f"{directory.file(FILE)} was damaged and is now {FILE}.damaged: a batch may be published again"
        self._queries, self.intent = state.queries, state.intent
        return ""

    def begin(self, intent: PublishIntent) -> None:
        """Writes the intent. Raises DiskFull (nothing has begun) or FailStop."""
        self._save(self._queries, intent)

    def end(self) -> None:
        """Writes that the batch is published. Raises DiskFull (call it again later) or FailStop."""
        intent = self.intent
        assert intent is not None
        queries = {query: last for query, last in self._queries.items() if query != intent.query}
        queries[intent.query] = Published(intent.batch, intent.rows)
        self._save(_bounded(queries), None)

    def forget(self) -> None:
        """Removes an intent that cannot be completed. Raises as `end`."""
        self._save(self._queries, None)

    def _save(self, queries: dict[str, Published], intent: PublishIntent | None) -> None:
        replace(self._directory, FILE, [_pack(queries, intent)])
        self._queries, self.intent = queries, intent


def _pack(queries: Mapping[str, Published], intent: PublishIntent | None) -> bytes:
    body = msgspec.json.encode(_State(dict(queries), intent))
    return TITLE + b"%08x\n" % zlib.crc32(body) + body + b"\n"


def _unpack(data: bytes) -> _State | None:
    title, _, body = data.partition(b"\n")
    body = body.removesuffix(b"\n")
    if title != TITLE + b"%08x" % zlib.crc32(body):
        return None
    try:
        return msgspec.json.decode(body, type=_State)
    except msgspec.DecodeError:
        return None


def _bounded(queries: dict[str, Published]) -> dict[str, Published]:
    once = [query for query in queries if query.startswith(ONCE)]
    lasting = [query for query in queries if not query.startswith(ONCE)]
    kept = {*once[-KEPT_ONCE:], *lasting[-KEPT:]}
    return {query: last for query, last in queries.items() if query in kept}
