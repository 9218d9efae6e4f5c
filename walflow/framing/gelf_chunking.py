"""GELF messages over UDP that came in chunks, put together: tremor's preprocessor `gelf-chunking`.

    1e 0f  id (8 bytes)  number (from 0)  count (1 to 128)  data

Chunks may come in any order, and other messages' between them. A datagram that is no chunk is a message as it is:
JSON, or compressed, which `decompress` behind this step reads. (tremor refuses a compressed one.) A message whose
chunks do not all come is refused when its place is needed, and not after five seconds: a step has no clock.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.framing.processor import Processor
from walflow.framing.steps import Decoder, Item, Refused, Worked
from walflow.plugins import known_keys

CHUNK: Final = b"\x1e\x0f"
PLAIN: Final = b"\x1f\x3c"  # before a message that is neither compressed nor in chunks, in tremor
HEADER: Final = 12  # bytes
CHUNKS: Final = 128  # of a message, by the specification
MESSAGES: Final = 1024  # incomplete ones that are kept
HELD: Final = 16 << 20  # bytes of them, or one of the largest size that is allowed


class GelfMessage:
    """The chunks of one so far."""

    def __init__(self, count: int) -> None:
        self.chunks: list[bytes | None] = [None] * count
        self.missing = count
        self.size = 0


class GelfChunking:
    """The incomplete messages of a connector, for all its streams: to `udp_server` each datagram is a stream."""

    name = "gelf-chunking"
    cuts = False

    def __init__(self) -> None:
        self._waiting: dict[bytes, GelfMessage] = {}  # the oldest one first
        self._held = 0

    def __repr__(self) -> str:
        return f"<gelf-chunking, {len(self._waiting)} incomplete>"

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        return _Decoder(self, limit)

    def takes(self, limit: int) -> int:
        return limit + HEADER

    def take(self, chunk: bytes, limit: int) -> Iterator[Item]:
        if len(chunk) < HEADER:
            yield Refused(f"not gelf: a chunk of {len(chunk)} bytes", piece=chunk)
            return
        name, number, count, data = chunk[2:10], chunk[10], chunk[11], chunk[HEADER:]
        if not number < count <= CHUNKS:
            yield Refused(f"not gelf: chunk {number} of {count}", piece=chunk)
            return
        message = self._waiting.setdefault(name, GelfMessage(count))
        if len(message.chunks) != count or message.chunks[number] not in (None, data):
            self._remove(name)
            yield Refused("not gelf: chunks of two messages with one id", piece=chunk)
            return
        self._add(message, number, data)
        if message.size > limit:
            self._remove(name)
            yield Refused(f"event of at least {message.size} bytes exceeds max_event_bytes, {limit}")
        elif not message.missing:
            self._remove(name)
            yield b"".join([part for part in message.chunks if part])
        else:
            yield Worked(1)
        while len(self._waiting) > MESSAGES or self._held > max(limit, HELD):
            yield self._drop_oldest()

    def _add(self, message: GelfMessage, number: int, data: bytes) -> None:
        if message.chunks[number] is None:
            message.chunks[number] = data
            message.missing -= 1
            message.size += len(data)
            self._held += len(data)

    def _remove(self, name: bytes) -> None:
        self._held -= self._waiting.pop(name).size

    def _drop_oldest(self) -> Refused:
        name, message = next(iter(self._waiting.items()))
        self._remove(name)
        return Refused(f"{message.missing} of {len(message.chunks)} chunks of a gelf message did not come")


class _Decoder(Decoder):
    def __init__(self, step: GelfChunking, limit: int) -> None:
        self._step = step
        self._limit = limit

    def feed(self, piece: bytes) -> Iterator[Item]:
        if piece.startswith(CHUNK):
            yield from self._step.take(piece, self._limit)
        else:
            yield piece.removeprefix(PLAIN)


def _step(config: Mapping[str, object]) -> GelfChunking:
    known_keys("gelf-chunking", config)
    return GelfChunking()


PROCESSOR: Final = Processor(
    description="GELF messages over UDP: puts together what came in chunks.", step=_step, wants_pieces=True
)
