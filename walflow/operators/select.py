"""`select WHAT from … where WHERE into … having HAVING`: events picked out or made anew, around the receipt of their
block.

All selects from one place see each event together, so it is decoded once. Of a block each target gets one block, its
events in order; what cannot be evaluated leaves by err; what no select takes is acked.

- A block that keeps all its events as they are goes on itself; one that keeps some goes on with their bytes.
- Events that are made anew are JSON, a line each.

What goes on carries the receipt that came, with its count. That this counts more events is safe: once the first k of
those that go one way are delivered, whatever of the first k that came went that way is. Where one event goes one way
twice (two selects into one port) a branch counts none as done, for then it would not be.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from walflow.codecs import JSON
from walflow.contract import Counter
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Block, Codec, Frames, Node
from walflow.expr.compile import Expression
from walflow.expr.constant import kind_of
from walflow.expr.evaluate import INGEST_NS
from walflow.expr.operators import CannotEvaluate
from walflow.framing import LINES

BLOCK_BYTES: Final = 256 << 10  # events that are made may be larger than those that came
BLOCK_EVENTS: Final = 4096

TOO_DEEP: Final = "nested too deep"


class Rule(NamedTuple):
    """One select. `what` is None for `event` as it is, `where` and `having` for no condition. `where` sees the event
    that came, `having` what was made of it."""

    what: Expression | None
    where: Expression | None
    having: Expression | None = None


class Branch(NamedTuple):
    """The selects into one target, in the order of the file."""

    to: Node
    rules: Sequence[Rule]


class Err(Protocol):
    """Where rejected events go, one reason an event."""

    def take(self, block: Block, reasons: Sequence[str]) -> None: ...


class Select:
    """All selects from one input or stream of a pipeline."""

    __slots__ = ("_branches", "_err", "_filtered")

    def __init__(self, branches: Sequence[Branch], err: Err, filtered: Counter) -> None:
        self._branches = branches
        self._err = err
        self._filtered = filtered

    def accept(self, block: Block) -> None:
        ways, refused = self._sort_out(block)
        copies = len(ways) + bool(refused.reasons)
        if not copies:
            block.receipt.ack()
            return
        block.receipt.fork(copies - 1)
        # all are made before the first is sent: what a sink does on the way is none of their business
        parts = [(to, _around(block, picked)) for to, picked in ways]
        rejected = _around(block, refused.picked()) if refused.reasons else None
        for to, part in parts:
            for capped in part.split(part.frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)):
                to.accept(capped)
        if rejected is not None:
            self._err.take(rejected, refused.reasons)

    def _sort_out(self, block: Block) -> "tuple[list[tuple[Node, _Picked]], _Refused]":
        INGEST_NS.set(block.ingest_ns)  # for `system::ingest_ns()`
        refused = _Refused()
        events = list(_events(block, refused))
        picks = [(to, _pick(rules, events, block, refused)) for to, rules in self._branches]
        ways = [(to, picked) for to, picked in picks if picked.numbers]
        refused.sort()
        taken = set(refused.numbers).union(*(picked.numbers for _, picked in ways))
        self._filtered.value += block.frames.count - len(taken)
        return ways, refused


class _Event(NamedTuple):
    number: int  # in its block
    value: object
    meta: Mapping[str, object]


class _Picked(NamedTuple):
    """The events of a block that go one way, by their numbers, rising. `payloads` is None where they are the bytes
    they came in; else each is a line of JSON."""

    numbers: Sequence[int]
    payloads: Sequence[bytes] | None = None


class _Refused:
    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.reasons: list[str] = []

    def add(self, number: int, reason: str) -> None:
        self.numbers.append(number)
        self.reasons.append(reason)

    def sort(self) -> None:
        """By event, of one event the first select's first."""
        pairs = sorted(zip(self.numbers, self.reasons, strict=True), key=itemgetter(0))
        self.numbers, self.reasons = [number for number, _ in pairs], [reason for _, reason in pairs]

    def picked(self) -> _Picked:
        """Their bytes end here, their errors go on."""
        return _Picked(self.numbers, [b""] * len(self.numbers))


# ---- what becomes of each event


def _events(block: Block, refused: _Refused) -> Iterator[_Event]:
    # not `block.values`: at ten times the size of their bytes they would be held until the last sink has acked
    decode = block.codec.decode
    for number, (payload, meta) in enumerate(zip(block.frames.payloads(), _metas(block), strict=False)):
        try:
            yield _Event(number, decode(payload), meta)
        except CannotDecode as error:  # sound at the source, and yet more than can be worked with
            refused.add(number, str(error))


def _metas(block: Block) -> Iterator[dict[str, object]]:
    """One an event, as records: what holds for the block, and what the event has beside it."""
    meta = dict(block.meta)
    return repeat(meta) if block.event_metas is None else ({**meta, **own} for own in block.event_metas)


def _pick(rules: Sequence[Rule], events: Sequence[_Event], block: Block, refused: _Refused) -> _Picked:
    picks = [_pick_by(rule, events, refused) for rule in rules]
    if len(picks) == 1:
        return picks[0]
    if all(picked.payloads is None for picked in picks):
        return _Picked(sorted(number for picked in picks for number in picked.numbers))
    lines = [line for picked in picks for line in _lines(picked, events, block, refused)]
    lines.sort(key=itemgetter(0))  # of one event the first select's stays first
    return _as_picked(lines)


def _pick_by(rule: Rule, events: Sequence[_Event], refused: _Refused) -> _Picked:
    chosen = events if rule.where is None else _chosen("where", rule.where, events, refused)
    if rule.what is not None:
        return _as_picked(_made(rule.what, rule.having, chosen, refused))
    if rule.having is not None:
        chosen = _chosen("having", rule.having, chosen, refused)
    return _Picked([event.number for event in chosen])


def _as_picked(lines: Iterable[tuple[int, bytes]]) -> _Picked:
    pairs = list(lines)
    return _Picked([number for number, _ in pairs], [payload for _, payload in pairs])


def _chosen(word: str, condition: Expression, events: Sequence[_Event], refused: _Refused) -> list[_Event]:
    chosen: list[_Event] = []
    evaluate = condition.evaluate
    for event in events:
        try:
            verdict = evaluate(event.value, event.meta)
        except CannotEvaluate as error:
            refused.add(event.number, str(error))
        except RecursionError:
            refused.add(event.number, TOO_DEEP)
        else:
            if verdict is True:
                chosen.append(event)
            elif verdict is not False:
                refused.add(event.number, _no_verdict(word, verdict))
    return chosen


def _no_verdict(word: str, value: object) -> str:
    return f"`{word}` takes true or false, not {kind_of(value)}"


def _made(
    what: Expression, having: Expression | None, events: Iterable[_Event], refused: _Refused
) -> Iterator[tuple[int, bytes]]:
    evaluate = what.evaluate
    for number, value, meta in events:
        try:
            made = evaluate(value, meta)
            verdict = True if having is None else having.evaluate(made, meta)
            if verdict is True:
                yield number, JSON.encode(made)
            elif verdict is not False:
                refused.add(number, _no_verdict("having", verdict))
        except (CannotEvaluate, CannotEncode) as error:
            refused.add(number, str(error))
        except RecursionError:
            refused.add(number, TOO_DEEP)


def _lines(picked: _Picked, events: Sequence[_Event], block: Block, refused: _Refused) -> Iterator[tuple[int, bytes]]:
    """Beside events that are made anew those that are not are lines of JSON as well."""
    payloads = picked.payloads
    if payloads is None and block.codec is JSON and block.frames.framing is LINES:
        came = block.frames.payloads()
        payloads = [came[number] for number in picked.numbers]
    if payloads is not None:
        yield from zip(picked.numbers, payloads, strict=True)
        return
    wanted = set(picked.numbers)
    for number, value, _ in events:
        if number in wanted:
            try:
                yield number, JSON.encode(value)
            except CannotEncode as error:
                refused.add(number, str(error))


# ---- blocks around the receipt


def _around(block: Block, picked: _Picked) -> Block:
    numbers, payloads = picked
    distinct = all(before < after for before, after in pairwise(numbers))
    if payloads is None and distinct and len(numbers) == block.frames.count:
        return block
    frames, codec = _frames(block, picked)
    metas = block.event_metas
    return Block(
        block.stream,
        frames,
        codec,
        block.receipt if distinct else block.receipt.branch(len(numbers)),
        ingest_ns=block.ingest_ns,
        meta=block.meta,
        event_metas=None if metas is None else [metas[number] for number in numbers],
        # as many events as positions, and yet not one for each: a sink would take them for it
        origin=block.origin if distinct else None,
        weight=block.weight,
    )


def _frames(block: Block, picked: _Picked) -> tuple[Frames, Codec]:
    numbers, payloads = picked
    if payloads is not None:
        return Frames(LINES.join(payloads), len(payloads), LINES), JSON
    framing, came = block.frames.framing, block.frames.payloads()
    return Frames(framing.join([came[number] for number in numbers]), len(numbers), framing), block.codec
