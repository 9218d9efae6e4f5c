"""The protocol, by pygls. One thread reads and checks texts, so that the loop always takes the next message.

A change asks for a check. While one runs, further changes are one more check of the newest texts: a client that sends
a hundred changes a second gets the last one checked, and the queue holds one check for each file.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from walflow import __version__
from walflow.cli.lsp.complete import Proposed, Sort, complete
from walflow.cli.lsp.edited import EditedText
from walflow.cli.lsp.examine import LARGEST, NOTHING_PROMISED, Examined, examine, failed
from walflow.cli.lsp.goto import definition
from walflow.cli.lsp.hover import hover
from walflow.cli.lsp.places import Units, offset_of, range_of
from walflow.diagnostics import Diagnostic, Source, Span, first_of
from walflow.lang.files import Unsaved
from walflow.lang.layout import formatted
from walflow.lang.legacy import Legacy
from walflow.lang.syntax_of import syntax_errors

T = TypeVar("T")

_SORTS: Final[dict[Sort, types.CompletionItemKind]] = {
    "class": types.CompletionItemKind.Class,
    "property": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.EnumMember,
    "module": types.CompletionItemKind.Module,
    "function": types.CompletionItemKind.Function,
    "constant": types.CompletionItemKind.Constant,
    "variable": types.CompletionItemKind.Variable,
    "keyword": types.CompletionItemKind.Keyword,
    "port": types.CompletionItemKind.Field,
}
_SEVERITIES: Final = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}


def serve() -> None:
    """Until stdin ends, or the client says `exit`."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints would stand between two messages
    FlowServer().start_io(sys.stdin.buffer, out)


class FlowServer(LanguageServer):
    """What the client has open, and what was found in each."""

    def __init__(self) -> None:
        # all of a text, because pygls and walflow do not agree on what ends a line: U+2028 is a character here
        super().__init__("walflow", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)  # pyright: ignore[reportUnknownMemberType]
        self._worker = ThreadPoolExecutor(1, "walflow-lsp")
        self._open: dict[str, int] = {}  # the version of each text, by its URI
        self._wanted: dict[str, None] = {}  # to be checked
        self._checking: asyncio.Task[None] | None = None
        self._found: dict[str, Examined] = {}
        for name, method, options in self._features():
            self.feature(name, options)(_function(method))

    def _features(self) -> list[tuple[str, Callable[..., Awaitable[object]], Any]]:  # Any: pygls's own
        triggers = types.CompletionOptions(trigger_characters=['"', ":", "/"])
        return [
            (types.TEXT_DOCUMENT_DID_OPEN, self._changed, None),
            (types.TEXT_DOCUMENT_DID_CHANGE, self._changed, None),
            (types.TEXT_DOCUMENT_DID_SAVE, self._saved, None),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._closed, None),
            (types.TEXT_DOCUMENT_HOVER, self._hover, None),
            (types.TEXT_DOCUMENT_COMPLETION, self._complete, triggers),
            (types.TEXT_DOCUMENT_DEFINITION, self._define, None),
            (types.TEXT_DOCUMENT_FORMATTING, self._format, None),
        ]

    # ---- what the client says -------------------------------------------------------------------------------

    async def _changed(self, params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
        self._open[params.text_document.uri] = params.text_document.version
        self._check(params.text_document.uri)

    async def _saved(self, params: types.DidSaveTextDocumentParams) -> None:
        self._check(params.text_document.uri)

    async def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        for known in (self._open, self._wanted, self._found):
            known.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        promised = self._found[uri].promised if uri in self._found else NOTHING_PROMISED
        found = await self._ask(uri, params.position, lambda text, offset: hover(text, offset, promised))
        if found is None:
            return None
        return types.Hover(
            types.MarkupContent(types.MarkupKind.Markdown, found.markdown), range_of(found.span, self._units)
        )

    async def _complete(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        proposed = await self._ask(params.text_document.uri, params.position, complete)
        return [_item(one) for one in proposed or ()]

    async def _define(self, params: types.DefinitionParams) -> types.Location | None:
        span = await self._ask(params.text_document.uri, params.position, definition)
        return self._location(span) if span is not None else None

    async def _format(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        """As `walflow fmt`: a text with a syntax error is not changed."""
        source = self._source(params.text_document.uri)
        if source is None or (Legacy.reads(Path(source.name)) and not source.name.endswith(".trickle")):
            return None
        text = await self._in_worker(lambda: None if syntax_errors(source) else formatted(source))
        if text is None or text == source.text:
            return None
        return [types.TextEdit(range_of(Span(source, 0, len(source.text)), self._units), text)]

    # ---- what is asked of a text ----------------------------------------------------------------------------

    async def _ask(self, uri: str, place: types.Position, answer: Callable[[EditedText, int], T]) -> T | None:
        source = self._source(uri)
        if source is None or len(source.text) > LARGEST:
            return None
        text = EditedText(source, self._unsaved())
        return await self._in_worker(lambda: answer(text, offset_of(source, place, self._units)))

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def _source(self, uri: str) -> Source | None:
        """None for what is no file, or is not open."""
        path = to_fs_path(uri)
        if path is None or uri not in self._open:
            return None
        return Source(os.path.abspath(path), self.workspace.get_text_document(uri).source)

    def _unsaved(self) -> Unsaved:
        sources = (self._source(uri) for uri in self._open)
        return {source.name: source.text for source in sources if source is not None}

    @property
    def _units(self) -> Units:
        return self.workspace.position_codec.client_num_units

    def _location(self, span: Span) -> types.Location:
        uri = from_fs_path(os.path.abspath(span.source.name)) or ""
        return types.Location(uri, range_of(span, self._units))

    # ---- checks ---------------------------------------------------------------------------------------------

    def _check(self, uri: str) -> None:
        """The other texts that are open too: they may use this one."""
        self._wanted = dict.fromkeys([uri, *self._wanted, *self._open])
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check_wanted())

    async def _check_wanted(self) -> None:
        try:
            while self._wanted:
                uri = next(iter(self._wanted))
                del self._wanted[uri]
                await self._check_one(uri)
        finally:
            self._checking = None

    async def _check_one(self, uri: str) -> None:
        source, version = self._source(uri), self._open.get(uri)
        if source is None:
            return
        unsaved = self._unsaved()
        try:
            examined = await self._in_worker(lambda: examine(source, unsaved))
        except Exception as cause:  # noqa: BLE001  # a bug of ours must not end the checks
            examined = failed(source, cause)
        if self._open.get(uri) != version:
            return  # it was changed or closed meanwhile, and a change has asked for another check
        self._found[uri] = examined
        found = [self._diagnostic(one) for one in first_of(examined.found)[0]]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def _diagnostic(self, one: Diagnostic) -> types.Diagnostic:
        place = (
            range_of(one.span, self._units) if one.span else types.Range(types.Position(0, 0), types.Position(0, 0))
        )
        words = f"{one.message}\n{one.hint}" if one.hint else one.message
        return types.Diagnostic(place, words, _SEVERITIES[one.severity], code=one.name or None, source="walflow")


def _function(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """pygls writes attributes on what it calls, and a bound method has none."""

    async def feature(ls: LanguageServer, params: object) -> object:
        return await method(params)

    return feature


def _item(one: Proposed) -> types.CompletionItem:
    says = types.MarkupContent(types.MarkupKind.Markdown, one.says) if one.says else None
    return types.CompletionItem(one.label, kind=_SORTS[one.sort], detail=one.detail or None, documentation=says)
