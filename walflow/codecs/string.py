"""UTF-8 text. A value that is no string is written as compact JSON, as in tremor."""

from collections.abc import Mapping
from typing import Final

from walflow.codecs.json import JSON
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Frames, Framing, Verdict
from walflow.framing import LINES, WHOLE
from walflow.plugins import known_keys

_TEXTUAL: Final = (LINES.name, WHOLE.name)


class String:
    name = "string"
    config: Mapping[str, object] = {}
    transparent = True

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        # all at once only where no frame has bytes of its own that could complete a character, or are none
        if data.isascii() or (framing.name in _TEXTUAL and _is_text(data)):
            return Verdict(Frames(data, framing.count(data) if count is None else count, framing))
        good: list[bytes] = []
        bad: list[tuple[bytes, str]] = []
        for payload in framing.payloads(data):
            if _is_text(payload):
                good.append(payload)
            else:
                bad.append((payload, "not UTF-8"))
        return Verdict(Frames(framing.join(good), len(good), framing) if good else None, bad)

    def decode(self, payload: bytes) -> object:
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise CannotDecode("not UTF-8") from error

    def encode(self, value: object) -> bytes:
        if not isinstance(value, str):
            return JSON.encode(value)
        try:
            return value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
            raise CannotEncode("a character that UTF-8 cannot hold") from None

    def whole(self, payload: bytes) -> bool:
        return False


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


STRING: Final = String()


def string_codec(config: Mapping[str, object]) -> String:
    """UTF-8 text. A string is written unchanged, any other value as JSON."""
    known_keys("codec string", config)
    return STRING
