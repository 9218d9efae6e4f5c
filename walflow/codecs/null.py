"""Nothing: tremor's `null`. For a source whose events matter only in number,
and a sink that writes their frames alone."""

from collections.abc import Mapping
from typing import Final

from walflow.event import Frames, Framing, Verdict
from walflow.plugins import known_keys


class NullCodec:
    name = "null"
    config: Mapping[str, object] = {}
    transparent = False

    def __repr__(self) -> str:
        return "<NullCodec>"

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        return Verdict(Frames(data, framing.count(data) if count is None else count, framing))

    def decode(self, payload: bytes) -> object:
        return None

    def encode(self, value: object) -> bytes:
        return b""

    def whole(self, payload: bytes) -> bool:
        return False


NULL: Final = NullCodec()


def null_codec(config: Mapping[str, object]) -> NullCodec:
    """Any bytes, each read as null. Of a value, no bytes are written."""
    known_keys("codec null", config)
    return NULL
