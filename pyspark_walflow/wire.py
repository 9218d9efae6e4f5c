"""What walflow and Spark say to each other, byte for byte: docs/reference/spark-protocol.md has it in words.

Both ends import this module and nothing else of each other. It needs the standard library alone.
"""

import hashlib
import hmac
import json
import struct
import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

VERSION: Final = 1
PREFACE: Final = (
    b"WALFLOW/1\r\n\r\n"  # said first, by Spark's side: a stranger (HTTP, say) answers it with its own words
)
HEADER: Final = struct.Struct("<IIB")  # bytes of the payload, its zlib.crc32, kind
MAX_CONTROL: Final = 1 << 20  # bytes of any payload but DATA
MAX_PAYLOAD: Final = (1 << 31) + 64  # one record of the log at its largest
DEFAULT_PORT: Final = 7700

SEED: Final = struct.Struct("<I")  # DATA begins with the seed of its records' checksums


class FrameKind(IntEnum):
    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    HEAD = 10
    WAIT = 11
    PLAN = 12
    LEASE = 13
    LOCATE = 14
    READ = 20
    COMMIT = 21
    STAGE = 30
    LINES = 31
    STAGED = 32
    PUBLISH = 33
    ABORT = 34
    OK = 50
    DATA = 51
    LOST = 52
    BUSY = 53
    PLACE = 54
    ERROR = 60


class Code:
    """Of an ERROR. `RETRY` names those that may go away by themselves."""

    PROTOCOL: Final = "protocol"
    VERSION: Final = "version"
    DENIED: Final = "denied"
    WRONG_LOG: Final = "wrong-log"
    UNDECLARED: Final = "undeclared-consumer"
    LEASED: Final = "leased"
    TAKEN: Final = "taken"
    NEW_CHECKPOINT: Final = "new-checkpoint"
    BELOW_FLOOR: Final = "below-floor"
    BEYOND_HEAD: Final = "beyond-head"
    NO_SPACE: Final = "no-space"
    CANNOT_READ: Final = "cannot-read"
    TOO_LARGE: Final = "too-large"
    UNKNOWN_STAGE: Final = "unknown-stage"
    STOPPING: Final = "stopping"
    INTERNAL: Final = "internal"

    RETRY: Final = frozenset({LEASED, TAKEN, NO_SPACE, CANNOT_READ, STOPPING})


class Right:
    """What a connection may do. `FULL` is proved with the token, the others with tickets made from it."""

    FULL: Final = "full"
    READ: Final = "read"  # HEAD, PLAN, LOCATE, READ
    STAGE: Final = "stage"  # STAGE


class RequestRefused(Exception):
    """The other side's ERROR: `code` is one of `Code`, the text is one line for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Damaged(Exception):
    """Bytes that cannot be what the other side sent."""


class WireKey(NamedTuple):
    """A right and the secret that proves it. A ticket can be handed to executors: it opens no more than its right
    on its log, and the token cannot be had from it."""

    right: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.right})"  # never the secret: this ends up in plans and logs

    @classmethod
    def of_token(cls, token: str) -> "WireKey":
        return cls(Right.FULL, token.encode())

    def ticket(self, right: str, log: str) -> "WireKey":
        return WireKey(right, _mac(self.secret, "ticket", right, log))


def prove(key: WireKey, side: str, own_nonce: str, other_nonce: str) -> str:
    """`side` is "client" or "server"."""
    return _mac(key.secret, "proof", side, key.right, own_nonce, other_nonce).hex()


def same(one: str, other: object) -> bool:
    """`other` is what a peer sent: any JSON value, and its text may hold lone surrogates."""
    return isinstance(other, str) and hmac.compare_digest(one.encode(), other.encode(errors="surrogatepass"))


def frame(kind: FrameKind, payload: bytes = b"") -> bytes:
    return HEADER.pack(len(payload), zlib.crc32(payload), kind) + payload


def control(kind: FrameKind, fields: Mapping[str, object]) -> bytes:
    return frame(kind, json.dumps(fields, separators=(",", ":")).encode())


def fields_of(payload: bytes | memoryview) -> dict[str, object]:
    """Of any frame but DATA and LINES. Raises Damaged."""
    try:
        fields: object = json.loads(bytes(payload)) if payload else {}
    except ValueError:
        raise Damaged("a frame is not JSON") from None
    if not isinstance(fields, dict):
        raise Damaged("a frame is not a JSON object")
    return {str(key): value for key, value in fields.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def check(payload: bytes | memoryview, checksum: int) -> None:
    """Raises Damaged."""
    if zlib.crc32(payload) != checksum:
        raise Damaged("a frame arrived with another checksum than it was sent with")


def _mac(secret: bytes, *words: str) -> bytes:
    return hmac.digest(secret, "\0".join(("walflow", *words)).encode(errors="surrogatepass"), hashlib.sha256)
