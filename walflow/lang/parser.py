"""Text -> what a file declares. The first syntax error of each statement is reported, then reading goes on.

Where a `;` or an `end` is all that is missing it is supplied. Otherwise the statement is given up, as yacc does it:
states are popped until one accepts ERROR in place of a statement, and tokens skipped until one can follow it.
"""

from collections.abc import Sequence
from dataclasses import replace

from lark import Token, Tree

from walflow.diagnostics import Report, Source, Span, error
from walflow.lang.ast import Arg, DefinePipeline, SourceFile
from walflow.lang.build import build, build_query, build_script
from walflow.lang.lalr import Automaton, UnexpectedToken
from walflow.lang.resync import resync
from walflow.lang.scan import TOO_DEEP, scan, words
from walflow.lang.syntax import explain
from walflow.lang.unsupported import unsupported

MOST_ERRORS = 20  # in one file; behind so many it is not a flow file

_OUT = ("END", "SEMICOLON")
_WITHIN = {"DEFINE", "CREATE", "CONNECT", "USE", "SELECT"}  # only a body has them behind its header
_STRUCTURE = {
    *("DEFINE", "CREATE", "CONNECT", "DEPLOY", "USE", "SELECT", "FLOW", "CONNECTOR", "PIPELINE"),
    *("FROM", "INTO", "TO", "WITH", "ARGS", "END"),
}


def parse(source: Source, report: Report) -> SourceFile:
    reading = _Reading(source, report)
    tree = reading.tree()
    for diagnostic in unsupported(tree, source):
        report(diagnostic)
    return SourceFile(build(tree, source, report), whole=not reading.errors)


def parse_query(source: Source, name: str, report: Report) -> DefinePipeline:
    """A file that is the body of one pipeline."""
    reading = _Reading(source, report, "query")
    tree = reading.tree()
    for diagnostic in unsupported(tree, source):
        report(diagnostic)
    definition = build_query(tree, source, name, report)
    return replace(definition, whole=definition.whole and not reading.errors)


def parse_script(source: Source, name: str, args: tuple[Arg, ...], report: Report) -> DefinePipeline:
    """A file that is what stands between `script` and `end`, as a pipeline of nothing else."""
    reading = _Reading(source, report, "script_file")
    tree = reading.tree()
    for diagnostic in unsupported(tree, source):
        report(diagnostic)
    definition = build_script(tree, source, name, args, report)
    return replace(definition, whole=definition.whole and not reading.errors)


class _Reading:
    """One pass over the tokens of one file."""

    def __init__(self, source: Source, report: Report, start: str = "file") -> None:
        self.source = source
        self.report = report
        self.tokens = [*scan(source), _end_of(source)]
        self.automaton = Automaton(start)
        self.errors = 0

    def tree(self) -> Tree[Token]:
        at = 0
        while True:
            try:
                tree = self.automaton.feed(self._token(at))
            except UnexpectedToken:
                at = self._mend(at)
            else:
                if tree is not None:
                    return tree
                at += 1

    def _token(self, at: int) -> Token:
        """`null` is a type of connectors, `event` a fine name for one: a word of the language is a name where
        nothing else can be meant. The words that statements are made of only behind a dot, as in `event.from`:
        elsewhere a mistake would spread."""
        token = self.tokens[at]
        if token.type in words() and self._may_be_name(at) and self.automaton.takes_only_name(token.type):
            self.tokens[at] = token.update(type="IDENT")
        return self.tokens[at]

    def _may_be_name(self, at: int) -> bool:
        token, before = self.tokens[at], self.tokens[at - 1]
        behind_dot = before.type == "DOT" and before.end_pos == token.start_pos
        return behind_dot or token.type not in _STRUCTURE

    def _mend(self, at: int) -> int:
        """The token to go on with."""
        within_flow = self.tokens[at].type == "FLOW" and at > 0 and self.tokens[at - 1].type == "DEFINE"
        if within_flow:  # it is the `define` that is out of place
            self.automaton.pop()
            at -= 1
        token = self.tokens[at]
        # behind a statement that was given up the end of the file proves nothing: an `end` may be lost with it
        if token.type != "$END" or not self.errors:
            self.report(explain(self.source, self.tokens, at, self.automaton.accepts()))
        self.errors += 1
        if self.errors == MOST_ERRORS or token.type in {TOO_DEEP, "$END"}:
            return self._stop(at)
        within_query = within_flow and self.automaton.after("END") is None
        missing = () if within_query else _OUT if within_flow else self._missing(token)
        for kind in missing:
            self.automaton.feed(_nowhere(kind))
        return at if missing else self._give_up(at)

    def _missing(self, token: Token) -> Sequence[str]:
        """What alone is missing, if with it the reading goes on."""
        within: tuple[tuple[str, ...], ...] = (("FLOW",), ("PIPELINE",)) if token.type in _WITHIN else ()
        for missing in (("SEMICOLON",), ("END",), _OUT, *within):
            behind: Automaton | None = self.automaton
            for kind in missing:
                behind = behind.after(kind) if behind else None
            if behind and token.type in behind.accepts():
                return missing
        return ()

    def _give_up(self, at: int) -> int:
        begun = at
        while not self.automaton.at_statement():
            begun = self._first(self.automaton.pop(), begun)
        within_body = self.automaton.after("CREATE") is not None
        self.automaton.feed(_nowhere("ERROR"))
        # the body that is a file of its own ends with it
        at = resync(self.tokens, begun, at, within_body, may_end=self.automaton.after("END") is not None)
        if self.tokens[at].type not in self.automaton.accepts():
            self.automaton.feed(_nowhere("SEMICOLON"))
        return at

    def _first(self, start: int | None, begun: int) -> int:
        """The first token at or behind the place `start`, coming back from `begun`."""
        while start is not None and begun and (self.tokens[begun - 1].start_pos or 0) >= start:
            begun -= 1
        return begun

    def _stop(self, at: int) -> int:
        """As if the file ended here."""
        token = self.tokens[at]
        if self.errors == MOST_ERRORS:
            begin = token.start_pos or 0
            message = f"more than {MOST_ERRORS} syntax errors: the rest of this file is not read"
            self.report(error(message, Span(self.source, begin, begin)))
        while not self.automaton.may_end():
            self.automaton.pop()
        return len(self.tokens) - 1


def _nowhere(kind: str) -> Token:
    """A token that is not in the file."""
    return Token(kind, "", 0, 0, 0, 0, 0, 0)


def _end_of(source: Source) -> Token:
    end = len(source.text)
    line, column = source.position(end)
    return Token("$END", "", end, line, column, line, column, end)
