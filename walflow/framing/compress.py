"""`decompress` and `compress`, as tremor has them: one algorithm, or what the first bytes say.

Behind a step that cuts, each piece is compressed by itself. As the first step `decompress` takes the stream as one
member after the other, wherever reads end. What comes out is either cut by a later step, and then passed on as it
comes, or each member is a piece, and then none over the limit is ever made.

Unlike tremor's, `compress` with xz has the level 6 and not 9 unless one is named: 9 takes 72 ms and 674 MB for each
event, and events are too small to gain anything from it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from walflow.errors import WalflowError
from walflow.framing.compression import FORMATS, Corrupt, Members, format_named
from walflow.framing.processor import Processor
from walflow.framing.steps import Decoder, Item, Refused, Worked
from walflow.plugins import known_keys


def encoder(config: Mapping[str, object]) -> Callable[[bytes], bytes]:
    """Raises WalflowError."""
    known_keys("compress", config, ("algorithm", "level"))
    if "algorithm" not in config:
        raise WalflowError(f"compress wants an algorithm: {', '.join(FORMATS)}")
    name = format_named(config["algorithm"], "compress")
    made = FORMATS[name]
    level = config.get("level", made.level)
    low, high = made.levels
    if isinstance(level, bool) or not isinstance(level, int) or not low <= level <= high:
        raise WalflowError(f"compress with {name} has the levels {low} to {high}, not {level!r}")
    return partial(_compressed, made.compress, level)


def _compressed(compress: Callable[[bytes, int], bytes], level: int, payload: bytes) -> bytes:
    return compress(payload, level)


class Decompress:
    name = "decompress"
    cuts = False

    def __init__(self, algorithm: str | None) -> None:
        self.algorithm = algorithm

    def __repr__(self) -> str:
        return f"<decompress {self.algorithm or 'autodetect'}>"

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> "Decompress":
        """Raises WalflowError."""
        known_keys("decompress", config, ("algorithm",))
        algorithm = config.get("algorithm", "autodetect")
        return cls(None if algorithm == "autodetect" else format_named(algorithm, "decompress"))

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        kept = None if cut_after else limit
        return _Pieces(self.algorithm, kept) if cut_before else _Stream(self.algorithm, kept)

    def takes(self, limit: int) -> int:
        return limit + limit // 64 + 1024  # what cannot be compressed grows by less


class _Member:
    """Collects the output of a member. Without a limit, the output is passed on at once."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> Iterator[Item]:
        """Raises Corrupt if the output gets too large."""
        if self._limit is None:
            if part:
                yield part
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            self.drop()
            raise Corrupt(f"event decompresses to more than max_event_bytes, {self._limit}")

    def end(self) -> Iterator[Item]:
        parts = self._parts
        self.drop()
        if self._limit is not None:
            yield b"".join(parts)

    def drop(self) -> None:
        self._parts = []
        self._size = 0


class _Pieces(Decoder):
    """Each piece is complete: one member or several."""

    def __init__(self, algorithm: str | None, limit: int | None) -> None:
        self._algorithm = algorithm
        self._member = _Member(limit)

    def feed(self, piece: bytes) -> Iterator[Item]:
        members = Members(self._algorithm)
        members.feed(piece)
        try:
            if not piece and self._algorithm is not None:
                raise Corrupt(f"the {self._algorithm} data ended too early")
            while (read := members.read()) is not None:
                yield Worked(len(read[0]))
                yield from self._member.add(read[0])
            yield from self._member.add(members.end())
            yield from self._member.end()
        except Corrupt as error:
            self._member.drop()
            yield Refused(str(error), piece=piece)


class _Stream(Decoder):
    """Each member contains its end. Data that is not compressed ends with the read."""

    def __init__(self, algorithm: str | None, limit: int | None) -> None:
        self._members = Members(algorithm)
        self._member = _Member(limit)

    def feed(self, piece: bytes) -> Iterator[Item]:
        self._members.feed(piece)
        try:
            while (read := self._members.read()) is not None:
                yield Worked(len(read[0]))
                yield from self._member.add(read[0])
                if read[1]:
                    yield from self._member.end()
            if self._members.plain:
                yield from self._member.end()
        except Corrupt as error:
            self._member.drop()
            yield Refused(f"{error}: what follows cannot be read", ends=True)

    def finish(self, *, complete: bool) -> Iterator[Item]:
        try:
            open_member = self._members.may_end and not self._members.plain
            beginning = self._members.end()
            if beginning or open_member:
                yield from self._member.add(beginning)
                yield from self._member.end()
        except Corrupt as error:
            self._member.drop()
            yield Refused(str(error))


COMPRESS: Final = Processor(
    description="Compresses each event separately.",
    config="`algorithm`, `level`",
    encoder=encoder,
    gives_any_byte=True,
)
DECOMPRESS: Final = Processor(
    description="Decompresses.",
    config="`algorithm`; default `autodetect`",
    step=Decompress.from_config,
    takes_any_byte=True,
)
