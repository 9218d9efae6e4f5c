"""What of an event is decoded: the members that are read, and no others, as a class that msgspec makes.

`Wanted` is the shape as plain data, so that it goes to Spark's executors. Where msgspec is missing there are no
classes, and events are decoded whole; generated code looks at the type of what it gets.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from walflow_kernel.paths import ABSENT

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]


class Wanted(NamedTuple):
    """A record of which these members are read. `name`: what generated code calls its class. The shape of a member is
    None where the member itself is read."""

    name: str
    members: "tuple[tuple[str, Wanted | None], ...]"


class NotDecoded:
    """No event is one: it stands for a class that there is not."""


def classes(wanted: Wanted) -> Mapping[str, type]:
    """By the names that generated code has for them."""
    found: dict[str, type] = {}
    _class_of(wanted, found)
    return found


def kind(made: type) -> Any:
    """With what is no record at its place, so that it does not fail the block."""
    return Union[made, None, bool, int, float, str, list[Any]]  # noqa: UP007


class EventDecoder(NamedTuple):
    """Both raise ValueError or RecursionError. `lines`: an event a line."""

    one: Callable[[bytes], object]
    lines: Callable[[bytes], Sequence[object]]


def event_decoder(of: Any) -> EventDecoder | None:
    """`of`: what `kind` made; None for the whole event. None where msgspec is missing."""
    if msgspec is None:
        return None
    decoder: Any = msgspec.json.Decoder(Any if of is None else of)
    bad = msgspec.MsgspecError

    def one(text: bytes) -> object:
        try:
            return decoder.decode(text)
        except bad as error:
            raise ValueError(str(error)) from None

    def lines(data: bytes) -> Sequence[object]:
        try:
            found: Sequence[object] = decoder.decode_lines(data)
        except bad as error:
            raise ValueError(str(error)) from None
        return found

    return EventDecoder(one, lines)


def _class_of(wanted: Wanted, found: dict[str, type]) -> type:
    inner = [None if member is None else _class_of(member, found) for _, member in wanted.members]
    if msgspec is None:
        found[wanted.name] = NotDecoded
        return NotDecoded
    fields: list[Any] = [
        (f"f{number}", Any if one is None else kind(one), msgspec.field(name=key, default=ABSENT))
        for number, ((key, _), one) in enumerate(zip(wanted.members, inner, strict=True))
    ]
    found[wanted.name] = msgspec.defstruct("ReadPath", fields, gc=False)
    return found[wanted.name]
