"""Reads letters and appends them once more, to go to their sink: with the bytes that they had, or mended."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from msgspec import MsgspecError

from walflow.codecs import JSON
from walflow.contract import Half
from walflow.delivery.letters.letter import LETTER, Letter, numbers_of, ranges_of
from walflow.delivery.letters.store import Going, LetterStore
from walflow.delivery.tag import Tag, Tags
from walflow.errors import DiskFull, ReadFailed, WalflowError
from walflow.event import Block, Codec, Frames
from walflow.framing import LENGTH_PREFIXED
from walflow.positions import Range
from walflow.receipt import AGAIN, Receipt
from walflow.wal import Fetch, Record
from walflow.wal.format import MAX_TAG

READ_BYTES: Final = 256 << 10
NO_ROOM: Final = "no room for what would go again: drop some letters, or raise letters_bytes"


class LetterRetry:
    """`wanted`: ascending. `mended`: JSON by number. It ends after `most` bytes. `over`: called with how many go,
    which are on disk, and why no more can."""

    def __init__(
        self,
        store: LetterStore,
        half: Half,
        wanted: Sequence[Range],
        mended: Mapping[int, bytes],
        most: int,
        over: Callable[[int, str], None],
    ) -> None:
        self._store = store
        self._half = half
        self._wanted = wanted
        self._mended = mended
        self._left = most  # bytes
        self._over = over
        self._tags = Tags()
        self._reader = store.log.reader(wanted[0][0] if wanted else 1)
        self._count = 0  # that are on disk
        self._waits = 0  # appends that are not
        self._refusal = ""
        self._read_all = not wanted

    def __repr__(self) -> str:
        return f"<LetterRetry of {self._wanted}, {self._count} go>"

    def begin(self) -> None:
        self._step()

    def refuse(self, reason: str) -> None:
        """Waits no longer. What was appended goes once it is on disk."""
        self._refusal, self._waits = reason, 0
        self._end()

    def _step(self) -> None:
        while not (self._read_all or self._refusal):
            cold = self._reader.cold(READ_BYTES)
            if cold is not None:
                self._half.scheduler.fetch(cold.run, partial(self._fetched, cold), of=self._half.name)
                return
            self._read()
        self._end()

    def _fetched(self, cold: Fetch, error: BaseException | None) -> None:
        self._reader.fetched(cold)
        if error is not None:
            self._half.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
        if not self._refusal:  # else the reader is closed
            self._read()
        self._step()

    def _read(self) -> None:
        try:
            records = self._reader.read(READ_BYTES)
        except (DiskFull, ReadFailed) as error:
            self._refusal = str(error)
            return
        for record in records:
            if self._left > 0 and not self._refusal:
                self._take(record)
        self._read_all = not records or self._left <= 0 or self._reader.position > self._wanted[-1][1]

    def _take(self, record: Record) -> None:
        last = record.position + record.count - 1
        wanted = [
            part
            for first, end in self._wanted
            if first <= last and end >= record.position
            for part in self._store.letters(max(first, record.position), min(end, last))
        ]
        if not wanted:
            return
        try:
            tag = self._tags.decode(record.tag)
        except (MsgspecError, WalflowError) as error:
            self._refusal = f"letters {record.position} to {last} cannot be decoded: {error}"
            return
        letter = Letter.of(tag.meta)
        if letter is None or letter.goes:
            return
        payloads = tag.framing.payloads(record.payload)
        for codec, numbers in self._alike(tag.codec, numbers_of(wanted)):
            events = [self._mended.get(number, payloads[number - record.position]) for number in numbers]
            metas = None
            if tag.event_metas is not None:
                metas = [tag.event_metas[number - record.position] for number in numbers]
            if not self._append(tag, codec, letter, numbers, events, metas):
                self._refusal = NO_ROOM
                return

    def _alike(self, codec: Codec, numbers: Sequence[int]) -> Iterator[tuple[Codec, list[int]]]:
        for mended, alike in groupby(numbers, self._mended.__contains__):
            yield (JSON if mended else codec), list(alike)

    def _append(
        self,
        tag: Tag,
        codec: Codec,
        letter: Letter,
        numbers: Sequence[int],
        events: Sequence[bytes],
        metas: Sequence[Mapping[str, object]] | None,
    ) -> bool:
        frames = Frames(LENGTH_PREFIXED.join(events), len(events), LENGTH_PREFIXED)
        going = letter.going(ranges_of(numbers))
        receipt = Receipt(lambda _: None, len(events), None, AGAIN)
        block = Block(
            tag.stream,
            frames,
            codec,
            receipt,
            ingest_ns=letter.ingest_ns,
            meta={**tag.meta, LETTER: going.meta()},
            event_metas=metas,
        )
        receipt.withdraw()
        encoded = self._tags.encode(block)
        if len(encoded) > MAX_TAG and len(numbers) > 1:
            half = len(numbers) // 2
            parts = [slice(0, half), slice(half, len(numbers))]
            return all(
                self._append(tag, codec, letter, numbers[part], events[part], metas[part] if metas else None)
                for part in parts
            )
        self._waits += 1
        what = Going(self._tags.decode(encoded), frames, going.again_for, self._on_disk)
        if self._store.append(encoded, frames.data, frames.count, what):
            self._left -= len(frames.data)
            return True
        self._waits -= 1
        return False

    def _on_disk(self, count: int) -> None:
        if self._waits:
            self._waits -= 1
            self._count += count
            self._end()

    def _end(self) -> None:
        if self._waits or not (self._read_all or self._refusal):
            return
        over, self._over = self._over, _told
        self._reader.close()
        over(self._count, self._refusal)


def _told(count: int, refusal: str) -> None: ...
