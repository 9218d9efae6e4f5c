"""Reads what a log has, acked or not, beside the process that uses it. Nothing of the log changes, and none of it is
locked: what the other process deletes meanwhile is a gap."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from walflow.disk import Stat
from walflow.log_place import Place, first_position, last_position
from walflow.wal import Gap, Record
from walflow.wal.tools.inspect import View, look, position_at, records
from walflow.world import disk

NO_LONGER: Final = "not kept any more when this began"


class RecordFeed:
    """`begin`, `last`: where it begins and ends; None: with the oldest event that is kept, with the newest one that
    is there when it begins. `follow`: it never ends.

    Once it is open: `log`, its id; `next`: the position that it reads next; `first` and `end`: the first and the last
    one that are wanted, as far as is known. Its calls may come from any thread, one at a time. They raise Unusable
    for what is no log, and ReadFailed."""

    def __init__(self, path: str, begin: Place | None, last: Place | None, *, follow: bool) -> None:
        self.log = ""
        self.first = 0
        self.next = 0
        self.end = 0
        self.ended = False
        self._path = path
        self._begins = begin
        self._last = last
        self._follow = follow
        self._disk = disk()
        self._records: Iterator[Record | Gap] = iter(())
        self._tail = path  # the file that is written to
        self._seen: Sequence[Stat | str | None] = ()
        self._seen_twice = False

    def __repr__(self) -> str:
        return f"<RecordFeed of {self._path} at {self.next}>"

    @property
    def waits(self) -> bool:
        """It follows, and has read all that is there."""
        return not self.ended and self.next > self.end

    def open(self) -> list[Gap]:
        """Finds its places. What is not kept any more is a gap."""
        view = self._look()
        at = partial(position_at, view)
        self.next = _oldest(view) if self._begins is None else first_position(self._begins, at)
        self.first, self.log = self.next, view.found.uuid.hex()
        last = view.found.durable
        return self._begin(view, last if self._last is None else min(last, last_position(self._last, at)))

    def read(self, most: int) -> list[Record | Gap]:
        """At least one, then no more after `most` bytes. A record at an end of what is wanted comes whole. Empty:
        there is no more now; if it has `ended`, never."""
        found: list[Record | Gap] = []
        size = 0
        while size < most:
            one = next(self._records, None)
            if one is None:
                if not self._goes_on(found):
                    break
                continue
            last = one.last if isinstance(one, Gap) else one.position + one.count - 1
            self.next = last + 1
            size += 0 if isinstance(one, Gap) else len(one.payload)
            found.append(one)
        return found

    def close(self) -> None:
        """The file that it reads. Nothing is read any more."""
        self._records = iter(())

    def _goes_on(self, found: list[Record | Gap]) -> bool:
        """With what has come since it looked. What is gone meanwhile is a gap."""
        self.close()
        self.ended = not self._follow
        if self.ended or self._is_still():
            return False
        before, view = self.end, self._look()
        found += self._begin(view, view.found.durable)
        return self.end > before

    def _is_still(self) -> bool:
        """Nothing was written since the last two looks. One is not enough: what is written a moment after it may have
        the same time. A file system's clock has steps of some milliseconds."""
        files = self._tail, os.path.join(self._path, "cursor")  # which alone tells of a file that came and went
        now = *map(self._disk.look, files), *self._disk.names(self._path)
        same = now == self._seen
        if same and self._seen_twice:
            return True
        self._seen, self._seen_twice = now, same
        return False

    def _look(self) -> View:
        view = look(self._path, self._disk)
        if view.chunks:
            self._tail = view.directory.file(view.chunks[-1].name)
        return view

    def _begin(self, view: View, end: int) -> list[Gap]:
        gone = min(_oldest(view) - 1, end)
        missed = [Gap(self.next, gone, "", 0, 0, NO_LONGER)] if self.next <= gone else []
        self.next = max(self.next, gone + 1)
        self.end = max(end, self.next - 1)
        self._records = records(view, self.next, self.end)
        return missed


def _oldest(view: View) -> int:
    return view.chunks[0].first if view.chunks else view.found.durable + 1
