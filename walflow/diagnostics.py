"""What is wrong with a file, and where: spans into source text, and the lines a person reads."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, cast

Severity = Literal["error", "warning"]

MOST_SHOWN = 100  # errors and warnings that a person is shown at once; `check --json` has them all
WIDEST = 160  # columns of a source line that are shown; a file may be one line of a megabyte


class Hidden(str):
    """A text that was read from the file of a secret. No message shows it."""

    def __repr__(self) -> str:
        return "'********'"


def hides(value: object) -> bool:
    """Whether a secret is in it."""
    return any(True for _ in secrets_in(value))


def secrets_in(value: object) -> Iterator[str]:
    whole: Any = value
    if isinstance(value, Hidden):
        yield str(value)
    for one in whole.values() if isinstance(value, dict) else whole if isinstance(value, list) else ():
        yield from secrets_in(one)


def all_hidden(value: Any) -> Any:
    """Each text in it is `Hidden`: it was made of a secret, and may show it."""
    if isinstance(value, str):
        return Hidden(value)
    if isinstance(value, dict):
        return {key: all_hidden(one) for key, one in cast("dict[object, Any]", value).items()}
    if isinstance(value, list):
        return [all_hidden(one) for one in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


HIDDEN: Final = "hidden"  # in the context of a validation: the texts that were `Hidden`


class Position(NamedTuple):
    """As editors count: from 1, in characters."""

    line: int
    column: int


@dataclass(frozen=True, eq=False)
class Source:
    """A text with the name it goes by in messages. Compared by identity: two files may hold the same text."""

    name: str
    text: str
    order: int = 0  # diagnostics of several files come in the order the files were given

    @cached_property
    def _starts(self) -> list[int]:
        """The offsets at which lines begin."""
        return [0, *(newline.end() for newline in re.finditer("\n", self.text))]

    def position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        begin = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[begin:end].rstrip("\r\n")


class Span(NamedTuple):
    """From `start` to `end` (exclusive), counted in characters from 0."""

    source: Source
    start: int
    end: int

    def __repr__(self) -> str:
        return f"<Span {self} {self.text!r}>"

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: "Span") -> "Span":
        return self._replace(end=other.end)


class Diagnostic(NamedTuple):
    """`span` is None where no line is to blame (a file that cannot be read). `hint`: what to do about it. `name`: of
    a warning, for `# check: allow NAME`."""

    severity: Severity
    message: str
    span: Span | None = None
    hint: str | None = None
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.span}: " if self.span else ""
        return _printable(f"{where}{self.severity}: {self.message}")


Report = Callable[[Diagnostic], None]


def error(message: str, span: Span | None = None, hint: str | None = None) -> Diagnostic:
    return Diagnostic("error", without_secrets(message), span, hint)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """By file and position, each once: a module used twice is checked twice."""
    return sorted(dict.fromkeys(diagnostics), key=_place)


def _place(diagnostic: Diagnostic) -> tuple[int, str, int]:
    span = diagnostic.span
    return (span.source.order, span.source.name, span.start) if span else (-1, "", 0)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """`cutoff`: how alike, from 0 to 1."""
    close = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean `{close[0]}`?" if close else None


def one_of(names: Iterable[str]) -> str:
    """`a`, `b` or `c`"""
    quoted = [f"`{name}`" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


WIDEST_CIRCLE = 100  # columns of a drawing


def circle(names: Sequence[str]) -> str:
    """A drawing: the last of them leads to the first."""
    row = in_a_row(names)
    return f"┌─> {row} ─┐\n└{'─' * (len(row) + 5)}┘"


def in_a_row(names: Sequence[str]) -> str:
    """`a -> b -> c`; of many the first and the last."""
    row = " -> ".join(names)
    if len(row) <= WIDEST_CIRCLE:
        return row
    first, last = names[:3], names[-3:]
    left_out = len(names) - len(first) - len(last)
    longest = WIDEST_CIRCLE // 6
    short = [name if len(name) <= longest else f"{name[:longest]}…" for name in (*first, *last)]
    middle = [f"… {left_out} more …"] if left_out > 0 else []
    return " -> ".join([*short[: len(first)], *middle, *short[len(first) :]])


def render(diagnostic: Diagnostic) -> str:
    """The message, the line it is about, a caret under the place, the hint."""
    lines = [str(diagnostic)]
    if diagnostic.span:
        lines += _excerpt(diagnostic.span)
    if diagnostic.hint:
        lines += [_printable(f"      = {line}") for line in diagnostic.hint.splitlines()]
    return "\n".join(lines)


def render_all(diagnostics: Sequence[Diagnostic]) -> str:
    """The first MOST_SHOWN, and how many more there are."""
    shown, more = first_of(diagnostics)
    return "\n".join([*(render(diagnostic) for diagnostic in shown), *([more] if more else [])])


def first_of(diagnostics: Sequence[Diagnostic]) -> tuple[list[Diagnostic], str]:
    """Those that are shown to a person, errors before warnings, and a line about the rest ("" if there is none)."""
    several = in_order(diagnostics)
    if len(several) <= MOST_SHOWN:
        return several, ""
    first = sorted(several, key=lambda diagnostic: diagnostic.severity != "error")[:MOST_SHOWN]
    return in_order(first), f"… and {len(several) - MOST_SHOWN} more: these are the first {MOST_SHOWN}"


# what an operator pastes into a ticket: the line of a mistake must not carry the password that stands on it
# bounded, for a line of a megabyte may be this word again and again
_KEY: Final = r"""(?:passw|passphrase|secret|token)\w{0,100}["'`]?\s{0,9}[:=]\s{0,9}"""
_SECRETS: Final = (
    re.compile(_KEY.join(("(", r"""\[?\s{0,9}")((?:[^"\\]|\\.)*)""")), re.IGNORECASE),
    re.compile(_KEY.join(("(", r"""\[?\s{0,9}')((?:[^'\\]|\\.)*)""")), re.IGNORECASE),
    re.compile(r"""(://[^\s"'/@:]{0,100}:)([^\s"'/@]{1,300})(?=@)"""),
)
_WITHIN: Final = re.compile(_KEY + r"\{[^}]{0,300}$", re.IGNORECASE)  # a record, of which some lines stand above
_TEXT: Final = re.compile(r"""(\btext["'`]?\s{0,9}[:=]\s{0,9}")((?:[^"\\]|\\.)*)""")  # its key for the secret itself
_ABOVE: Final = 4  # lines


def _stars(found: re.Match[str]) -> str:
    return found[1] + "*" * len(found[2])


def without_secrets(text: str) -> str:
    """As long as it was. What looks like a password is not shown."""
    for secret in _SECRETS:
        text = secret.sub(_stars, text)
    return _TEXT.sub(_stars, text) if re.search(_KEY + r"\{", text, re.IGNORECASE) else text


def _safe_line(source: Source, number: int) -> str:
    line = without_secrets(source.line(number))
    above = "\n".join(source.line(each) for each in range(max(1, number - _ABOVE), number))
    return _TEXT.sub(_stars, line) if _WITHIN.search(above) else line


def _excerpt(span: Span) -> list[str]:
    number, column = span.source.position(span.start)
    line = _safe_line(span.source, number)
    low = max(0, column - WIDEST // 2) if len(line) > WIDEST else 0
    shown = line[low : low + WIDEST]
    before = shown[: column - 1 - low]
    under = line[column - 1 : column - 1 + (span.end - span.start)][: WIDEST - len(before)]
    return [
        f"{number:5} | {_printable(shown)}".rstrip(),
        f"      | {' ' * _width(before)}{'^' * max(1, _width(under))}",
    ]


def _printable(text: str) -> str:
    # a flow file may come from a stranger: its escape sequences are not for this terminal
    return "".join(
        char if char.isprintable() else " " if char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def _width(text: str) -> int:
    """Columns on a terminal: East Asian characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
