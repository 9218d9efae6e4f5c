"""A text as an editor has it: its tokens, what it declares, and where each name is defined."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from lark import Token

from walflow.diagnostics import Diagnostic, Source, Span
from walflow.lang.ast import Create, CreateOperator, CreateScript, DefineFlow, DefinePipeline, SourceFile, Use
from walflow.lang.files import Unsaved, find, read, search_path
from walflow.lang.parser import parse, parse_query
from walflow.lang.scan import scan

_KINDS: Final = ("CONNECTOR", "PIPELINE", "OPERATOR", "SCRIPT", "WINDOW", "FLOW", "STREAM")


class Defined(NamedTuple):
    """`kind`: connector, pipeline, operator, script, window, flow, fn, const.
    `scope`: the flow or pipeline around it."""

    kind: str
    name: str
    span: Span
    scope: Span | None


class Created(NamedTuple):
    """`of`: what it is created from."""

    kind: str
    name: str
    of: tuple[str, ...]
    span: Span
    scope: Span | None


class EditedText:
    """What cannot be parsed is left out of the tree; tokens and definitions are there in any case."""

    def __init__(self, source: Source, unsaved: Unsaved) -> None:
        self.source = source
        self.path = Path(source.name)
        self.unsaved = unsaved

    @cached_property
    def tokens(self) -> Sequence[Token]:
        return scan(self.source)

    @cached_property
    def tree(self) -> SourceFile:
        if self.path.suffix == ".trickle":
            pipeline = parse_query(self.source, "pipeline", _unheard)
            return SourceFile((*(one for one in pipeline.names if isinstance(one, Use)), pipeline), pipeline.whole)
        return parse(self.source, _unheard)

    @cached_property
    def scopes(self) -> Sequence[Span]:
        """Flows and pipelines, each before those within it."""
        return list(_scopes(self.tree.statements))

    def scope_of(self, offset: int) -> Span | None:
        """The innermost flow or pipeline around a place."""
        around = [one for one in self.scopes if one.start < offset < one.end]
        return min(around, key=lambda one: one.end - one.start, default=None)

    @cached_property
    def uses(self) -> Sequence[Use]:
        return list(_uses(self.tree.statements))

    @cached_property
    def definitions(self) -> Sequence[Defined]:
        return [
            Defined(kind, name, span, self._around(begin)) for word, kind, name, span, begin, _ in self._named()
            if word != "CREATE"
        ]  # fmt: skip

    @cached_property
    def created(self) -> Sequence[Created]:
        return [
            Created(kind, name, of or (name,), span, self._around(begin))
            for word, kind, name, span, begin, of in self._named()
            if word == "CREATE"
        ]

    def _around(self, begin: int) -> Span | None:
        return self.scope_of(begin)

    def _named(self) -> Iterator[tuple[str, str, str, Span, int, tuple[str, ...]]]:
        """By the tokens alone, so that a syntax error hides no other definition."""
        tokens = self.tokens
        for at, token in enumerate(tokens):
            begin = token.start_pos or 0
            if token.type in {"DEFINE", "CREATE"} and at + 2 < len(tokens) and tokens[at + 1].type in _KINDS:
                name = tokens[at + 2]
                of = path_from(tokens, at + 4) if at + 3 < len(tokens) and tokens[at + 3].type == "FROM" else ()
                yield token.type, tokens[at + 1].value, text_of(name), self.span(name), begin, of
            elif token.type in {"FN", "CONST"} and at + 1 < len(tokens):
                name = tokens[at + 1]
                yield token.type, token.value, text_of(name), self.span(name), begin, ()

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start_pos or 0, token.end_pos or 0)

    def find(self, kinds: Sequence[str], name: str, offset: int) -> Defined | None:
        """The definition that is nearest around a place, or else any of that name."""
        known = [one for one in self.definitions if one.name == name and one.kind in kinds]
        around = [one for one in known if one.scope is None or one.scope.start < offset < one.scope.end]
        return max(around or known, key=lambda one: one.scope.start if one.scope else -1, default=None)

    def find_created(self, kinds: Sequence[str], name: str, offset: int) -> Created | None:
        known = [one for one in self.created if one.name == name and one.kind in kinds]
        around = [one for one in known if one.scope is None or one.scope.start < offset < one.scope.end]
        return max(around or known, key=lambda one: one.scope.start if one.scope else -1, default=None)

    def module_path(self, path: Sequence[str]) -> tuple[str, ...]:
        """`string::len` as `std::string::len`, by the `use` of its first name."""
        for use in self.uses:
            if use.alias.text == path[0]:
                return (*(name.text for name in use.path), *path[1:])
        return tuple(path)

    def module(self, path: Sequence[str]) -> "EditedText | None":
        found = find(path, search_path(self.path.parent)) if path else None
        source = read(found, 1, self.unsaved) if found is not None else None
        return EditedText(source, self.unsaved) if isinstance(source, Source) else None


def text_of(token: Token) -> str:
    return str(token).strip("`")


def path_from(tokens: Sequence[Token], at: int) -> tuple[str, ...]:
    """`a::b::c` that begins with a token."""
    names: list[str] = []
    while at < len(tokens) and is_name(tokens[at]):
        names.append(text_of(tokens[at]))
        if at + 1 >= len(tokens) or tokens[at + 1].type != "COLONCOLON":
            break
        at += 2
    return tuple(names)


def is_name(token: Token) -> bool:
    """Words of the language are names in many places."""
    word = str(token)
    return word.isidentifier() or word.startswith("`")


def _unheard(_: Diagnostic) -> None: ...


def _scopes(statements: Sequence[object]) -> Iterator[Span]:
    for one in statements:
        if isinstance(one, DefineFlow):
            yield one.span
            yield from _scopes(one.body)
        elif isinstance(one, DefinePipeline):
            yield one.span
            yield from _scopes(one.names)


def _uses(statements: Sequence[object]) -> Iterator[Use]:
    for one in statements:
        if isinstance(one, Use):
            yield one
        elif isinstance(one, DefineFlow):
            yield from _uses(one.body)
        elif isinstance(one, DefinePipeline):
            yield from _uses(one.names)
        elif not isinstance(one, Create | CreateOperator | CreateScript):
            yield from _uses(getattr(one, "names", ()))
