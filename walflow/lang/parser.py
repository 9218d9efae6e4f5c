"""Text -> what a file declares. The first syntax error of each statement is reported, then reading goes on.

Where a `;` or an `end` is all that is missing it is supplied. Otherwise the statement is given up, as yacc does it:
states are popped until one accepts ERROR in place of a statement, and tokens skipped until one can follow it.
"""

from collections.abc import Callable

from lark import Token, Tree

from walflow.diagnostics import Diagnostic, Source, Span, error
from walflow.lang.ast import File
from walflow.lang.build import build
from walflow.lang.lalr import Automaton, UnexpectedToken
from walflow.lang.resync import resync
from walflow.lang.scan import TOO_DEEP, scan
from walflow.lang.syntax import explain
from walflow.lang.unsupported import unsupported

MOST_ERRORS = 20  # in one file; behind so many it is not a flow file

Report = Callable[[Diagnostic], None]


def parse(source: Source, report: Report) -> File:
    reading = _Reading(source, report)
    tree = reading.tree()
    for diagnostic in unsupported(tree, source):
        report(diagnostic)
    return File(build(tree, source, report), whole=not reading.errors)


class _Reading:
    """One pass over the tokens of one file."""

    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report
        self.tokens = [*scan(source), _end_of(source)]
        self.automaton = Automaton()
        self.errors = 0

    def tree(self) -> Tree[Token]:
        at = 0
        while True:
            try:
                tree = self.automaton.feed(self.tokens[at])
            except UnexpectedToken:
                at = self._mend(at)
            else:
                if tree is not None:
                    return tree
                at += 1

    def _mend(self, at: int) -> int:
        """The token to go on with."""
        token = self.tokens[at]
        expected = self.automaton.accepts()
        self.report(explain(self.source, self.tokens, at, expected))
        self.errors += 1
        if self.errors == MOST_ERRORS or token.type == TOO_DEEP:
            return self._stop(at)
        for missing in ("SEMICOLON", "END"):
            supplied = self.automaton.after(missing) if missing in expected else None
            if supplied and token.type in supplied.accepts():
                self.automaton.feed(_nowhere(missing))
                return at
        return self._give_up(at)

    def _give_up(self, at: int) -> int:
        begun = at
        while not self.automaton.at_statement():
            begun = self._first(self.automaton.pop(), begun)
        within_body = self.automaton.after("CREATE") is not None
        self.automaton.feed(_nowhere("ERROR"))
        at = resync(self.tokens, begun, at, within_body)
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
        if token.type != TOO_DEEP:
            begin = token.start_pos or 0
            message = f"more than {MOST_ERRORS} syntax errors: the rest of this file is not read"
            self.report(error(message, Span(self.source, begin, begin)))
        while "$END" not in self.automaton.accepts():
            self.automaton.pop()
        return len(self.tokens) - 1


def _nowhere(kind: str) -> Token:
    """A token nobody wrote."""
    return Token(kind, "", 0, 0, 0, 0, 0, 0)


def _end_of(source: Source) -> Token:
    end = len(source.text)
    line, column = source.position(end)
    return Token("$END", "", end, line, column, line, column, end)
