"""What may stand where a cursor is: types, keys, codecs, modules, functions, names of the file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from lark import Token

from walflow.cli.connectors import ConfigKey, summary
from walflow.cli.lsp import known
from walflow.cli.lsp.edited import EditedText, is_name, text_of
from walflow.cli.lsp.pointed import Within, key_before, within
from walflow.diagnostics import Source
from walflow.lang.scan import UNCLOSED, scan
from walflow.operators import OPERATORS

Sort = Literal["class", "property", "value", "module", "function", "constant", "variable", "keyword", "port"]

_STATEMENTS: Final = ("define", "create", "connect", "use", "const", "fn", "deploy", "select")
_PARTS: Final = ("flow", "connector", "pipeline", "operator", "script", "window")
_KINDS_OF_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "from": ("operator", "script", "pipeline", "stream"),
    "into": ("operator", "script", "pipeline", "stream"),
}
_PORTS: Final = {"from": "in", "into": "out"}


class Proposed(NamedTuple):
    label: str
    sort: Sort
    detail: str = ""
    says: str = ""


def complete(text: EditedText, offset: int) -> list[Proposed]:
    """Everything that fits; the editor chooses among them by what is typed already."""
    tokens = scan(Source(text.source.name, text.source.text[:offset]))
    if _in_comment(text.source.text, tokens, offset):
        return []
    in_string = bool(tokens) and tokens[-1].type == UNCLOSED
    if tokens and (in_string or (is_name(tokens[-1]) and tokens[-1].end_pos == offset)):
        tokens = tokens[:-1]
    while in_string and tokens and tokens[-1].type in {"STRING_START", "STRING_TEXT"}:
        tokens = tokens[:-1]
    return list(_in_string(tokens) if in_string else _in_code(text, tokens, offset))


def _in_comment(text: str, tokens: Sequence[Token], offset: int) -> bool:
    begin = tokens[-1].end_pos or 0 if tokens else 0
    return "#" in text[max(begin, text.rfind("\n", 0, offset) + 1) : offset]


def _in_string(tokens: Sequence[Token]) -> Iterator[Proposed]:
    around = within(tokens)
    if around is None or not tokens:
        return
    named = key_before(tokens, len(tokens))
    path = (*around.path, *named)
    wire = next((one for one in path if one in ("codec", "preprocessors", "postprocessors")), None)
    if around.kind == "connector" and wire is not None and path[-1] in {wire, "name", "[]"}:
        yield from (Proposed(name, "value", says=says) for name, says in known.wire_names(wire).items())
    elif named:
        yield from _values(around, named[0])
    elif tokens[-1].value in {"{", ","}:
        yield from _keys(around)


def _keys(around: Within) -> Iterator[Proposed]:
    prefix, keys = known.keys_of(around)
    for key in keys:
        name = key.name.removeprefix(prefix)
        if "." not in name:
            yield Proposed(name, "property", _detail(key), key.description)


def _values(around: Within, name: str) -> Iterator[Proposed]:
    """`"append"`, of a key that takes one of some words."""
    prefix, keys = known.keys_of(around)
    for key in keys:
        if key.name == prefix + name:
            yield from (Proposed(word, "value", key.name) for word in _words_of(key.type))


def _words_of(kind: str) -> list[str]:
    return [json.loads(one) for one in kind.split(" or ") if one.startswith('"')]


def _detail(key: ConfigKey) -> str:
    return f"{key.type}, {'required' if key.default == 'required' else f'default {key.default}'}"


def _in_code(text: EditedText, tokens: Sequence[Token], offset: int) -> Iterator[Proposed]:
    types = [one.type for one in tokens[-4:]]
    words = [str(one) for one in tokens[-4:]]
    last = types[-1] if types else ""
    if last == "COLONCOLON" or (last in {"LBRACE", "COMMA"} and _uses(tokens)):
        yield from _in_module(text, tokens)
    elif _uses(tokens):
        yield from (Proposed(name, "module") for name in known.module_names(text))
    elif last == "FROM" and types[-4:-2] == ["DEFINE", "CONNECTOR"]:
        yield from _connectors()
    elif last == "FROM" and types[-4:-2] == ["DEFINE", "OPERATOR"]:
        yield from (Proposed(name, "class", says=summary(of)) for name, of in OPERATORS.items())
    elif last == "FROM" and types[-4:-3] == ["CREATE"]:
        yield from _names(text, (words[-3],), offset)
    elif types[-2:-1] == ["CREATE"] and words[-1] in _PARTS:
        yield from _names(text, (words[-1],), offset)
    elif types[-2:] == ["DEPLOY", "FLOW"]:
        yield from _names(text, ("flow",), offset)
    elif last in {"DEFINE", "CREATE"}:
        yield from (
            Proposed(word, "keyword") for word in _PARTS if last == "DEFINE" or word not in {"flow", "window"}
        )
    elif last == "SLASH" and types[-2:-1] in (["CONNECT"], ["TO"]):
        yield from (Proposed(word, "keyword") for word in ("connector", "pipeline"))
    elif last == "SLASH" and types[-2] in {"CONNECTOR", "PIPELINE"}:
        created = dict.fromkeys(one.name for one in text.created if one.kind == words[-2])
        yield from (Proposed(name, "variable", words[-2]) for name in created)
    elif last == "SLASH" and len(tokens) > 4 and types[-2] == "IDENT":
        yield from _ports(text, str(tokens[-4]), text_of(tokens[-2]), offset, incoming=_behind_to(tokens))
    elif last in {"FROM", "INTO"}:
        word = words[-1]
        yield Proposed(_PORTS[word], "port")
        nodes = [one for one in text.created if one.kind in _KINDS_OF_NAMES[word]]
        yield from (Proposed(one.name, "variable", one.kind) for one in nodes)
    elif (around := within(tokens)) is not None and not around.path and last in {"WITH", "COMMA"}:
        yield from _settings(around)
    elif last in {"", "SEMICOLON", "FLOW", "PIPELINE"}:
        yield from (Proposed(word, "keyword") for word in _STATEMENTS)
    else:
        yield from _in_expression(text)


def _uses(tokens: Sequence[Token]) -> bool:
    """Whether the last statement is a `use`."""
    for token in reversed(tokens):
        if token.type == "USE":
            return True
        if not (is_name(token) or token.type in {"COLONCOLON", "COMMA", "LBRACE", "RBRACE"}):
            return False
    return False


def _connectors() -> Iterator[Proposed]:
    for name in known.type_names("connector"):
        of = known.connector_type(name)
        if of is not None:
            yield Proposed(
                name, "class", f"in: {' '.join(of.ports.inputs)}; out: {' '.join(of.ports.outputs)}", summary(of)
            )


def _names(text: EditedText, kinds: tuple[str, ...], offset: int) -> Iterator[Proposed]:
    scope = text.scope_of(offset)
    for one in text.definitions:
        near = one.scope is None or scope is None or one.scope.start <= scope.start
        if one.kind in kinds and near:
            yield Proposed(one.name, "variable", one.kind)
    yield from (Proposed(use.alias.text, "module") for use in text.uses)


def _ports(text: EditedText, kind: str, name: str, offset: int, *, incoming: bool) -> Iterator[Proposed]:
    created = text.find_created((kind,), name, offset)
    of = text.find((kind,), created.of[-1] if created else name, offset)
    if of is None:
        return
    line = of.span.source.text[of.span.end :].split(maxsplit=2)
    connector = known.connector_type(line[1].strip('";,')) if kind == "connector" and len(line) > 1 else None
    if connector is not None:
        ports = connector.ports.inputs if incoming else connector.ports.outputs
    else:
        ports = ("in",) if incoming else ("out", "err")
    yield from (Proposed(port, "port") for port in ports)


def _behind_to(tokens: Sequence[Token]) -> bool:
    return any(one.type == "TO" for one in tokens[-5:])


def _settings(around: Within) -> Iterator[Proposed]:
    if around.kind == "connector":
        yield from (Proposed(name, "property", says=says) for name, says in known.SETTINGS.items())
    else:
        yield from _keys(around)


def _in_module(text: EditedText, tokens: Sequence[Token]) -> Iterator[Proposed]:
    while tokens and tokens[-1].type != "COLONCOLON":  # back to what stands before `{` in a `use`
        tokens = tokens[:-1]
    begin = len(tokens)
    while begin >= 2 and tokens[begin - 1].type == "COLONCOLON" and is_name(tokens[begin - 2]):
        begin -= 2
    written = tuple(text_of(one) for one in tokens[begin::2])
    path = written if _uses(tokens) or not written else text.module_path(written)
    prefix = "".join(f"{name}::" for name in path)
    inner = dict.fromkeys(
        name.removeprefix(prefix).partition("::")[0] for name in known.module_names(text) if name.startswith(prefix)
    )
    yield from (Proposed(name, "module") for name in inner)
    module = None if _uses(tokens) else known.module_doc(text, path)
    for one in module.entries if module else ():
        yield Proposed(one.name, "function" if one.kind == "function" else "constant", one.head, "\n".join(one.says))


def _in_expression(text: EditedText) -> Iterator[Proposed]:
    for name in dict.fromkeys([*(use.alias.text for use in text.uses), "aggr"]):
        yield Proposed(name, "module")
    yield from (
        Proposed(one.name, "function" if one.kind == "fn" else "constant")
        for one in text.definitions
        if one.kind in {"fn", "const"}
    )
    yield from (Proposed(word, "keyword") for word in ("event", "args", "state", "match", "patch", "merge", "for"))
