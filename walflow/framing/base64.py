"""Standard base64 with padding and without line breaks: tremor's `base64`, in both directions.

After a step that divides the stream, each piece is one text. As the first step it decodes the stream as texts in a
row, four characters at a time, so it does not matter where a read ends.
"""

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from walflow.framing.processor import Encoder, Processor
from walflow.framing.steps import Decoder, Item, Refused
from walflow.plugins import known_keys

_characters = re.compile(rb"[A-Za-z0-9+/]*").match


def encode(payload: bytes) -> bytes:
    return binascii.b2a_base64(payload, newline=False)


class Base64:
    name = "base64"
    cuts = False

    def __repr__(self) -> str:
        return "<base64>"

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        return _Pieces() if cut_before else _Stream()

    def takes(self, limit: int) -> int:
        return -(-limit // 3) * 4


class _Pieces(Decoder):
    def feed(self, piece: bytes) -> Iterator[Item]:
        try:
            yield binascii.a2b_base64(piece, strict_mode=True)
        except ValueError as error:
            yield Refused(f"not base64: {_words(error)}", piece=piece)


class _Stream(Decoder):
    def __init__(self) -> None:
        self._tail = b""  # up to three characters

    def feed(self, piece: bytes) -> Iterator[Item]:
        data = self._tail + piece
        whole = len(data) & ~3
        self._tail = data[whole:]
        decoded: list[bytes] = []
        refused: list[Refused] = []
        for text in _texts(data[:whole]):
            try:
                decoded.append(binascii.a2b_base64(text, strict_mode=True))
            except ValueError as error:
                sound = _sound(text)
                decoded.append(binascii.a2b_base64(sound))
                refused.append(Refused(f"not base64: {_words(error)}", ends=True, piece=text[len(sound) :]))
                break
        if any(decoded):
            yield b"".join(decoded)
        yield from refused

    def lost(self) -> Iterator[Item]:
        self._tail = b""
        return iter(())

    def finish(self, *, complete: bool) -> Iterator[Item]:
        if self._tail:
            last, self._tail = self._tail, b""
            yield Refused("not base64: the stream ended inside four characters", piece=last)


def _texts(data: bytes) -> Iterator[bytes]:
    """Decodes texts with their padding, one after the other. The length of `data` is a multiple of four."""
    start = 0
    while (padding := data.find(b"=", start)) >= 0:
        end = (padding | 3) + 1
        yield data[start:end]
        start = end
    yield data[start:]


def _sound(text: bytes) -> bytes:
    """The groups of four characters before the first invalid one."""
    found = _characters(text)
    return text[: found.end() & ~3] if found else b""


def _words(error: ValueError) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _step(config: Mapping[str, object]) -> Base64:
    known_keys("base64", config)
    return Base64()


def _encoder(config: Mapping[str, object]) -> Encoder:
    known_keys("base64", config)
    return encode


PROCESSOR: Final = Processor(
    description="Each piece as standard base64, with padding and without line breaks.", step=_step, encoder=_encoder
)
