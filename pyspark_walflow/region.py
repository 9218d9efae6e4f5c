"""One block of rows through one compiled region: judged, decoded and run together, as the daemon does."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute

from walflow_kernel import json, sound
from walflow_kernel.errors import NotJson
from walflow_kernel.moment import Moment
from walflow_kernel.projection import event_decoder
from walflow_kernel.shipped import Revived, Shipped, revive
from walflow_kernel.state import Room, State
from walflow_kernel.values import is_record
from walflow_kernel.weight import UNWEIGHED

Column = Any  # pyarrow's stubs know an array by its type, which is what is found out here
MOST_KNOWN: Final = 4096  # metadata remembered: rows of one source share it

_arrow: Any = pa
_compute: Any = pyarrow.compute


Refused = tuple[int, str, int]


class RefusedRow(NamedTuple):
    number: int
    reason: str
    at: str | None = None
    text: str | None = None  # where the event is no JSON


@dataclass
class RowBlock:
    """Of one batch and one input port. `lines`: the texts, if each is one line, one behind the other."""

    values: Column
    positions: Sequence[int]
    times: Sequence[int]
    metas: Sequence[str | None]
    lines: bytes | None = None
    refused: list[RefusedRow] = field(default_factory=list[RefusedRow])
    _payloads: Sequence[bytes | None] | None = None

    @property
    def payloads(self) -> Sequence[bytes | None]:
        if self._payloads is None:
            lines, values = self.lines, self.values
            self._payloads = values.cast(pa.binary()).to_pylist() if lines is None else lines.split(b"\n")[:-1]
        assert self._payloads is not None
        return self._payloads

    @cached_property
    def has_large(self) -> bool:
        """Whether one of them is so large that what is made of it is weighed."""
        longest = _compute.max(_compute.binary_length(self.values)).as_py() if len(self.values) else None
        return longest is not None and longest > UNWEIGHED

    def payload(self, number: int) -> bytes:
        return self.payloads[number] or b""

    def kept(self, number: int) -> object:
        return json.raw(self.payload(number).replace(b"\n", b" "))


class LeavingRows(NamedTuple):
    """What leaves by one exit. `values` is None for events as they came, `metas` for metadata as it came."""

    numbers: Sequence[int]
    values: Sequence[object] | None
    metas: Sequence[str | None] | None
    repeats: bool


class EventsRead(NamedTuple):
    """The events that could be decoded. `events` may have no end. `metas`: of all rows;
    None where nothing is read of them."""

    numbers: Sequence[int]
    events: Iterable[object]
    metas: Sequence[object] | None


class BlockRunner:
    def __init__(self, revived: Revived, salt: int) -> None:
        self.shipped: Shipped = revived.shipped
        self._run = revived.run
        self._salt = salt
        self._known: dict[str | None, Mapping[str, object]] = {}
        self._quick: Callable[[bytes], object] | None = None
        self._lines: Callable[[bytes], Sequence[object]] | None = None
        decoder = event_decoder(revived.kind) if self.shipped.reads else None
        if decoder is not None:
            self._quick = None if revived.kind is None else decoder.one
            self._lines = decoder.lines

    @property
    def asks(self) -> bool:
        return self.shipped.asks

    @property
    def draws(self) -> bool:
        return self.shipped.draws

    @property
    def reads_meta(self) -> bool:
        return self.shipped.reads_meta

    @cached_property
    def _weighing(self) -> "BlockRunner | None":
        weighing = self.shipped.weighing
        return None if weighing is None else BlockRunner(revive(weighing), self._salt)

    def _of_large(self, rows: RowBlock) -> "BlockRunner | None":
        return self._weighing if rows.has_large else None

    def read(self, rows: RowBlock) -> EventsRead:
        """What is refused of them is in `rows.refused`."""
        if (weighing := self._of_large(rows)) is not None:
            return weighing.read(rows)
        numbers = _judged(rows)
        metas = self._metas(rows)
        if metas is not None and None in metas:
            numbers = [number for number in numbers if metas[number] is not None]
            rows.lines = None  # some of them are not to be decoded
        numbers, events = self._decoded(rows, numbers)
        return EventsRead(numbers, events, metas)

    def run(self, rows: RowBlock) -> Mapping[str, LeavingRows]:
        if (weighing := self._of_large(rows)) is not None:
            return weighing.run(rows)
        numbers, events, metas = self.read(rows)
        try:
            found = self._blocks(rows, numbers, events, metas)
        except Exception:  # noqa: BLE001 - a mistake of walflow's is an error of its event, and of no other
            found = self._one_by_one(rows, numbers, metas)
        exits = zip(self.shipped.exits, found, strict=True)
        return {exit: self._held(rows, exit, *one) for exit, one in exits if len(one[0])}

    def _blocks(
        self, rows: RowBlock, numbers: Sequence[int], events: Iterable[object], metas: Sequence[object] | None
    ) -> list[Any]:
        if not self.shipped.asks:
            return self._block(rows, numbers, events, metas, 0)
        read = EventsRead(numbers, events, metas)
        parts = [
            self._block(rows, some.numbers, some.events, metas, time)
            for time, some in self.at_times(rows, read, timed=True)
        ]
        return [_joined(each) for each in zip(*parts, strict=True)] if parts else self._nothing()

    def at_times(self, rows: RowBlock, read: EventsRead, *, timed: bool) -> Iterator[tuple[int, EventsRead]]:
        """The events of each time, with the time. Together where they ask for none."""
        if not timed:
            yield 0, read
            return
        paired = zip(read.numbers, read.events, strict=False)  # `events` may have no end
        for time, pairs in groupby(paired, lambda pair: rows.times[pair[0]]):
            some = list(pairs)
            yield time, EventsRead([number for number, _ in some], [event for _, event in some], read.metas)

    def _nothing(self) -> list[Any]:
        return [([], None, None) for _ in self.shipped.exits]

    def _block(
        self,
        rows: RowBlock,
        numbers: Sequence[int],
        events: Iterable[object],
        metas: Sequence[object] | None,
        time: int,
    ) -> list[Any]:
        found, refused = self.call(rows, EventsRead(numbers, events, metas), time, None, None, flush=False)
        rows.refused += [RefusedRow(number, reason, self.shipped.place(line)) for number, reason, line in refused]
        return found

    def call(
        self, rows: RowBlock, read: EventsRead, time: int, state: State | None, room: Room | None, *, flush: bool
    ) -> tuple[list[Any], Sequence[Refused]]:
        """What leaves by each exit, and what is refused: the number of the event, the reason,
        the line of the source, as `Shipped.place` takes it."""
        if (weighing := self._of_large(rows)) is not None:
            found, refused = weighing.call(rows, read, time, state, room, flush=flush)
            return found, [(number, reason, -line) for number, reason, line in refused]
        moment = Moment(time, self._salt)
        found, refused, _ = self._run(
            read.numbers, read.events, moment, rows.positions, {}, read.metas, rows.kept, state, room, flush
        )
        return list(found), refused

    def _one_by_one(self, rows: RowBlock, numbers: Sequence[int], metas: Sequence[object] | None) -> list[Any]:
        before = list(rows.refused)
        parts: list[list[Any]] = []
        for number in numbers:
            time = rows.times[number] if self.shipped.asks else 0
            at, events = self._each(rows, [number])
            try:
                parts.append(self._block(rows, at, events, metas, time))
            except Exception as error:  # noqa: BLE001 - see above
                before.append(RefusedRow(number, f"internal error: {type(error).__name__}: {error}"))
        rows.refused += [one for one in before if one not in rows.refused]
        return [_joined(each) for each in zip(*parts, strict=True)] if parts else self._nothing()

    def _decoded(self, rows: RowBlock, numbers: Sequence[int]) -> tuple[Sequence[int], Iterable[object]]:
        if not self.shipped.reads:
            return numbers, repeat(None)
        if rows.lines is not None and self._lines is not None:
            try:
                events = self._lines(rows.lines)
                if len(events) == len(numbers):
                    return numbers, events
            except (ValueError, RecursionError):
                pass  # one of them wants a closer look
        return self._each(rows, numbers)

    def _each(self, rows: RowBlock, numbers: Sequence[int]) -> tuple[Sequence[int], Iterable[object]]:
        if not self.shipped.reads:
            return numbers, repeat(None)
        decoded: list[int] = []
        events: list[object] = []
        for number in numbers:
            payload = rows.payload(number)
            try:
                events.append(self._event(payload))
                decoded.append(number)
            except NotJson as error:  # sound, and yet more than can be worked with
                rows.refused.append(RefusedRow(number, f"not JSON: {error}"))
        return decoded, events

    def _event(self, payload: bytes) -> object:
        if self._quick is not None:
            try:
                return self._quick(payload)
            except (ValueError, RecursionError):
                pass
        return json.value(payload)

    def _metas(self, rows: RowBlock) -> Sequence[Mapping[str, object] | None] | None:
        """None for one that is no JSON, which is refused."""
        if not self.shipped.reads_meta:
            return None
        found: list[Mapping[str, object] | None] = []
        for number, text in enumerate(rows.metas):
            try:
                found.append(self._meta(text))
            except NotJson as error:
                found.append(None)
                rows.refused.append(RefusedRow(number, f"the metadata is no JSON: {error}"))
        return found

    def _meta(self, text: str | None) -> Mapping[str, object]:
        if text not in self._known:
            found: object = None if text is None else json.value(text.encode())
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[text] = found if is_record(found) else {}
        return self._known[text]

    def _held(
        self, rows: RowBlock, exit: str, numbers: Sequence[int], values: Sequence[object] | None, metas: Any
    ) -> LeavingRows:
        """Without what has no JSON form, which is refused."""
        reasons, texts = unwritable(values, metas, len(numbers))
        repeats = exit in self.shipped.repeated
        if not any(reasons):
            return LeavingRows(numbers, values, texts, repeats)
        for number, reason in zip(numbers, reasons, strict=True):
            if reason is not None:
                rows.refused.append(RefusedRow(number, f"not JSON: {reason}"))
        kept = [at for at, reason in enumerate(reasons) if reason is None]
        return LeavingRows(
            [numbers[at] for at in kept],
            None if values is None else [values[at] for at in kept],
            None if texts is None else [texts[at] for at in kept],
            repeats,
        )


def unwritable(
    values: Sequence[object] | None, metas: Sequence[Any] | None, count: int
) -> tuple[list[str | None], list[str | None] | None]:
    """For each why it has no JSON form, None where it has one; and the texts of the metadata."""
    reasons: list[str | None] = [None] * count
    if values is not None and not json.all_hold(values):
        reasons = list(json.refusals([None if json.is_raw(value) else value for value in values]))
    if metas is None:
        return reasons, None
    texts: list[str | None] = []
    for at, meta in enumerate(metas):
        try:
            texts.append(json.text(meta) if meta else None)
        except NotJson as error:
            texts.append(None)
            reasons[at] = reasons[at] or f"`$`: {error}"
    return reasons, texts


def _judged(rows: RowBlock) -> Sequence[int]:
    """The numbers of what is JSON. `rows.lines` is set where all is."""
    values, count = rows.values, len(rows.values)
    if not values.null_count:
        lines = _lines(values)
        if sound.count(lines) == count:
            rows.lines = lines
            return range(count)
    good: list[int] = []
    for number, payload in enumerate(rows.payloads):
        reason = "null is no event" if payload is None else sound.refusal(payload)
        if reason is None:
            good.append(number)
        else:
            text = None if payload is None else payload.decode(errors="replace")
            rows.refused.append(RefusedRow(number, reason, text=text or ""))
    return good


def _lines(values: Column) -> bytes:
    """Each with a newline behind it."""
    binary = values.cast(pa.binary())
    whole: Column = _arrow.ListArray.from_arrays(pa.array([0, len(binary)], pa.int32()), binary)
    data: bytes = _compute.binary_join(whole, b"\n")[0].as_buffer().to_pybytes()
    return data + b"\n"


def _joined(parts: Sequence[Any]) -> Any:
    """What left by one exit, of several blocks."""
    numbers = [number for part in parts for number in part[0]]
    values, metas = (
        None if all(part[at] is None for part in parts) else [one for part in parts for one in part[at] or ()]
        for at in (1, 2)
    )
    return numbers, values, metas
