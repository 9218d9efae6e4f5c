"""`ingest-ns` as a postprocessor: the time at which an event came in stands before it, as 8 bytes, big-endian, in
nanoseconds.

There is no preprocessor of this name, which tremor has: a block has one time of arrival.
"""

import struct
from collections.abc import Mapping
from typing import Final

from walflow.framing.processor import Processor
from walflow.plugins import known_keys

_pack = struct.Struct(">Q").pack


class IngestNs:
    def __init__(self, ingest_ns: int = 0) -> None:
        self._time = _pack(ingest_ns)

    def __repr__(self) -> str:
        return "<IngestNs>"

    def at(self, ingest_ns: int) -> "IngestNs":
        return IngestNs(ingest_ns)

    def __call__(self, payload: bytes) -> bytes:
        return self._time + payload


def _encoder(config: Mapping[str, object]) -> IngestNs:
    """Raises WalflowError."""
    known_keys("ingest-ns", config)
    return IngestNs()


PROCESSOR: Final = Processor(
    description="The time at which the event came in stands before it, in nanoseconds, as 8 bytes, big-endian.",
    encoder=_encoder,
    gives_any_byte=True,
)
