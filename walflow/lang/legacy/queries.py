"""`.trickle` files on the command line. Each is a pipeline with the name of its file."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from walflow.compile.nodes import Name
from walflow.diagnostics import Report, Source, error
from walflow.lang.ast import DefinePipeline
from walflow.lang.config import PipelineConfig
from walflow.lang.deploy import pipeline
from walflow.lang.modules import Library
from walflow.lang.parser import parse_query
from walflow.warnings import warning
from walflow.warnings.not_on_disk import NOT_ON_DISK

_MEANT_FOR_DISK: Final = re.compile(r"disk|persist|durable", re.IGNORECASE)


class Query(NamedTuple):
    definition: DefinePipeline
    library: Library


class Queries:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._known: dict[str, Query] = {}
        self.whole = True

    def read(self, source: Source, path: Path) -> None:
        library = Library(path.parent, self._report)
        query = Query(parse_query(source, path.stem, self._report), library)
        if first := self._known.get(path.stem):
            hint = f"a pipeline is called as its file; the other is {first.definition.span.source.name}"
            self._report(error(f"pipeline `{path.stem}` is defined twice", query.definition.name.span, hint))
        else:
            self._known[path.stem] = query

    def __contains__(self, name: str) -> bool:
        return name in self._known

    @property
    def names(self) -> list[str]:
        return list(self._known)

    def definition(self, name: str) -> DefinePipeline:
        return self._known[name].definition

    def config(self, name: str, alias: Name, node: str) -> PipelineConfig:
        """`node`: the name of its instance in the flow `alias`."""
        definition, library = self._known[name]
        config = pipeline(alias, definition, Name(node, definition.name.span), library, self._report)
        for operator in config.operators:
            meant = _MEANT_FOR_DISK.search(operator.name.text) or _MEANT_FOR_DISK.search(name)
            if operator.kind.text == "qos::wal" and "dir" not in operator.settings and operator.complete and meant:
                message = (
                    f"operator `{operator.name.text}` keeps its events in memory: they are lost with the process"
                )
                self._report(
                    warning(NOT_ON_DISK, message, operator.defined, 'add `dir = "store"` and they are kept on disk')
                )
        return config
