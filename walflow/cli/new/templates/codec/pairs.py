"""Lines such as `level=info host=web1`: each event is a record of texts."""

from collections.abc import Mapping
from typing import cast

from walflow import CannotDecode, CannotEncode, EventCodec, WalflowError, known_keys


class Pairs(EventCodec):
    """`key=value` pairs with a separator between them."""

    name = "pairs"

    def __init__(self, config: Mapping[str, object]) -> None:
        """`config`: the record of the flow file, `{"name": "pairs", "config": {"separator": ";"}}`."""
        known_keys("codec pairs", config, ("separator",))
        separator = config.get("separator", " ")
        if not isinstance(separator, str) or not separator:
            raise WalflowError(f"codec pairs wants a separator of at least one character, not {separator!r}")
        self.config = config
        self._separator = separator

    def decode(self, payload: bytes) -> object:
        """What it refuses leaves by the port `err`, with this text."""
        try:
            pairs = [part.split("=", 1) for part in payload.decode().split(self._separator) if part]
        except UnicodeDecodeError as error:
            raise CannotDecode("not UTF-8") from error
        if any(len(pair) == 1 for pair in pairs):
            raise CannotDecode("not pairs: a part has no =")
        return dict(pairs)

    def encode(self, value: object) -> bytes:
        if not isinstance(value, dict):
            raise CannotEncode(f"only a record can be written as pairs, not {type(value).__name__}")
        record = cast(dict[str, object], value)
        return self._separator.join(f"{key}={text}" for key, text in record.items()).encode()
