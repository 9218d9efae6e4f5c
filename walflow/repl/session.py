"""What has been written so far, and what a further line makes of the event.

A session is a script that grows: `use`, `const`, `fn` and `let` stay, and run again before each line that follows. So
a line is compiled and run as a script in a flow is, and a mistake has its line of this script.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from walflow.codecs import JSON
from walflow.compile.compiled import BlockCall, Compiled
from walflow.compile.nodes import LetNode, spelled
from walflow.compile.reads import Decoded
from walflow.compile.reference import shipped
from walflow.diagnostics import Diagnostic, Source, Span, error, has_errors, render
from walflow.errors import CannotDecode, CannotEncode
from walflow.lang.ast import DefineConst, DefineScript, Use
from walflow.lang.documented import NotDocumented, text_of
from walflow.lang.files import search_path
from walflow.lang.parser import parse_script
from walflow.lang.unclosed import UNFINISHED
from walflow.plan.alone import load_script
from walflow.world import dice, wall_ns
from walflow_kernel.moment import Moment

NAME: Final = "repl"
_MODULE: Final = re.compile(r"(?<![\w:`])([A-Za-z_]\w*)::")
_LET: Final = re.compile(r"let\s+([A-Za-z_]\w*)")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*')

HELP: Final = """\
An expression prints its value: event.a + 1. A script prints what leaves it, and by which port.
`let`, `use`, `const` and `fn` stay for the lines that follow. A line that is not complete goes on in the next one; \
an empty line ends it.

:event {…}     the event, as JSON; without it, shows the event
:meta {…}      the event's metadata ($), as JSON; without it, shows it
:python TEXT   the Python source that TEXT is compiled to; without it, that of the last line
:doc NAME      what a module or a function does: :doc std::string
:script        what stays
:reset         forgets what stays
:help          this text
:quit          ends, as Ctrl-D does"""


class Answer(NamedTuple):
    """`more`: the line is the begin of something; nothing is to be printed yet.
    `failed`: it was wrong, or gave an error."""

    lines: Sequence[str] = ()
    more: bool = False
    failed: bool = False
    ends: bool = False


class ReplSession:
    def __init__(self) -> None:
        self.event: object = {}
        self.meta: Mapping[str, object] = {}
        self._kept: list[_Statement] = []
        self._begun: list[str] = []  # lines of something that is not complete
        self._last = ""

    def feed(self, line: str) -> Answer:
        if line.lstrip().startswith(":"):
            before = self.end()  # no statement goes on so
            answer = self._command(line.strip())
            return answer._replace(lines=[*before.lines, *answer.lines], failed=before.failed or answer.failed)
        if not self._begun and not line.strip():
            return Answer()
        text = "\n".join([*self._begun, line])
        if not self._is_complete(text) and line.strip():
            self._begun.append(line)
            return Answer(more=True)
        self._begun.clear()
        return self._run(text.strip())

    def end(self) -> Answer:
        """No line follows."""
        return self.feed("") if self._begun else Answer()

    def interrupt(self) -> None:
        """Forgets what is not complete."""
        self._begun.clear()

    @property
    def locals(self) -> Sequence[str]:
        """The names that `let` made, and those of constants and functions."""
        found = [one.defines[1] for one in self._kept if one.defines is not None and one.defines[0] != "Use"]
        lets = [_LET.match(one.text) for one in self._kept if one.kind == "let"]
        return [*found, *(one[1] for one in lets if one is not None)]

    # ---- commands

    def _command(self, line: str) -> Answer:
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word:
            case ":help" | ":h" | ":?":
                return Answer(HELP.splitlines())
            case ":quit" | ":q":
                return Answer(ends=True)
            case ":event":
                return self._event(rest)
            case ":meta":
                return self._meta(rest)
            case ":script":
                return Answer([line for one in self._kept for line in f"{one.text};".splitlines()])
            case ":reset":
                self._kept.clear()
                return Answer()
            case ":python":
                return self._python(rest or self._last)
            case ":doc":
                return self._doc(rest)
            case _:
                return _failed(f"there is no {word}; :help lists what there is")

    def _event(self, text: str) -> Answer:
        if not text:
            return Answer([JSON.encode(self.event).decode()])
        try:
            self.event = JSON.decode(text.encode())
        except CannotDecode as wrong:
            return _failed(str(wrong))
        return Answer()

    def _meta(self, text: str) -> Answer:
        if not text:
            return Answer([JSON.encode(dict(self.meta)).decode()])
        try:
            found = JSON.decode(text.encode())
        except CannotDecode as wrong:
            return _failed(str(wrong))
        if not isinstance(found, dict):
            return _failed("metadata is a record")
        self.meta = found
        return Answer()

    def _doc(self, name: str) -> Answer:
        if not name:
            return _failed("write the name of a module or a function: :doc std::string")
        head, colons, rest = name.partition("::")
        try:
            return Answer(text_of(f"{shipped().get(head, head)}{colons}{rest}", search_path(Path())))
        except NotDocumented as refused:
            return _failed(str(refused))

    def _python(self, text: str) -> Answer:
        compiled, said = self._compiled(self._with_uses(text))
        lines = [render(one) for one in said]
        return Answer(lines + (compiled.listing.rstrip().splitlines() if compiled else []), failed=compiled is None)

    # ---- lines

    def _is_complete(self, text: str) -> bool:
        """Not if something is missing at its end."""
        source = Source(NAME, text.rstrip() or "null")
        said: list[Diagnostic] = []
        parse_script(source, NAME, (), said.append)
        end = len(source.text)
        return not any(one.name == UNFINISHED or (one.span is not None and one.span.start >= end) for one in said[:1])

    def _with_uses(self, text: str) -> str:
        """Shipped modules are at hand."""
        bare = _TEXT.sub("", text)
        known = "\n".join(one.text for one in self._kept)
        aliases = dict.fromkeys(_MODULE.findall(bare))
        new = [f"use {shipped()[one]};" for one in aliases if one in shipped() and not _uses(known + bare, one)]
        return "\n".join([*new, text])

    def _compiled(self, text: str) -> tuple[Compiled | None, Sequence[Diagnostic]]:
        """With what is said of this text, but nothing of what stays."""
        statements = _statements(text)
        if statements and statements[-1].kind != "effect":
            text += ";\nevent"
        before = "".join(f"{one.text};\n" for one in self._staying(statements))
        source = Source(NAME, before + text)
        alone, found = load_script(source, {}, NAME)
        said = [one for one in found if one.span is None or one.span.start >= len(before)]
        if alone is None or has_errors(found):
            return None, said or found
        [plan] = alone.assembly.pipelines
        return plan.regions.compiled("in"), said

    def _run(self, text: str) -> Answer:
        text = self._with_uses(text).rstrip("; \n")
        compiled, said = self._compiled(text)
        lines = [render(one) for one in said]
        if compiled is None:
            return Answer(lines, failed=True)
        self._last = text
        outcome = list(self._outcome(compiled))
        failed = any(one.startswith(f"{NAME}:") for one in outcome)
        statements = _statements(text)
        if not failed:
            self._kept = [*self._staying(statements), *(one for one in statements if one.kind != "effect")]
        silent = not failed and all(one.kind != "effect" for one in statements)
        return Answer([*lines, *(() if silent else outcome)], failed=failed)

    def _staying(self, statements: "Sequence[_Statement]") -> "list[_Statement]":
        """What stays beside these, which may define a name anew."""
        new = {one.defines for one in statements if one.defines is not None}
        return [one for one in self._kept if one.defines not in new]

    def _event_as_it_came(self, _number: int) -> object:
        return self.event

    def _outcome(self, compiled: Compiled) -> Iterator[str]:
        moment = Moment(wall_ns(), dice().getrandbits(64))
        call = BlockCall(moment, (0,), dict(self.meta), [{}], self._event_as_it_came)
        state = compiled.new_state() if compiled.has_state else None
        outcome = compiled.run(Decoded((0,), [self.event]), call, state)
        for port, rows in outcome.rows.items():
            for value in rows.values if rows.values is not None else [self.event] * len(rows.numbers):
                try:
                    shown = JSON.encode(value).decode()
                except CannotEncode as refused:
                    shown = f"{value!r} ({refused})"
                name = port.partition("/")[0]  # of what has state, results leave by a port beside it
                yield shown if name == "out" else f"{name}: {shown}"
        for refusal in outcome.refused:
            yield render(error(refusal.reason, compiled.span(refusal.line)))
        if outcome.dropped:
            yield "dropped"


def _failed(text: str) -> Answer:
    return Answer([text], failed=True)


def _uses(text: str, alias: str) -> bool:
    return re.search(rf"\buse\b[^;]*\b{alias}\b", text) is not None


class _Statement(NamedTuple):
    """`kind`: `name` says what a name stands for, `let` stays too. `defines`: what no other statement may, too."""

    text: str
    kind: Literal["name", "let", "effect"]
    defines: tuple[str, str] | None = None


def _use(use: Use) -> str:
    renamed = "" if use.alias.text == use.path[-1].text else f" as {use.alias.text}"
    return f"use {spelled(use.path)}{renamed}"


def _statements(text: str) -> Sequence[_Statement]:
    """Of what can be read, in their order."""
    definition = parse_script(Source(NAME, text), NAME, (), lambda _: None)
    script = next((one for one in definition.names if isinstance(one, DefineScript)), None)
    if script is None:
        return []
    found: dict[Span, _Statement] = {}
    for one in script.names:
        name = one.alias if isinstance(one, Use) else one.name
        written = _use(one) if isinstance(one, Use) else one.span.text
        found[one.span] = _Statement(written, "name", (type(one).__name__, name.text))
    constants = {one.name.span for one in script.names if isinstance(one, DefineConst)}
    for effect in script.body or ():
        if (
            effect.span in constants
        ):  # the line has constants alone: the parser adds the value of the last one, and a session does not show it
            continue
        kind: Literal["let", "effect"] = "let" if isinstance(effect, LetNode) else "effect"
        found[effect.span] = _Statement(effect.span.text, kind)
    return [found[span] for span in sorted(found, key=lambda span: span.start)]
