"""The lines of a tap: one JSON record for each event."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, cast

import msgspec

from walflow.admin.tap.rules import REDACTED, TapRules
from walflow.admin.tap.sampler import TakenBlock
from walflow.codecs import JSON
from walflow.codecs.json import within_record
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Frames, codec_at
from walflow.framing import LINES

LARGEST: Final = 256 << 10  # bytes of an event that is shown


class TapEventBytes(msgspec.Struct):
    """What a reader needs of a line who wants bytes."""

    bytes: str | None = None
    omitted: str | None = None


class TapEvent(msgspec.Struct, omit_defaults=True):
    """`event` is the event; at an err port that is the record of `error`, `source`, `at` and `event`. `bytes` is
    base64 of an event that has no JSON form, or with `raw`. `omitted` says why neither is there. `received`: when the
    event came to its source."""

    port: str
    received: str
    stream: int
    position: int | None = None
    meta: msgspec.Raw | None = None
    event: msgspec.Raw | None = None
    bytes: str | None = None
    omitted: str | None = None


class Shown:
    """Some blocks of the same place, as they may be shown: without the redacted members."""

    def __init__(self, rules: TapRules, *, raw: bool) -> None:
        self._rules = rules
        self._raw = raw

    def redacted(self, block: TakenBlock) -> TakenBlock:
        """What a condition may see: it could ask for a redacted member, too."""
        if not self._rules.redacted:
            return block
        payloads = [self._event(block, payload) or b"null" for payload in block.frames.payloads()]
        return block._replace(frames=Frames(LINES.join(payloads), len(payloads), LINES), codec=JSON)

    def part(self, block: TakenBlock, frames: Frames, start: int) -> TakenBlock:
        """Some events of a block that `redacted` returned, with the metadata that a condition may see."""
        metas = block.metas
        if metas is not None:
            metas = [self._meta({**block.meta, **own}) for own in metas[start : start + frames.count]]
        return block._replace(frames=frames, meta=self._meta(block.meta), metas=metas)

    def _meta(self, meta: Mapping[str, object]) -> Mapping[str, object]:
        if not self._rules.redacted or not meta:
            return meta
        try:
            redacted = self._rules.redact("$", msgspec.json.decode(JSON.encode(meta)))
        except CannotEncode:
            return {}
        return cast("dict[str, object]", redacted) if isinstance(redacted, dict) else {}

    def lines(self, block: TakenBlock, numbers: Sequence[int]) -> Iterator[bytes]:
        payloads = block.frames.payloads()
        moment = datetime.fromtimestamp(block.ingest_ns / 1e9, UTC)
        received = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for number in numbers:
            position = block.positions[number] if block.positions is not None else None
            shown = TapEvent(str(block.port), received, block.stream, position)
            own: Mapping[str, object] = block.metas[number] if block.metas is not None else {}
            if not block.rejected and (meta := self._meta({**block.meta, **own})):
                shown.meta = _json(meta)
            self._fill(shown, block, payloads[number])
            yield msgspec.json.encode(shown) + b"\n"

    def _fill(self, shown: TapEvent, block: TakenBlock, payload: bytes) -> None:
        if len(payload) > LARGEST:
            shown.omitted = f"an event of {len(payload):,} bytes; the most that is shown is {LARGEST:,}"
            return
        event = None if self._raw else self._event(block, payload)
        if event is not None:
            shown.event = msgspec.Raw(event)
        elif self._rules.redacted:
            shown.omitted = "it has no JSON form, so nothing can be redacted"
        else:
            shown.bytes = base64.b64encode(payload).decode()

    def _event(self, block: TakenBlock, payload: bytes) -> bytes | None:
        """As JSON, without what is redacted. None: it has no JSON form."""
        text = within_record(codec_at(block.codec, block.ingest_ns), payload)
        if text is None or not self._rules.redacted:
            return text
        try:
            value = JSON.decode(text)
            if block.rejected and isinstance(value, dict):
                record = cast("dict[str, object]", value)
                if "event" in record:
                    record["event"] = self._rules.redact("event", record["event"])
                if self._rules.of_events:  # a member cannot be found in bytes that are no event
                    record |= dict.fromkeys(record.keys() & {"text", "bytes"}, REDACTED)
                return JSON.encode(record)
            return JSON.encode(self._rules.redact("event", value))
        except (CannotDecode, CannotEncode):
            return None


def _json(meta: Mapping[str, object]) -> msgspec.Raw | None:
    try:
        return msgspec.Raw(JSON.encode(meta))
    except CannotEncode:
        return None
