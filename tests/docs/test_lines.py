"""Prose of the pages keeps to the length of a line that code has. Tables, examples and what a program makes may be
longer; decisions are left as they were written."""

import re
import tomllib
from collections.abc import Iterator

from tests.docs.pages import DOCS, ROOT
from tests.docs.words import written

LENGTH: int = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["line-length"]
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "decisions" not in page.parts]
EXAMPLE = re.compile(r"^[ ]*```.*?^[ ]*```$", re.DOTALL | re.MULTILINE)


def long_lines(text: str) -> Iterator[str]:
    for line in EXAMPLE.sub("", text).splitlines():
        code = any(len(span) > LENGTH // 2 for span in re.findall(r"`[^`]+`", line))  # it is not broken
        if len(line) > LENGTH and not code and not line.startswith(("|", "#", "<!--", "    ")):
            yield line


def test_a_line_of_prose_has_a_length() -> None:
    assert [(page.name, line) for page in PAGES for line in long_lines(written(page))] == []


def test_a_long_line_is_found() -> None:
    long = "word " * 30
    assert list(long_lines(f"short\n{long}\n| {long} |\n```text\n{long}\n```\n")) == [long]
