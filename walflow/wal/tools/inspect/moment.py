"""Where a log was at a time. Its stamps never go back, so it is found by search."""

from bisect import bisect_left

from walflow.wal.format import NO_STAMP, Record
from walflow.wal.tools.inspect.view import View
from walflow.wal.tools.inspect.walk import walk


def position_at(view: View, ns: int) -> int:
    """The first position that came in at `ns` (log time, since 1970) or later; behind the last one: none did. Reads
    one chunk, or a few whose first record is damaged."""
    known = [chunk for chunk in view.chunks if chunk.since_ns != NO_STAMP]
    at = bisect_left(known, ns, key=lambda chunk: chunk.since_ns)
    behind = known[at].first if at < len(known) else view.found.durable + 1
    begin = known[at - 1].first if at else view.chunks[0].first if view.chunks else behind
    for place in walk(view.directory, view.chunks, begin, behind - 1):
        if isinstance(place.found, Record) and place.found.ingest_ns >= ns:
            return place.first
    return behind
