"""Python source, written line by line, and the values that it refers to.

No text of a flow file becomes code: names are a letter and a number, values are in a table. Lines of a file become
comments, with only their printable characters.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from walflow.diagnostics import Span

STEP: Final = "    "
SHOWN: Final = 100  # characters of a line in a comment

_locals = re.compile(r"\b[adeimpqtwg]\d*\b").findall
_in_passing = re.compile(r"\b([adeimpqtwg]\d*) :=|\bfor ([dt]\d+), ([dt]\d+) in\b").findall
_assigned = re.compile(r"^\s*([adeimpqtwg]\d*) = ").match


class Table:
    """The global names of generated code: constants, steps of paths, functions. Their letters are no locals' ones: a
    local of the same number would hide the global."""

    LETTERS: Final = frozenset("bcfksPR")

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self._known: dict[tuple[type, object], str] = {}

    def add(self, letter: str, value: object) -> str:
        assert letter in self.LETTERS
        name = f"{letter}{len(self.names)}"
        self.names[name] = value
        return name

    def constant(self, value: object) -> str:
        if isinstance(value, str | int | None):  # `0.0 == -0.0`, but they are two constants
            key = (type(value), value)
            if key not in self._known:
                self._known[key] = self.add("c", value)
            return self._known[key]
        return self.add("c", value)


class Listing:
    """Lines, each with the place in a flow file that it comes from."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.spans: list[Span | None] = []
        self.depth = depth

    def put(self, line: str, span: Span | None = None) -> None:
        self.lines.append(STEP * self.depth + line)
        self.spans.append(span)

    def comment(self, span: Span) -> None:
        """The line of the file in which `span` begins."""
        line = span.source.position(span.start).line
        text = "".join(one if one.isprintable() else "?" for one in span.source.line(line).strip())
        name = "".join(one if one.isprintable() else "?" for one in span.source.name)
        self.put(f"# {name}:{line}: {text[:SHOWN]}")

    @contextmanager
    def block(self, head: str, span: Span | None = None) -> Generator[None]:
        self.put(head, span)
        self.depth += 1
        before = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.put("pass")
        self.depth -= 1

    def add(self, other: "Listing") -> None:
        """Adds lines at this depth. `other` began at depth 0."""
        self.lines += [STEP * self.depth + line for line in other.lines]
        self.spans += other.spans

    def needs(self) -> list[str]:
        """The locals of an event that it uses and does not set, in the order of their first use."""
        made: set[str] = set()
        used: dict[str, Any] = {}
        for line in self.lines:
            code = line.partition("#")[0]
            found = _assigned(code)
            made |= {name for names in _in_passing(code) for name in names}
            right = code[found.end() :] if found else code
            used |= {name: None for name in _locals(right) if name not in made}
            if found:
                made.add(found[1])
        return list(used)


def printable(text: str) -> str:
    """For a comment of the source, and for the name by which a traceback knows it."""
    return "".join(one if one.isprintable() else "?" for one in text)
