"""Text -> what a file declares. The first syntax error of each statement is reported, and reading continues.

If only a `;` or an `end` is missing, it is supplied. Otherwise the statement is given up, as yacc does it: states are
popped until one accepts ERROR instead of a statement, and tokens are skipped until one can follow it.
"""

from collections.abc import Sequence

from lark import Token, Tree
from msgspec.structs import replace

from walflow.diagnostics import Report, Source, Span, error
from walflow.lang.ast import Arg, DefinePipeline, SourceFile
from walflow.lang.blocks import innermost
from walflow.lang.build import build, build_query, build_script
from walflow.lang.foreign import has_block, is_semicolon_between_settings
from walflow.lang.lalr import Automaton, UnexpectedToken
from walflow.lang.resync import resync
from walflow.lang.scan import TOO_DEEP, scan, words
from walflow.lang.syntax import explain
from walflow.lang.unclosed import Unclosed, unclosed
from walflow.lang.unsupported import unsupported

MOST_ERRORS = 20  # in one file; with so many errors it is probably no flow file

_OUT = ("END", "SEMICOLON")
_WITHIN = {"DEFINE", "CREATE", "CONNECT", "USE", "SELECT"}  # only a body contains them, so its header is complete
_CASES = {"CASE", "DEFAULT"}
_BEHIND_NAME = {"DOT", "EQUAL", "SEMICOLON", "LSQB", "COLONCOLON", "END", "$END"}
_STRUCTURE = {
    *("DEFINE", "CREATE", "CONNECT", "DEPLOY", "USE", "SELECT", "FLOW", "CONNECTOR", "PIPELINE"),
    *("FROM", "INTO", "TO", "WITH", "ARGS", "END"),
}


def parse(source: Source, report: Report) -> SourceFile:
    reading = _Reading(source, report)
    tree = reading.tree()
    for diagnostic in () if reading.muted > len(source.text) else unsupported(tree, source):
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
    """A file with the text between `script` and `end`, as a pipeline that contains only this script."""
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
        self.muted = 0  # up to this place, no error is reported

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
        """Some words of the language are good names: `null` is a type of connector. So such a word is a name if only
        a name is allowed here. Words that begin or structure statements are names only after a dot, as in
        `event.from`: otherwise one mistake would cause others."""
        token = self.tokens[at]
        if token.type in words() and self._may_be_name(at) and self.automaton.takes_only_name(token.type):
            self.tokens[at] = token.update(type="IDENT")
        return self.tokens[at]

    def _may_be_name(self, at: int) -> bool:
        token, before = self.tokens[at], self.tokens[at - 1]
        behind_dot = before.type == "DOT" and before.end_pos == token.start_pos
        begins_case = (
            before.type == "SEMICOLON" and token.type in _CASES and self.tokens[at + 1].type not in _BEHIND_NAME
        )
        return behind_dot or (token.type not in _STRUCTURE and not begins_case)

    def _mend(self, at: int) -> int:
        """The next token to read."""
        within_body = self._is_defined_outside(at)
        if within_body:  # the `define` before it is the mistake
            self.automaton.pop()
            at -= 1
        token = self.tokens[at]
        # after a statement that was given up, an early end of the file is no error: an `end` may be lost with the
        # statement
        if self._is_behind_last_effect(at) and self._without_semicolon(at):
            return at
        opened = self._tell(at) if token.type != "$END" or not self.errors else None
        self.errors += 1
        if is_semicolon_between_settings(self.tokens, at) and self.automaton.after("COMMA") is not None:
            self.tokens[at] = token.update(type="COMMA")
            return at
        if self.errors == MOST_ERRORS or token.type in {TOO_DEEP, "$END"}:
            return self._stop(at)
        if opened is not None and opened.lost is not None:
            return self._give_up(at, opened.lost)
        within_query = within_body and self.automaton.after("END") is None
        missing = (
            ()
            if within_query
            else _OUT
            if within_body
            else self._missing(token, ends=opened is not None and opened.here)
        )
        for kind in missing:
            self._supply(kind, at)
        return at if missing else self._give_up(at)

    def _is_defined_outside(self, at: int) -> bool:
        """Whether the token is the second one of a definition that no body may contain, or no pipeline."""
        if at == 0 or self.tokens[at - 1].type != "DEFINE":
            return False
        kind = self.tokens[at].type
        return kind == "FLOW" or (kind == "CONNECTOR" and innermost(self.tokens, at) == "PIPELINE")

    def _is_behind_last_effect(self, at: int) -> bool:
        """Whether a `;` before the token ends what a case does. Only between two statements one may stand."""
        ended = self.tokens[at - 1].type == "SEMICOLON" and self.tokens[at].type in {*_CASES, "END"}
        return ended and innermost(self.tokens, at) in {"MATCH", "FOR", "FN"}

    def _without_semicolon(self, at: int) -> bool:
        """Whether reading continues at the token once the `;` before it is taken back."""
        semicolon, token = self.tokens[at - 1], self.tokens[at]
        if not self.automaton.has_last(semicolon):
            return False
        self.automaton.pop()
        if token.type not in self.automaton.accepts():
            self.automaton.feed(semicolon)
            return False
        self.errors += 1
        if (semicolon.start_pos or 0) >= self.muted:
            span = Span(self.source, semicolon.start_pos or 0, semicolon.end_pos or 0)
            hint = "`;` stands between two statements of one case: take it away"
            self.report(error(f"no `;` stands before `{token}`", span, hint))
        return True

    def _tell(self, at: int) -> Unclosed | None:
        """What is not closed, if that is the error."""
        if (self.tokens[at].start_pos or 0) < self.muted:
            return None
        expected = self.automaton.accepts()
        opened = unclosed(self.source, self.tokens, at, may_end="END" in expected)
        place = opened.diagnostic.span if opened else None
        if place is not None and place.start < self.muted:
            return None  # its end was lost with that of the string
        if opened is not None and not opened.here:
            self.muted = self._end_of_what_follows(place)
        self.report(opened.diagnostic if opened else explain(self.source, self.tokens, at, expected))
        if has_block(self.tokens, at):
            self.muted = len(self.source.text) + 1
        return opened

    def _end_of_what_follows(self, opened: Span | None) -> int:
        """Up to here, an error may follow from what is not closed. A string ends with its line."""
        text = self.source.text
        if opened is None or opened.text.startswith('"""') or not opened.text.startswith('"'):
            return len(text) + 1
        end = text.find("\n", opened.start)
        return end if end >= 0 else len(text) + 1

    def _missing(self, token: Token, *, ends: bool) -> Sequence[str]:
        """The tokens that are missing, if reading can continue once they are supplied.
        `ends`: an `end` is one of them."""
        within: tuple[tuple[str, ...], ...] = (("FLOW",), ("PIPELINE",)) if token.type in _WITHIN else ()
        for missing in (("END",), _OUT) if ends else (("SEMICOLON",), ("END",), _OUT, *within):
            behind: Automaton | None = self.automaton
            for kind in missing:
                behind = behind.after(kind) if behind else None
            if behind and token.type in behind.accepts():
                return missing
        return ()

    def _give_up(self, at: int, lost: int | None = None) -> int:
        """`lost`: the token that the statement begins with; None for the innermost one."""
        begun = at
        while not self.automaton.at_statement() or (lost is not None and begun > lost):
            begun = self._first(self.automaton.pop(), begun)
        within_body = self.automaton.after("CREATE") is not None
        self._supply("ERROR", begun)
        # a body that is a file of its own ends with the file
        at = resync(self.tokens, begun, at, within_body, may_end=self.automaton.after("END") is not None)
        if self.tokens[at].type not in self.automaton.accepts():
            self._supply("SEMICOLON", at)
        return at

    def _first(self, start: int | None, begun: int) -> int:
        """The first token at or after the place `start`, searched backwards from `begun`."""
        while start is not None and begun and (self.tokens[begun - 1].start_pos or 0) >= start:
            begun -= 1
        return begun

    def _supply(self, kind: str, at: int) -> None:
        """A token that is not in the file, before the one at `at`."""
        end = (self.tokens[at - 1].end_pos or 0) if at else 0
        self.automaton.feed(Token(kind, "", end, end_pos=end))

    def _may_end_behind_error(self) -> bool:
        behind = self.automaton.after("ERROR")
        return behind is not None and behind.may_end()

    def _stop(self, at: int) -> int:
        """Ends as if the file ended here."""
        token = self.tokens[at]
        if self.errors == MOST_ERRORS and (token.start_pos or 0) >= self.muted:
            begin = token.start_pos or 0
            message = f"more than {MOST_ERRORS} syntax errors: the rest of this file is not read"
            self.report(error(message, Span(self.source, begin, begin)))
        while not self.automaton.may_end():
            if self.automaton.at_statement() and self._may_end_behind_error():
                self._supply("ERROR", at)  # a script has a statement at least
            else:
                self.automaton.pop()
        return len(self.tokens) - 1


def _end_of(source: Source) -> Token:
    end = len(source.text)
    line, column = source.position(end)
    return Token("$END", "", end, line, column, line, column, end)
