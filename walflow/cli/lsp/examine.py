"""What `walflow check` says of a text that an editor holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from walflow.cli.lsp.edited import EditedText
from walflow.cli.promises import promises
from walflow.contract import risk_name
from walflow.diagnostics import Diagnostic, Source, Span, error, in_order
from walflow.lang.ast import DefineScript, Deploy
from walflow.lang.files import ALL_SAVED, Unsaved, find, search_path
from walflow.lang.legacy import Legacy
from walflow.lang.parser import parse, parse_script
from walflow.plan import Assembly, load
from walflow.plan.alone import load_query, load_script

LARGEST: Final = 256 << 10  # bytes; `check` takes more, but for these it needs a second
NOTHING_PROMISED: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})


@dataclass(frozen=True)
class Examined:
    """`found`: each with a span in the text. `promised`: what nodes guarantee, by `connector/NAME`; empty if there is
    an error."""

    found: Sequence[Diagnostic]
    promised: Mapping[str, Sequence[str]]


def examine(source: Source, unsaved: Unsaved) -> Examined:
    """`source`: by the absolute path of its file."""
    path = Path(source.name)
    if len(source.text) > LARGEST:
        words = f"larger than {LARGEST >> 10} KiB, so it is not checked while it is edited"
        return Examined(
            [Diagnostic("warning", words, Span(source, 0, 0), "`walflow check` checks it")], NOTHING_PROMISED
        )
    if path.suffix == ".trickle":
        return Examined(_placed(load_query(source, {})[1], source), NOTHING_PROMISED)
    if path.suffix == ".tremor" and _is_script(source):
        return Examined(_placed(load_script(source, {})[1], source), NOTHING_PROMISED)
    assembly, found = load([path], unsaved={**unsaved, source.name: source.text})
    if not Legacy.reads(path) and not _deploys(source):
        found = [one for one in found if one.span is not None or not one.message.startswith("nothing is deployed")]
        found = [one for one in found if one.name != "unused" or "never deployed" not in one.message]
    if assembly is None:
        return Examined(_placed(found, source), NOTHING_PROMISED)
    risks = [
        Diagnostic("warning", f"{node}: {words}", assembly.places_of(node)[1], None, risk_name(words))
        for node, words in promises(assembly).warnings
    ]
    return Examined(_placed([*found, *risks], source), _promised(assembly))


def _deploys(source: Source) -> bool:
    return any(isinstance(one, Deploy) for one in parse(source, lambda _: None).statements)


def _is_script(source: Source) -> bool:
    """A `.tremor` file is a script, or a module of functions."""
    found: list[Diagnostic] = []
    parsed = parse_script(source, "script", (), found.append)
    bodies = [one.body for one in parsed.names if isinstance(one, DefineScript)]
    return not found and any(bodies)


def _placed(found: Sequence[Diagnostic], source: Source) -> list[Diagnostic]:
    """Each at a place of this text: what is wrong in a module stands at its `use`,
    what is wrong in no line at the first."""
    placed: list[Diagnostic] = []
    for one in in_order(found):
        if one.span is not None and one.span.source.name == source.name:
            begin = min(one.span.start, len(source.text))
            placed.append(one._replace(span=Span(source, begin, min(max(one.span.end, begin), len(source.text)))))
        else:
            where = f"{one.span}: " if one.span else ""
            span = _place_of_module(one.span.source, source) if one.span else None
            placed.append(one._replace(message=f"{where}{one.message}", span=span or _first_line(source)))
    return placed


def _place_of_module(module: Source, source: Source) -> Span | None:
    for use in EditedText(source, ALL_SAVED).uses:
        if str(find([name.text for name in use.path], search_path(Path(source.name).parent))) == module.name:
            return use.span
    return None


def _first_line(source: Source) -> Span:
    end = source.text.find("\n")
    return Span(source, 0, end if end >= 0 else len(source.text))


def _promised(assembly: Assembly) -> Mapping[str, Sequence[str]]:
    promised: dict[str, dict[str, None]] = {}
    for key, words in _words(assembly):
        promised.setdefault(key, {})[words] = None
    return {key: list(words) for key, words in promised.items()}


def _words(assembly: Assembly) -> Iterator[tuple[str, str]]:
    said = promises(assembly)
    for promise in said.paths:
        for node, words in ((promise.path.source, promise.source), (promise.path.sink, promise.sink)):
            if words:
                yield f"{node.kind}/{node.name}", words
    for node, words in said.warnings:
        yield f"{node.kind}/{node.name}", f"warning: {words}"


def failed(source: Source, cause: Exception) -> Examined:
    """A bug of ours is a line in the editor, and not the end of the server."""
    words = f"walflow cannot check this file: internal error: {type(cause).__name__}: {cause}"
    return Examined([error(words, Span(source, 0, 0))], NOTHING_PROMISED)
