"""What the rules of all subjects need: places, names, and messages."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import lark.visitors
from lark import Token
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from walflow.compile.nodes import (
    Name,
    Path,
    Unsupported,
)
from walflow.diagnostics import Diagnostic, Source, Span, error
from walflow.lang import literals
from walflow.lang.ast import (
    Statement,
)

T = TypeVar("T")


def by_rule(build: type[T]) -> type[T]:
    """Each method gets its place and the children of its rule as arguments."""
    visitors: Any = lark.visitors
    wrapped: type[T] = visitors.v_args(inline=True, meta=True)(build)
    return wrapped


@by_rule
class TreeRules(Transformer_NonRecursive[Token, tuple[Statement, ...]]):
    def __init__(self, source: Source, report: Callable[[Diagnostic], None]) -> None:
        super().__init__()
        self._source = source
        self._report = report

    def _span(self, meta: Meta) -> Span:
        return Span(self._source, meta.start_pos, meta.end_pos)

    def _at(self, token: Token) -> Span:
        begin = token.start_pos or 0
        return Span(self._source, begin, begin + len(token))

    def _error(self, message: str, span: Span, hint: str | None = None) -> None:
        self._report(error(message, span, hint))

    def __default__(self, data: str, children: list[object], meta: Meta) -> Any:  # lark's own says Tree
        # reported already, see unsupported.py
        at = Span(self._source, 0, 0) if meta.empty else self._span(meta)
        return Unsupported(at)

    def _distinct(self, what: str, names: Iterable[Name]) -> tuple[Name, ...]:
        first: dict[str, Name] = {}
        for name in names:
            if name.text in first:
                self._error(f"{what} `{name.text}` stands twice here", name.span, f"first at {first[name.text].span}")
            first.setdefault(name.text, name)
        return tuple(first.values())

    def module_path(self, _meta: Meta, *names: Name) -> Path:
        return names

    def name(self, meta: Meta, written: Token) -> Name:
        return Name(literals.name(written), self._span(meta))

    def _literal(self, read: "Callable[[], T]", otherwise: "T", written: Span) -> "T":
        try:
            return read()
        except literals.BadLiteral as bad:
            begin = written.start + bad.at
            end = begin + bad.width if bad.width else written.end
            self._error(str(bad), written._replace(start=begin, end=end))
            return otherwise
