"""JSON, validated without building values (`walflow_kernel.sound`), and passed on as the bytes it came in.

Differs from tremor: an unchanged event keeps its white space, doubled keys and numbers of any size; a number beyond
the range of a double (1e999) or of 64 bits passes through, and is refused only where it is read, or written anew.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.event import Codec, Frames, Framing, Verdict
from walflow.framing import LINES
from walflow.plugins import known_keys
from walflow_kernel import json, sound
from walflow_kernel.errors import NotJson

SLICE: Final = 64  # lines tried together after a whole read failed: one bad line then costs 64 parses, not 2,600


class Json:
    name = "json"

    def __init__(self, *, sort: bool) -> None:
        self.config: Mapping[str, object] = {"mode": "sorted"} if sort else {}
        self.transparent = not sort
        self._sort = sort

    def __repr__(self) -> str:
        return "<Json sorted>" if self._sort else "<Json>"

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        if framing is LINES:
            valid = sound.count(data, count)
            if valid is not None:
                return Verdict(Frames(data, valid, framing))
        return _sift(data, framing)

    def decode(self, payload: bytes) -> object:
        """A number beyond 64 bits or the range of a double comes as what it is, see `walflow_kernel.values`."""
        try:
            return json.value(payload)
        except NotJson as error:
            raise CannotDecode(f"not JSON: {error}") from error

    def encode(self, value: object) -> bytes:
        try:
            return json.sorted_text(value) if self._sort else json.encoded(value)
        except NotJson as error:
            raise CannotEncode(f"not JSON: {error}") from error

    def whole(self, payload: bytes) -> bool:
        return payload[-1:] not in b"0123456789" if payload else True


def _sift(data: bytes, framing: Framing) -> Verdict:
    payloads = framing.payloads(data)
    good: list[bytes] = []
    bad: list[tuple[bytes, str]] = []
    for start in range(0, len(payloads), SLICE):
        some = payloads[start : start + SLICE]
        if framing is LINES and sound.count(LINES.join(some)) == len(some):
            good += some
        else:
            _sort_out(some, good, bad)
    if not bad:
        return Verdict(Frames(data, len(good), framing))
    return Verdict(Frames(framing.join(good), len(good), framing) if good else None, bad)


def _sort_out(payloads: Sequence[bytes], good: list[bytes], bad: list[tuple[bytes, str]]) -> None:
    for payload in payloads:
        reason = sound.refusal(payload)
        if reason is None:
            good.append(payload)
        else:
            bad.append((payload, reason))


def within_record(codec: Codec, payload: bytes) -> bytes | None:
    """A payload of `codec` as JSON on one line. None for what has no JSON form, or nests so deep that no record may
    be around it."""
    if not isinstance(codec, Json):
        try:
            payload = JSON.encode(codec.decode(payload))
        except (CannotDecode, CannotEncode):
            return None
    if payload.count(b"[") + payload.count(b"{") >= json.DEEPEST:
        return None
    return payload.replace(b"\n", b" ")  # a newline in JSON is a space


JSON: Final = Json(sort=False)
JSON_SORTED: Final = Json(sort=True)


def json_codec(config: Mapping[str, object]) -> Json:
    """One JSON value, in UTF-8. It is written without spaces, and with `{"mode": "sorted"}` with sorted keys. An
    event that no pipeline has changed keeps its bytes, unless `sorted` is set.

    Raises WalflowError.
    """
    known_keys("codec json", config, ("mode",))
    mode = config.get("mode", "unsorted")
    if mode not in ("sorted", "unsorted"):
        raise WalflowError(f"json has the modes sorted and unsorted, not {mode!r}")
    return JSON_SORTED if mode == "sorted" else JSON
