"""Each `end` of each shipped flow is taken away in turn: one error names the construct where it opened,
and none follows."""

from pathlib import Path

import pytest
from lark import Token

from walflow.diagnostics import Diagnostic, Source
from walflow.lang.blocks import opens, shown
from walflow.lang.parser import parse
from walflow.lang.scan import scan

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "flows").rglob("*.troy"), *(ROOT / "walflow" / "modules").rglob("*.troy")])


def said(source: Source) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    parse(source, found.append)
    return found


def pairs(tokens: list[Token]) -> list[tuple[int, int]]:
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    for here, token in enumerate(tokens):
        if token.type == "END":
            found.append((opened.pop(), here))
        elif opens(tokens, here, [tokens[one].type for one in opened]):
            opened.append(here)
    assert not opened
    return found


@pytest.mark.test
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
@pytest.mark.parametrize("semicolon", [False, True], ids=["end", "end and ;"])
def test_what_has_no_end_is_named_where_it_opened(path: Path, semicolon: bool) -> None:
    text = path.read_text("utf-8")
    source = Source(path.name, text)
    if any(one.severity == "error" for one in said(source)):
        return
    tokens = [*scan(source), Token("$END", "", len(text))]
    for opener, end in pairs(tokens):
        begin, stop = tokens[end].start_pos or 0, tokens[end].end_pos or 0
        if semicolon and tokens[end + 1].type == "SEMICOLON":
            stop = tokens[end + 1].end_pos or 0
        [error] = said(Source(path.name, text[:begin] + " " * (stop - begin) + text[stop:]))
        what, span = shown(source, tokens, opener)
        assert error.message == f"{what} has no `end`"
        assert error.span is not None
        assert error.span.start == span.start
