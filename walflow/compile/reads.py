"""Which parts of an event are read, and how only these are decoded.

`ReadShape.of` collects the paths. If no expression needs the event whole, `BlockDecoder` decodes into a generated
Struct with only these members. One call decodes a whole block of lines, at a fifth of the cost. A value that is no
record decodes unchanged, so one such value does not fail its block. An event that the fast decoder refuses (a number
out of range in a member that is read) is decoded whole and alone. Both ways have the same result, because a number
out of range is an error where it is read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, NamedTuple

import msgspec

from walflow.codecs import JSON, JSON_SORTED, MSGPACK
from walflow.compile.expressions import Keys, bound_keys
from walflow.compile.listing import Listing, Table
from walflow.compile.program import ReadPath, Term, WholeTerm, parts
from walflow.errors import CannotDecode
from walflow.event import Codec, Frames
from walflow.framing import LINES
from walflow_kernel.projection import Wanted, classes, kind


@dataclass
class ReadShape:
    """`paths`: by their keys. `whole`: the event itself is needed, or a part of it whose key depends on the event."""

    whole: bool = False
    paths: dict[Keys, None] = field(default_factory=dict[Keys, None])  # in the order they are met

    @classmethod
    def of(cls, terms: Iterable[Term], root: str) -> "ReadShape":
        shape = cls()
        waiting = list(terms)
        while waiting:
            term = waiting.pop()
            if isinstance(term, WholeTerm) and term.root == root:
                shape.whole = True
            elif isinstance(term, ReadPath) and isinstance(term.of, WholeTerm) and (keys := bound_keys(term)):
                if term.of.root == root:
                    shape.paths[keys] = None
                waiting += [one for one in parts(term) if one is not term.of]
            else:
                waiting += parts(term)
        return shape

    @property
    def projects(self) -> bool:
        return not self.whole and all(map(_is_field, (key for keys in self.paths for key in keys)))


def _is_field(key: str) -> bool:
    """Whether msgspec accepts it as the name of a field."""
    return (
        key.isprintable()
        and '"' not in key
        and "\\" not in key
        and not any("\ud800" <= one <= "\udfff" for one in key)
    )


class _Node:
    """One record on the way to a value that is read. `wanted`: the local that its value is bound to."""

    def __init__(self) -> None:
        self.wanted: str | None = None
        self.members: dict[str, _Node] = {}
        self.name = ""


class Undecodable(NamedTuple):
    number: int
    reason: str


class Decoded(NamedTuple):
    """`numbers`: of the events that could be decoded, in order."""

    numbers: Sequence[int]
    events: Iterable[object]
    refused: Sequence[Undecodable] = ()


class BlockDecoder:
    """Decodes the events of a region, and writes the head of its code, which binds the paths that are read."""

    def __init__(self, shape: ReadShape, table: Table) -> None:
        self.paths: dict[Keys, str] = {keys: f"p{number}" for number, keys in enumerate(shape.paths)}
        self._keypaths = {keys: table.add("k", keys) for keys in shape.paths}
        self._table = table
        self.whole = shape.whole
        self.wanted: Wanted | None = None
        self._top = _Node()
        self._json: Any = None
        self._msgpack: Any = None
        if shape.projects and shape.paths:
            for keys, name in self.paths.items():
                node = self._top
                for key in keys:
                    node = node.members.setdefault(key, _Node())
                node.wanted = name
            self.wanted = self._shape(self._top)
            made = classes(self.wanted)
            table.names |= made
            self._kind: Any = kind(made[self.wanted.name])
            self._json = msgspec.json.Decoder(self._kind)

    @property
    def nothing(self) -> bool:
        """Nothing is read, not even whether the event is a record."""
        return not self.whole and not self.paths

    def _shape(self, node: _Node) -> Wanted:
        members = tuple(
            (key, None if member.wanted is not None else self._shape(member)) for key, member in node.members.items()
        )
        node.name = self._table.add("R", None)
        return Wanted(node.name, members)

    # ---- the head

    def bind(self, listing: Listing, name: str) -> None:
        """`name`: the local of the event."""
        if self._json is None:
            bind_whole(listing, name, self.paths, self._keypaths, self._table)
            return
        with listing.block(f"if type({name}) is {self._top.name}:"):
            self._bind(listing, self._top, name, ())
        with listing.block("else:"):
            for keys, local in self.paths.items():
                listing.put(f"{local} = reach({name}, {self._keypaths[keys]})")

    def _bind(self, listing: Listing, node: _Node, name: str, above: Keys) -> None:
        for number, (key, member) in enumerate(node.members.items()):
            keys = (*above, key)
            if member.wanted is not None:
                listing.put(f"{member.wanted} = {name}.f{number}")
                for deeper, local in self.paths.items():
                    if deeper[: len(keys)] == keys and deeper != keys:
                        path = self._keypaths[deeper]
                        listing.put(f"{local} = reach({member.wanted}, {path}, {len(keys)})")
                continue
            inner = f"{name}_{number}"
            listing.put(f"{inner} = {name}.f{number}")
            with listing.block(f"if type({inner}) is {member.name}:"):
                self._bind(listing, member, inner, keys)
            with listing.block("else:"):
                for deeper, local in self.paths.items():
                    if deeper[: len(keys)] == keys:
                        listing.put(f"{local} = reach({inner}, {self._keypaths[deeper]}, {len(keys)})")

    # ---- decoding

    def decode(self, frames: Frames, codec: Codec, *, project: bool = True) -> Decoded:
        """`project=False` is for tests: the result must be the same."""
        if self.nothing:
            return Decoded(range(frames.count), repeat(None))
        decoder = None if not project else self._decoder(codec)
        if (decoder is not None or self.whole) and codec in (JSON, JSON_SORTED) and frames.framing is LINES:
            try:
                events: list[object] = (decoder or _WHOLE).decode_lines(frames.data)
                if len(events) == frames.count:
                    return Decoded(range(frames.count), events)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # one of them must be decoded alone
        return _each(frames.payloads(), codec.decode, None if decoder is None else decoder.decode)

    def _decoder(self, codec: Codec) -> Any:
        if codec in (JSON, JSON_SORTED):
            return self._json
        if codec is not MSGPACK or self._json is None:
            return None
        if self._msgpack is None:
            self._msgpack = msgspec.msgpack.Decoder(self._kind)  # binary data is decoded whole
        return self._msgpack


def _each(
    payloads: Sequence[bytes], whole: Callable[[bytes], object], quick: Callable[[bytes], object] | None
) -> Decoded:
    events: list[object] = []
    refused: list[Undecodable] = []
    numbers: list[int] = []
    for number, payload in enumerate(payloads):
        try:
            if quick is None:
                events.append(whole(payload))
            else:
                try:
                    events.append(quick(payload))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
                    events.append(whole(payload))
            numbers.append(number)
        except CannotDecode as error:  # valid at the source, but too large or too deep here
            refused.append(Undecodable(number, str(error)))
    return Decoded(numbers, events, refused)


def bind_whole(listing: Listing, name: str, paths: dict[Keys, str], keypaths: dict[Keys, str], table: Table) -> None:
    """Binds paths in a value that is decoded whole."""
    for keys, local in paths.items():
        reached = f"reach({name}, {keypaths[keys]})"
        if len(keys) == 1:
            quick = f"{name}.get({table.constant(keys[0])}, ABSENT) if type({name}) is dict"
            listing.put(f"{local} = {quick} else {reached}")
        else:
            listing.put(f"{local} = {reached}")


_WHOLE: Final = msgspec.json.Decoder()
