"""No framing: each read is one event, and an event is written unchanged."""

from collections.abc import Iterable, Mapping, Sequence


class Whole:
    name = "whole"
    config: Mapping[str, object] = {}
    max_length: int | None = None
    countable = False

    def count(self, data: bytes) -> int:
        return 1 if data else 0

    def cut(self, tail: bytearray, data: bytes) -> bytes:
        return data

    def skip(self, data: bytes) -> bytes | None:
        return b""

    def finish(self, tail: bytearray) -> bytes:
        return b""

    def index(self, data: bytes) -> Sequence[int]:
        return [len(data)]

    def frames(self, data: bytes) -> list[bytes]:
        return [data]

    def payloads(self, data: bytes) -> list[bytes]:
        return [data]

    def join(self, payloads: Iterable[bytes]) -> bytes:
        return b"".join(payloads)


WHOLE = Whole()
