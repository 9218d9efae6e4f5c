"""The text that an editor shows beside a cursor."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walflow.cli.lsp import known
from walflow.cli.lsp.edited import EditedText
from walflow.cli.lsp.pointed import Pointed, pointed_at
from walflow.diagnostics import Span

MOST_ENTRIES = 40  # of a module that is shown


class Hovered(NamedTuple):
    markdown: str
    span: Span


def hover(text: EditedText, offset: int, promised: Mapping[str, Sequence[str]]) -> Hovered | None:
    """`promised`: what the nodes of this file guarantee, see `examine`."""
    found = pointed_at(text, offset)
    words = _words(text, found, offset, promised) if found else None
    return Hovered(words, found.span) if found and words else None


def _words(text: EditedText, found: Pointed, offset: int, promised: Mapping[str, Sequence[str]]) -> str | None:
    match found.role:
        case "type":
            return known.described(found.kinds[0], "::".join(found.path))
        case "key":
            return _key(found)
        case "setting":
            return _setting(found)
        case "value":
            return _value(found)
        case "module":
            return _module(text, found.path)
        case "node":
            return _node(text, found, offset, promised)
        case "name" | "definition":
            return _name(text, found, offset)


def _key(found: Pointed) -> str | None:
    prefix, keys = known.keys_of(found.within) if found.within else ("", ())
    return next((known.key_text(key) for key in keys if key.name == prefix + found.path[0]), None)


def _setting(found: Pointed) -> str | None:
    if found.within and found.within.kind == "operator":
        return _key(found)
    words = known.SETTINGS.get(found.path[0])
    return f"**{found.path[0]}**\n\n{words}" if words else None


def _value(found: Pointed) -> str | None:
    around = found.within
    settings = ("codec", "preprocessors", "postprocessors")
    setting = next((one for one in around.path if one in settings), None) if around else None
    words = known.wire_names(setting).get(found.path[0]) if setting else None
    return f"**{found.path[0]}** ({(setting or '').removesuffix('s')})\n\n{words}" if words else None


def _module(text: EditedText, path: tuple[str, ...]) -> str | None:
    module = known.module_doc(text, path)
    if module is None:
        return None
    heads = [f"- `{one.head}`" for one in module.entries[:MOST_ENTRIES]]
    return "\n".join([f"**{module.path}**", "", *module.says, "", *heads])


def _node(text: EditedText, found: Pointed, offset: int, promised: Mapping[str, Sequence[str]]) -> str | None:
    kind, name = found.kinds[0], found.path[-1]
    created = text.find_created((kind,), name, offset)
    of = created.of if created else (name,)
    definition = text.find((kind,), of[-1], offset) if len(of) == 1 else None
    lines = [f"**{kind} {name}**"]
    if definition is not None:
        lines += ["", *_excerpt(text, definition.span)]
    lines += [line for words in promised.get(f"{kind}/{name}", ()) for line in ("", f"- {words}")]
    return "\n".join(lines) if len(lines) > 1 else None


def _name(text: EditedText, found: Pointed, offset: int) -> str | None:
    if len(found.path) > 1 or found.kinds == ("fn", "const"):
        path = text.module_path(found.path)
        if len(path) > 1 and (one := known.entry(text, path)) is not None:
            return known.entry_text("::".join(path[:-1]), one)
        if len(found.path) == 1 and len(path) > 1 and path != found.path:
            return _module(text, path)
    definition = text.find(found.kinds, found.path[-1], offset) if len(found.path) == 1 else None
    return "\n".join(_excerpt(text, definition.span)) if definition is not None else None


def _excerpt(text: EditedText, span: Span) -> Sequence[str]:
    """The line of a definition, and the `##` above it."""
    number = span.source.position(span.start).line
    says: list[str] = []
    above = number - 1
    while above and (line := span.source.line(above).strip()).startswith("##") and not line.startswith("###"):
        says.insert(0, line.removeprefix("##").strip())
        above -= 1
    return ["```troy", span.source.line(number).strip()[:200], "```", *says]
