"""Any bytes, unchanged: the value of an event is `bytes`, which JSON does not have.

A string is encoded as UTF-8, any other value that is not bytes as compact JSON, as in tremor.
"""

from collections.abc import Mapping
from typing import Final

from walflow.codecs.string import STRING
from walflow.event import Frames, Framing, Verdict
from walflow.plugins import known_keys


class Binary:
    name = "binary"
    config: Mapping[str, object] = {}
    transparent = True

    def __repr__(self) -> str:
        return "<Binary>"

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        return Verdict(Frames(data, framing.count(data) if count is None else count, framing))

    def decode(self, payload: bytes) -> object:
        return payload

    def encode(self, value: object) -> bytes:
        return value if isinstance(value, bytes) else STRING.encode(value)

    def whole(self, payload: bytes) -> bool:
        return False


BINARY: Final = Binary()


def binary_codec(config: Mapping[str, object]) -> Binary:
    """Any bytes. Bytes are written unchanged, a string as UTF-8, any other value as JSON."""
    known_keys("codec binary", config)
    return BINARY
