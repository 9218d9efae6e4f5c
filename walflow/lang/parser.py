"""Text -> what a file declares. The first syntax error of each statement is reported, then reading goes on.

Where a `;` or an `end` is all that is missing it is supplied. Otherwise the statement is given up, as yacc does it:
states are popped until one accepts ERROR in place of a statement, and tokens skipped until one can follow it.
"""

from collections.abc import Callable
from copy import copy
from typing import cast

from lark import Token, Tree, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from walflow.diagnostics import Diagnostic, Source, error
from walflow.lang.ast import File
from walflow.lang.build import build
from walflow.lang.grammar import grammar
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
        self.parser: InteractiveParser = grammar().parse_interactive("")
        self.errors = 0

    def tree(self) -> Tree[Token]:
        at = 0
        while True:
            try:
                result = self.parser.feed_token(self.tokens[at])
            except UnexpectedToken:
                at = self._mend(at)
            else:
                at += 1
                if at == len(self.tokens):
                    assert isinstance(result, Tree)
                    return result

    def _may_begin(self) -> bool:
        """A statement, here. The table alone knows what may come in states like this one, not in this one."""
        return "ERROR" in self.parser.choices() and self._after("ERROR") is not None

    def _after(self, kind: str) -> InteractiveParser | None:
        """As the parser would stand behind such a token."""
        trial = self.parser.copy(deepcopy_values=False)
        conf = copy(trial.parser_state.parse_conf)
        conf.callbacks = {}
        trial.parser_state.parse_conf = conf
        try:
            trial.feed_token(Token(kind, ""))
        except UnexpectedToken:
            return None
        return trial

    def _mend(self, at: int) -> int:
        """The token to go on with."""
        token = self.tokens[at]
        expected = self.parser.accepts() - {"ERROR"}
        self.report(explain(self.source, self.tokens, at, expected))
        self.errors += 1
        if self.errors == MOST_ERRORS or token.type == TOO_DEEP:
            return self._stop(at)
        if self._supply(token, expected):
            return at
        return self._give_up(at)

    def _supply(self, token: Token, expected: set[str]) -> bool:
        """The one missing token, if with it the reading can go on."""
        for missing in ("SEMICOLON", "END"):
            if missing in expected and self._continues(missing, token):
                self.parser.feed_token(Token(missing, "", token.start_pos, token.line, token.column))
                return True
        return False

    def _continues(self, missing: str, token: Token) -> bool:
        trial = self._after(missing)
        return trial is not None and token.type in trial.accepts()

    def _give_up(self, at: int) -> int:
        begun = at
        while not self._may_begin():
            begun = self._pop(begun)
        within_body = self._after("CREATE") is not None
        self.parser.feed_token(Token("ERROR", "", 0, 0, 0, 0, 0, 0))
        at = resync(self.tokens, begun, at, within_body)
        if self.tokens[at].type not in self.parser.accepts():
            self.parser.feed_token(Token("SEMICOLON", "", 0, 0, 0, 0, 0, 0))
        return at

    def _pop(self, begun: int) -> int:
        """Gives up what was read last: the first token of it, `begun` if it had none."""
        state = self.parser.parser_state
        value = state.value_stack.pop()
        state.state_stack.pop()
        start = value.start_pos if isinstance(value, Token) else _start(value)
        while start is not None and begun and (self.tokens[begun - 1].start_pos or 0) >= start:
            begun -= 1
        return begun

    def _stop(self, at: int) -> int:
        """As if the file ended here."""
        if self.tokens[at].type != TOO_DEEP:
            self.report(error(f"{MOST_ERRORS} syntax errors: the rest of this file is not read"))
        while "$END" not in self.parser.accepts():
            self._pop(at)
        return len(self.tokens) - 1


def _start(value: object) -> int | None:
    if isinstance(value, Tree):
        meta = cast("Tree[Token]", value).meta
        return None if meta.empty else meta.start_pos
    return None


def _end_of(source: Source) -> Token:
    end = len(source.text)
    line, column = source.position(end)
    return Token("$END", "", end, line, column, line, column, end)
