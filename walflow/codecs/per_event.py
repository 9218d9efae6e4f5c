"""A codec that decodes each event alone, as most codecs do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from walflow.errors import CannotDecode
from walflow.event import Frames, Framing, Verdict


class EventCodec(ABC):
    """Converts the bytes of one event to a value and back. A subclass sets `name` and defines `decode` and `encode`;
    see `walflow.Codec`."""

    name: str
    config: Mapping[str, object] = {}
    transparent = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {dict(self.config) or ''}>".replace(" >", ">")

    @abstractmethod
    def decode(self, payload: bytes) -> object:
        """The event's value: a value of JSON, or bytes. Raises CannotDecode, and nothing else, for bad bytes."""

    @abstractmethod
    def encode(self, value: object) -> bytes:
        """Raises CannotEncode for a value that this codec cannot write."""

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        good: list[bytes] = []
        bad: list[tuple[bytes, str]] = []
        for payload in framing.payloads(data):
            try:
                self.decode(payload)
            except CannotDecode as error:
                bad.append((payload, str(error)))
            else:
                good.append(payload)
        if not bad:
            return Verdict(Frames(data, len(good), framing))
        return Verdict(Frames(framing.join(good), len(good), framing) if good else None, bad)

    def whole(self, payload: bytes) -> bool:
        """True if a valid payload cannot be the beginning of a longer one."""
        return False
