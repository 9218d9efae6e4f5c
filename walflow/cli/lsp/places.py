"""Places as the protocol counts them: lines from 0, and in a line units of UTF-16 unless the client chose others."""

from collections.abc import Callable

from lsprotocol import types

from walflow.diagnostics import Source, Span

Units = Callable[[str], int]  # of a text, in the encoding that client and server agreed on


def offset_of(source: Source, place: types.Position, units: Units) -> int:
    """A place behind the end of its line is that end, as the protocol wants it."""
    text = source.text
    begin = 0
    for _ in range(place.line):
        found = text.find("\n", begin)
        if found < 0:
            return len(text)
        begin = found + 1
    end = text.find("\n", begin)
    line = text[begin : end if end >= 0 else len(text)].rstrip("\r")
    passed = 0
    for at, char in enumerate(line):
        if passed >= place.character:
            return begin + at
        passed += units(char)
    return begin + len(line)


def place_of(source: Source, offset: int, units: Units) -> types.Position:
    line, column = source.position(offset)
    return types.Position(line - 1, units(source.text[offset - column + 1 : offset]))


def range_of(span: Span, units: Units) -> types.Range:
    return types.Range(place_of(span.source, span.start, units), place_of(span.source, span.end, units))
