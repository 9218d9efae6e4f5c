"""Brings a block into the codec and framing of a sink."""

from collections.abc import Iterator, Sequence

from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Block, Codec, Frames, codec_at
from walflow.framing import MESSAGES, Outgoing, encoder_at
from walflow.nodes.rejects import ErrPort, RejectedEvents


class Recoder:
    """Events that cannot be encoded leave by `err`."""

    __slots__ = ("_codec", "_encoders", "_err", "encoded", "framing")

    def __init__(self, codec: Codec, outgoing: Outgoing, err: ErrPort) -> None:
        self.framing = outgoing.framing
        self._codec = codec
        self._encoders = outgoing.encoders
        self.encoded = bool(self._encoders)
        self._err = err

    def fits(self, block: Block) -> bool:
        """Whether the block can be written without a change."""
        codec, framing, ours = block.codec, block.frames.framing, self.framing
        framed = framing is ours or (ours is MESSAGES and framing.countable)
        return framed and not self.encoded and codec is self._codec and codec.transparent

    def recoded(self, block: Block) -> Iterator[Block]:
        """The block in the codec and framing of the sink. A block becomes several blocks of one event each if the
        framing cannot separate events."""
        parts = [block]
        if block.frames.count > 1 and not self.framing.countable:
            parts = block.split([1] * block.frames.count)
        for part in parts:
            written = self._joined(part) or self._rewritten(part)
            if written is not None:
                yield written

    def _joined(self, block: Block) -> Block | None:
        """The same payloads in the framing of the sink. None: a payload contains bytes of that framing."""
        if block.codec is not self._codec or not self._codec.transparent:
            return None
        joined = self.framing.join(self._encode(block.frames.payloads(), block.ingest_ns))
        if self.framing.countable and self.framing.count(joined) != block.frames.count:
            return None
        return block.with_frames(Frames(joined, block.frames.count, self.framing), self._codec)

    def _rewritten(self, block: Block) -> Block | None:
        """Each event decoded and encoded, without the events that leave by `err`. None: no event is left."""
        codec, framing = self._codec, self.framing
        decode, encode = block.timed_codec.decode, codec_at(codec, block.ingest_ns).encode
        payloads: list[bytes] = []
        kept: list[int] = []
        lost: list[int] = []
        reasons: list[str] = []
        rejected: list[bytes] = []
        for number, payload in enumerate(block.frames.payloads()):
            try:
                payloads.append(encode(decode(payload)))
                kept.append(number)
            except (CannotDecode, CannotEncode) as error:
                lost.append(number)
                reasons.append(str(error))
                rejected.append(payload)
        events = RejectedEvents(block.timed_codec, rejected)
        if not payloads:
            self._err.take(block, reasons, events)
            return None
        frames = Frames(framing.join(self._encode(payloads, block.ingest_ns)), len(payloads), framing)
        if not reasons:
            return block.with_frames(frames, codec)
        block.receipt.fork(1)
        refused = Frames(framing.join([b""] * len(reasons)), len(reasons), framing)
        self._err.take(block.picked(lost, refused, codec, block.receipt.pick(lost)), reasons, events)
        return block.picked(kept, frames, codec, block.receipt.pick(kept))

    def _encode(self, payloads: Sequence[bytes], ingest_ns: int) -> Sequence[bytes]:
        for encoder in self._encoders:
            payloads = list(map(encoder_at(encoder, ingest_ns), payloads))
        return payloads
