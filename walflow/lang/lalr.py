"""lark's LALR automaton, one token at a time, with the operations that recover from a syntax error."""

from collections.abc import Set as AbstractSet
from copy import copy
from typing import Any

from lark import Token, Tree, UnexpectedToken

from walflow.lang.grammar import grammar

__all__ = ["Automaton", "UnexpectedToken"]


class Automaton:
    def __init__(self, start: str = "file", parser: Any = None) -> None:
        # Any: lark's interactive parser has no types; Any is used only in this class
        lark: Any = grammar()
        self._parser: Any = parser or lark.parse_interactive("", start=start)

    def feed(self, token: Token) -> Tree[Token] | None:
        """Returns the tree when the end is fed. Raises UnexpectedToken; what was read before is kept."""
        tree: Tree[Token] | None = self._parser.feed_token(token)
        return tree

    def takes_only_name(self, kind: str) -> bool:
        """Whether a name is allowed here and this token is not."""
        choices = self._parser.choices()
        return kind not in choices and "IDENT" in choices

    def accepts(self) -> AbstractSet[str]:
        """The tokens that are allowed next, without ERROR."""
        accepted: set[str] = self._parser.accepts()
        return accepted - {"ERROR"}

    def may_end(self) -> bool:
        return "$END" in self._parser.choices() and self.after("$END") is not None

    def after(self, kind: str) -> "Automaton | None":
        """The automaton after such a token. None if the token is not allowed."""
        trial: Any = self._parser.copy(deepcopy_values=False)
        conf = copy(trial.parser_state.parse_conf)
        conf.callbacks = {}
        trial.parser_state.parse_conf = conf
        try:
            trial.feed_token(Token(kind, ""))
        except UnexpectedToken:
            return None
        return Automaton(parser=trial)

    def at_statement(self) -> bool:
        """Whether a statement may begin here. The first test is fast: the table knows it for all such states. The
        second test knows it for this state."""
        return "ERROR" in self._parser.choices() and self.after("ERROR") is not None

    def has_last(self, token: Token) -> bool:
        """Whether this token was read last, and belongs to nothing yet."""
        values = self._parser.parser_state.value_stack
        return bool(values) and values[-1] is token

    def pop(self) -> int | None:
        """Removes what was read last. Returns the place where it began; None if it was empty."""
        state = self._parser.parser_state
        state.state_stack.pop()
        value: object = state.value_stack.pop()
        if isinstance(value, Token):
            return value.start_pos
        return value.meta.start_pos if isinstance(value, Tree) and not value.meta.empty else None
