"""Each key once, with no event lost for it.

A key counts as seen when the event that first carried it is delivered. Until then a second event with that key waits
for the first one's outcome and shares it: acked with it, or failed and sent again with it. An event that is sent
again because it failed finds its key not seen, and passes.

On disk the order is: delivered, key written and synced, acked upstream. A crash before the ack repeats the event (and
its key, if it was written, stops it here); no crash leaves a key without its event delivered.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import ClassVar, NamedTuple, cast

from pydantic import Field, field_validator

from walflow.contract import Claim, Scheduler
from walflow.errors import CannotDecode, WalflowError
from walflow.event import Block, Codec, Node
from walflow.families import Families, Family
from walflow.operators.key_writer import KeyWriter, SharedOutcome, tell
from walflow.operators.operator import Operator, OperatorContext
from walflow.operators.seen import DIGEST, SeenFile, SeenKeys
from walflow.receipt import Numbering, Receipt
from walflow_kernel.values import OutOfRange


class Unwritten(WalflowError):
    """The daemon stopped before the keys of these events were on disk. They may be sent again."""


class Dedupe(Operator):
    """Drops duplicates: only the first event with a key passes. A key counts as seen once its first event is
    delivered. Until then, another event with that key waits and gets the same outcome; if the first one failed, it
    passes when it is sent again. An event without the key passes. So does an event whose key cannot be compared
    (nested too deep, or a number beyond a double). With `dir`, the keys survive a restart; a crash never loses an
    event, but an event that was delivered and not yet acked may pass once more. A `generic::batch` downstream needs a
    `timeout`, because events that wait for an event in the batch count as not settled."""

    example: ClassVar[str] = """\
define operator once from qos::dedupe with key = "id", dir = "seen" end;
create operator once;
select event from in into once;
select event from once into out;
"""
    families: ClassVar[Families] = {
        "deduplicated_events_total": Family(
            "counter", "Events that were dropped because an event with the same key had been delivered."
        ),
        "keyless_events_total": Family("counter", "Events without the key of qos::dedupe, which pass unchanged."),
        "known_keys": Family("gauge", "Keys that qos::dedupe remembers: an event with one of them is dropped."),
    }

    key: str = Field(
        min_length=1, description="Path of the key in the event: `id`, or `order.id` for a key within a record."
    )
    max_keys: int = Field(
        default=100_000, ge=1, description="Number of keys that are remembered. Beyond it the oldest key is dropped."
    )
    dir: str | None = Field(
        default=None, min_length=1, description="Directory for the keys. Default: none, the keys are only in memory."
    )

    @field_validator("key")
    @classmethod
    def _is_path(cls, key: str) -> str:
        if not all(key.split(".")):
            raise ValueError("a path has a name between its dots")
        if key.startswith("event."):
            raise ValueError(f"it begins within the event: write `{key.removeprefix('event.')}`")
        return key

    def claims(self) -> Sequence[Claim]:
        return () if self.dir is None else (Claim("directory of keys", self.dir),)

    def node(self, place: OperatorContext) -> Node:
        return DedupeNode(self, place)


class _Waiting(NamedTuple):
    """Event `number` of a block, with the same key as event `at` of a carrier."""

    at: int
    block: Block
    number: int


@dataclass(slots=True)
class _Carrier:
    """What of a block went on. `keys` and `numbers`: of each event, its key and where in the block it stood."""

    block: Block
    keys: Sequence[bytes | None]
    numbers: Sequence[int]
    waiting: list[_Waiting] = field(default_factory=list[_Waiting])


class DedupeNode:
    def __init__(self, config: Dedupe, place: OperatorContext) -> None:
        self._path = config.key.split(".")
        self._most = config.max_keys
        self._dir = config.dir
        self._name = place.name
        self._to = place.exits["out"].to
        self._log = place.log
        self._seen = SeenKeys(config.max_keys)
        self._carriers: dict[bytes, tuple[_Carrier, int]] = {}
        self._writer: KeyWriter | None = None
        self._dropped = place.counter("deduplicated_events_total")
        self._keyless = place.counter("keyless_events_total")
        place.gauge("known_keys", lambda: len(self._seen))

    def __repr__(self) -> str:
        return f"<Dedupe {self._name} {len(self._seen)} seen, {len(self._carriers)} on their way>"

    def accept(self, block: Block) -> None:
        keys = [_key(block.timed_codec, payload, self._path) for payload in block.frames.payloads()]
        self._keyless.value += keys.count(None)
        passing: list[int] = []
        repeated: list[tuple[int, bytes]] = []
        first: dict[bytes, int] = {}
        for number, key in enumerate(keys):
            if key is None:
                passing.append(number)
            elif key in self._seen:
                self._dropped.value += 1
            elif key in self._carriers or key in first:
                repeated.append((number, key))
            else:
                first[key] = number
                passing.append(number)
        copies = len(repeated) + bool(passing)
        if not copies:
            block.receipt.ack()
            return
        block.receipt.fork(copies - 1)
        carrier = _Carrier(block, [keys[number] for number in passing], passing)
        self._carriers.update({key: (carrier, at) for at, key in enumerate(carrier.keys) if key is not None})
        for number, key in repeated:
            self._dropped.value += 1
            other, at = self._carriers[key]
            other.waiting.append(_Waiting(at, block, number))
        if passing:
            self._to.accept(self._part(block, carrier))

    def _part(self, block: Block, carrier: _Carrier) -> Block:
        numbers, frames = carrier.numbers, block.frames
        known = Numbering(numbers=numbers).down(block.receipt.delivered, len(numbers))
        receipt = Receipt(self._settled, len(numbers), carrier, known)
        if len(numbers) == frames.count:
            return block.with_frames(frames, block.codec, receipt)
        return block.picked(numbers, frames.picked(numbers), block.codec, receipt)

    # outcomes

    def _settled(self, receipt: Receipt) -> None:
        carrier = receipt.ref
        assert isinstance(carrier, _Carrier)
        failed = 0 if receipt.cause is None else receipt.outcome().failed
        for key in carrier.keys:
            if key is not None:
                del self._carriers[key]
        fresh = [key for at, key in enumerate(carrier.keys) if key is not None and not failed >> at & 1]
        self._seen.add(fresh)
        outcomes = [SharedOutcome(carrier.block.receipt, receipt, Numbering(numbers=carrier.numbers))]
        outcomes += [
            SharedOutcome(one.block.receipt, receipt, Numbering(one.number - one.at, only=1 << one.number))
            for one in carrier.waiting
        ]
        if self._writer is not None and fresh:
            self._writer.write(fresh, outcomes)
        else:
            tell(outcomes)

    # walflow.operators.Running

    def begin(self, scheduler: Scheduler) -> None:
        if self._dir is None:
            return
        file = SeenFile(self._dir, self._most)
        self._seen.add(file.keys)
        if file.damage:
            self._log.warning("keys lost", found=file.damage)
        file.keys.clear()
        self._writer = KeyWriter(file, self._seen, scheduler, self._log.bind(dir=self._dir))

    def drain(self) -> None: ...

    def end(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.end(Unwritten(f"{self._name} has stopped"))


def _key(codec: Codec, payload: bytes, path: Sequence[str]) -> bytes | None:
    try:
        value = codec.decode(payload)
    except CannotDecode:  # sound at the source, and yet more than can be worked with
        return None
    for name in path:
        record = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        if name not in record:
            return None
        value = record[name]
    try:
        return _digest(value)
    except (RecursionError, TypeError, ValueError):  # too deep, or infinity: as it passes, it is not lost
        return None


def _digest(key: object) -> bytes:
    if isinstance(key, str):
        data = b'"' + key.encode("utf-8", "surrogatepass")
    else:
        data = json.dumps(key, sort_keys=True, separators=(",", ":"), default=_of_no_kind, allow_nan=False).encode()
    return blake2b(data, digest_size=DIGEST).digest()


def _of_no_kind(key: object) -> str:
    """What JSON has no form for."""
    if isinstance(key, OutOfRange):
        raise TypeError("a number out of range equals nothing")
    return repr(key)
