"""Events as hexadecimal digits, in both directions."""

from collections.abc import Callable, Mapping

from walflow import EachPiece, Processor, known_keys


def preprocessor(config: Mapping[str, object]) -> EachPiece:
    """Each piece that comes is one text of digits. A ValueError refuses that piece: it leaves by the port `err`."""
    known_keys("hexed", config)
    return EachPiece("hexed", decode)


def postprocessor(config: Mapping[str, object]) -> Callable[[bytes], bytes]:
    """What each event passes on its way out."""
    known_keys("hexed", config)
    return encode


def decode(piece: bytes) -> bytes:
    return bytes.fromhex(piece.decode("ascii"))


def encode(payload: bytes) -> bytes:
    return payload.hex().encode()


HEXED = Processor(description="Hexadecimal digits.", step=preprocessor, encoder=postprocessor)
