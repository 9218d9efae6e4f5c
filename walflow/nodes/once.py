"""The selects of a stem, evaluated once for all lanes that are at the same position.

The lane that comes first evaluates a block, and keeps what leaves of it until each other lane has come, or newer
blocks need the room. A lane that finds nothing evaluates for itself: it is behind, or events come to it again. No
lane waits for another one, because what is kept has no receipt: each lane sends it with its own.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from walflow.event import Block, Codec, Framing, Node
from walflow.nodes.passed import FirstTime, Passed
from walflow.operators.select import Evaluated, Select

KEPT_BYTES: Final = 4 << 20  # of each region of a stem
META_BYTES: Final = 1 << 10  # that the metadata of an event may take, where a script has changed it
PLACE_BYTES: Final = 100  # of each event that a select takes

_Key = tuple[str, int, int, int]


class _Asked(NamedTuple):
    """All that a select can tell of a block, without its receipt."""

    data: bytes
    framing: Framing
    codec: Codec
    ingest_ns: int
    meta: Mapping[str, object]
    event_metas: Sequence[Mapping[str, object]] | None
    positions: Sequence[int] | None  # where something is drawn by chance


class _Kept(NamedTuple):
    asked: _Asked
    evaluated: Evaluated
    size: int
    left: int  # lanes that have not come yet


class Evaluations:
    """Of one region. `lanes`: how many evaluate it.
    `draws`: something is drawn by chance, which goes by the positions."""

    def __init__(self, *, draws: bool) -> None:
        self.lanes = 0
        self._draws = draws
        self._bytes = 0
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Evaluations of {len(self._kept)} blocks, {self._bytes} bytes, for {self.lanes} lanes>"

    def put(self, block: Block, evaluated: Evaluated) -> None:
        if self.lanes < 2 or block.origin is None:
            return
        key = _key(block)
        if key in self._kept:
            self._forget(key)
        size = _size(block, evaluated)
        self._kept[key] = _Kept(self._asked(block), evaluated, size, self.lanes - 1)
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            self._forget(next(iter(self._kept)))

    def take(self, block: Block) -> Evaluated | None:
        if block.origin is None:
            return None
        key = _key(block)
        kept = self._kept.get(key)
        # two ways through a stem may bring other events of the same positions
        if kept is None or self._asked(block) != kept.asked:
            return None
        if kept.left > 1:
            self._kept[key] = kept._replace(left=kept.left - 1)
        else:
            self._forget(key)
        return kept.evaluated

    def _asked(self, block: Block) -> _Asked:
        frames, positions = block.frames, block.positions if self._draws else None
        return _Asked(
            frames.data, frames.framing, block.codec, block.ingest_ns, block.meta, block.event_metas, positions
        )

    def _forget(self, key: _Key) -> None:
        self._bytes -= self._kept.pop(key).size


class _Evaluates:
    def __init__(self, select: Select, evaluations: Evaluations) -> None:
        self._select = select
        self._evaluations = evaluations

    def accept(self, block: Block) -> None:
        if self._select.compiled.weighs:
            self._select.accept(block)  # in parts: all of them would be too much to keep
            return
        evaluated = self._select.evaluate(block)
        self._evaluations.put(block, evaluated)
        self._select.send(block, evaluated)


class _Repeats:
    def __init__(self, select: Select, evaluations: Evaluations) -> None:
        self._select = select
        self._evaluations = evaluations

    def accept(self, block: Block) -> None:
        evaluated = self._evaluations.take(block)
        if evaluated is None:
            self._select.accept(block)
        else:
            self._select.send(block, evaluated)


def once(passed: Passed, evaluations: Evaluations, first: Select, again: Select) -> Node:
    """The node of one lane. `first` also counts what it sends."""
    evaluations.lanes += 1
    return FirstTime(passed, _Evaluates(first, evaluations), _Repeats(again, evaluations))


def _key(block: Block) -> _Key:
    origin = block.origin
    assert origin is not None
    return origin.log, origin.first, origin.last, len(block.frames.data)


def _size(block: Block, evaluated: Evaluated) -> int:
    size = len(block.frames.data)
    for way in evaluated.ways:
        events = len(way.numbers)
        if not way.whole:
            size += len(way.frames.data) * (2 if way.pieces else 1)
        size += events * (PLACE_BYTES if way.metas is None else PLACE_BYTES + META_BYTES)
    return size + sum(PLACE_BYTES + len(one.reason) for one in evaluated.refused)
