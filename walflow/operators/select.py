"""`select WHAT from … where WHERE into … having HAVING`: events picked out or made anew, around the receipt of their
block.

All selects of a region run as one function that `walflow.compile` has generated: it says which events leave by which
exit. Here their bytes and receipts are accounted for. Of a block each exit gets one block, its events in order; what
cannot be evaluated leaves by err; what no select takes is acked.

- A block that keeps all its events as they are goes on itself; one that keeps some goes on with their bytes.
- Events that are made anew are JSON, a line each.

What goes on has a receipt for its events alone, so that one of them can fail without the others. Where a region has
several exits, or one event may leave by one exit several times, the receipt tells these ways apart: they may lead to
the same sink.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from walflow.codecs import JSON, JSON_SORTED
from walflow.codecs.json import within_record
from walflow.compile.compiled import BlockCall, BlockOutcome, Compiled, Refusal, Rows
from walflow.contract import Counter
from walflow.event import Block, Frames, Node, StreamId
from walflow.framing import LINES
from walflow.operators.operator import OperatorErr
from walflow.receipt import Receipt
from walflow.world import dice
from walflow_kernel import json
from walflow_kernel.moment import Moment
from walflow_kernel.state import Room, State
from walflow_kernel.weight import UNWEIGHED

DEEPEST: Final = 512  # levels that an event may nest
BLOCK_BYTES: Final = 256 << 10  # events that are made may be larger than those that came
BLOCK_EVENTS: Final = 4096
MADE_BYTES: Final = 16 << 20  # that are made of a block at a time, where they may be many more than came


class Way(NamedTuple):
    """What leaves by one exit, of that number. `numbers`: for each event the one that it was made of. `whole`: the
    block itself leaves. `anew`: its events are made anew, as lines of JSON. `pieces`: the frames of several blocks,
    where it is too large for one."""

    exit: int
    numbers: Sequence[int]
    metas: Sequence[Mapping[str, object]] | None
    frames: Frames
    pieces: Sequence[Frames]
    distinct: bool
    whole: bool
    anew: bool


class Evaluated(NamedTuple):
    """What leaves of a block, without its receipt. `refused`: in the order of the events."""

    ways: Sequence[Way]
    refused: Sequence[Refusal]
    dropped: int


class Select:
    """All selects of one region. `salt`: what is drawn by chance follows from it and the event's position in its log.
    `state`: of the pipeline, for a region that has some."""

    __slots__ = ("_err", "_exits", "_filtered", "_passed", "_places", "_salt", "_state", "compiled")

    def __init__(
        self,
        compiled: Compiled,
        exits: Mapping[str, Node],
        err: OperatorErr,
        filtered: Counter,
        salt: int | None = None,
        state: State | None = None,
    ) -> None:
        self.compiled = compiled
        self._state = state
        self._exits = [exits[name] for name in compiled.exits]
        self._err = err
        self._filtered = filtered
        self._salt = salt
        self._passed = 0
        self._places: dict[int, str | None] = {}  # in flow files, of the lines that failed

    def accept(self, block: Block) -> None:
        left: Block | None = block
        while left is not None and self.compiled.weighs:
            left = self.begin(left, MADE_BYTES)
        if left is not None:
            self.send(left, self.evaluate(left))

    def evaluate(self, block: Block) -> Evaluated:
        """What leaves of a block, for `send`: of this select, or of another one of the same region."""
        return _evaluated(block, self._run(block, None), self.compiled)

    def send(self, block: Block, evaluated: Evaluated) -> None:
        """`evaluated`: of this block, or of one with the same events."""
        ways, refused, dropped = evaluated
        self._filtered.value += dropped
        copies = len(ways) + bool(refused)
        if not copies:
            block.receipt.ack()
            return
        block.receipt.fork(copies - 1)
        # all are made before the first is sent: what a sink does on the way is none of their business
        parts = [(self._exits[way.exit], part) for way in ways for part in self._around(block, way)]
        rejected = _rejected(block, refused) if refused else None
        for to, part in parts:
            to.accept(part)
        if rejected is not None:
            self._err.take(rejected, [one.reason for one in refused], _Refused(block, refused, self._place))

    def begin(self, block: Block, most: int) -> Block | None:
        """`accept`, as far as no more than so many bytes of the state leave, or a little more;
        and what is left of the block."""
        room: Room = [most, None]
        outcome = self._run(block, room)
        end: int | None = room[1]
        if end is None:
            self._send(block, outcome)
            return None
        done, left = block.split([end, block.frames.count - end])
        self._send(done, outcome)
        return left

    def let_go(self, outcome: BlockOutcome, now_ns: int) -> None:
        """What came of no event of a block: it is sent as a block of its own, which nothing upstream waits for."""
        count = max([len(outcome.refused), *(len(rows.numbers) for rows in outcome.rows.values())])
        if not count:
            return
        rows = {exit: rows._replace(numbers=range(len(rows.numbers))) for exit, rows in outcome.rows.items()}
        refused = [one._replace(number=at) for at, one in enumerate(outcome.refused)]
        frames = Frames(b"null\n" * count, count, LINES)
        receipt = Receipt(_no_one_waits, count)
        block = Block(StreamId(self.compiled.name, 0, 0), frames, JSON, receipt, ingest_ns=now_ns, meta={})
        self._send(block, BlockOutcome(rows, refused, outcome.dropped))

    def _send(self, block: Block, outcome: BlockOutcome) -> None:
        self.send(block, _evaluated(block, outcome, self.compiled))

    def _around(self, block: Block, way: Way) -> Sequence[Block]:
        """One copy of the receipt's is theirs."""
        tag = f" @{way.exit}" if len(self._exits) > 1 else ""
        repeats = self.compiled.exits[way.exit] in self.compiled.repeated
        if way.whole:
            if not tag and not repeats:
                return [block]
            numbers: Sequence[int] | None = way.numbers if repeats else None
            return [
                block.with_frames(block.frames, block.codec, block.receipt.pick(numbers, tag=tag, repeats=repeats))
            ]
        receipt = block.receipt.pick(way.numbers, tag=tag, repeats=repeats)
        codec = JSON if way.anew else block.codec
        made = block.picked(way.numbers, way.frames, codec, receipt, way.metas, distinct=way.distinct)
        if not way.pieces:
            return _capped(made)
        parts = made.split([piece.count for piece in way.pieces], way.pieces)
        return [capped for part in parts for capped in _capped(part)]

    def _place(self, line: int) -> str | None:
        if line not in self._places:
            span = self.compiled.span(line) if line >= 0 else self.compiled.weighing.span(-line)
            self._places[line] = None if span is None else str(span)
        return self._places[line]

    def _run(self, block: Block, room: Room | None) -> BlockOutcome:
        compiled = self.compiled
        large = not compiled.weighs and len(block.frames.data) > UNWEIGHED
        if large:
            compiled = compiled.weighing
        positions, salt = block.positions, self._salt
        if compiled.draws and (positions is None or salt is None):
            if salt is None:  # a log's events draw the same when they come again, after a restart too
                salt = hash_of(block.origin.log) if block.origin is not None else self._own_salt()
            if positions is None:
                positions = range(self._passed, self._passed + block.frames.count)
                self._passed += block.frames.count
        moment = Moment(block.ingest_ns, salt or 0)
        meta = dict(block.meta) if compiled.reads_meta else {}
        call = BlockCall(moment, positions or (), meta, block.event_metas, _Kept(block).event)
        outcome = compiled.run(compiled.reader.decode(block.frames, block.timed_codec), call, self._state, room)
        if large:  # its lines are others
            outcome = outcome._replace(refused=[one._replace(line=-one.line) for one in outcome.refused])
        return outcome

    def _own_salt(self) -> int:
        self._salt = dice().getrandbits(64)
        return self._salt


def _no_one_waits(receipt: Receipt) -> None:
    """Results are in their buffers, or were counted as lost there."""


def hash_of(log: str) -> int:
    """The same in every process."""
    return int.from_bytes(log.encode()[-8:], "big")


class _Kept:
    """Events that leave beside others that are made anew: as lines of JSON too."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._payloads: Sequence[bytes] | None = None

    def event(self, number: int) -> object:
        payload = self.payload(number)
        if self._block.codec in (JSON, JSON_SORTED):
            # nothing is read of it, so nothing is judged; a newline in JSON is a space
            return msgspec.Raw(payload.replace(b"\n", b" "))
        return self._block.timed_codec.decode(payload)

    def payload(self, number: int) -> bytes:
        if self._payloads is None:
            self._payloads = self._block.frames.payloads()
        return self._payloads[number]


class _Refused:
    """What the error events of a block say beside the reason."""

    def __init__(self, block: Block, refused: Sequence[Refusal], place: Callable[[int], str | None]) -> None:
        self._kept = _Kept(block)
        self._codec = block.codec
        self._refused = refused
        self._place = place

    def at(self, number: int) -> str | None:
        return self._place(self._refused[number].line)

    def event(self, number: int) -> bytes | None:
        return within_record(self._codec, self.raw(number))

    def raw(self, number: int) -> bytes:
        return self._kept.payload(self._refused[number].number)


def _evaluated(block: Block, outcome: BlockOutcome, compiled: Compiled) -> Evaluated:
    refused = list(outcome.refused)
    ways: list[Way] = []
    for number, (exit, rows) in enumerate(outcome.rows.items()):
        held = _held(rows, refused)
        if held.numbers:
            distinct = exit not in compiled.repeated or _are_distinct(held.numbers)
            ways.append(_way(number, block, held, distinct=distinct))
    refused.sort(key=attrgetter("number"))
    return Evaluated(ways, refused, outcome.dropped)


def _held(rows: Rows, refused: list[Refusal]) -> Rows:
    """Without what has no JSON form, which is refused."""
    numbers, values, metas = rows
    if values is None or json.all_hold(values):
        return rows
    reasons = json.refusals([None if type(value) is msgspec.Raw else value for value in values])
    found = list(zip(numbers, values, reasons, strict=True))
    refused += [Refusal(number, f"not JSON: {reason}", 0) for number, _, reason in found if reason is not None]
    kept = [at for at, (_, _, reason) in enumerate(found) if reason is None]
    left = None if metas is None else [metas[at] for at in kept]
    return Rows([numbers[at] for at in kept], [values[at] for at in kept], left)


def _way(exit: int, block: Block, rows: Rows, *, distinct: bool) -> Way:
    numbers, values, metas = rows
    if values is None:
        whole = metas is None and distinct and len(numbers) == block.frames.count
        frames = block.frames if whole else block.frames.picked(numbers)
        return Way(exit, numbers, metas, frames, (), distinct, whole, anew=False)
    data = json.lines(values)
    count = max(-(-len(data) // BLOCK_BYTES), -(-len(values) // BLOCK_EVENTS))
    cut = _pieces(data, -(-len(data) // count)) if count > 1 else ()
    pieces = [Frames(piece, LINES.count(piece), LINES) for piece in cut]
    return Way(exit, numbers, metas, Frames(data, len(values), LINES), pieces, distinct, whole=False, anew=True)


# ---- blocks around the receipt


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Whole lines, a little more than `size` bytes each."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + size - 1) + 1 or len(data)
        yield data[begin:end]
        begin = end


def _are_distinct(numbers: Sequence[int]) -> bool:
    return len(set(numbers)) == len(numbers)


def _capped(block: Block) -> Sequence[Block]:
    return block.split(block.frames.sizes(BLOCK_BYTES, BLOCK_EVENTS))


def _rejected(block: Block, refused: Sequence[Refusal]) -> Block:
    """By event, of one event the first select's first. Their bytes end here, their errors go on."""
    numbers = [one.number for one in refused]
    receipt = block.receipt.pick(numbers, repeats=True)
    frames = Frames(b"\n" * len(refused), len(refused), LINES)
    return block.picked(numbers, frames, JSON, receipt, distinct=_are_distinct(numbers))
