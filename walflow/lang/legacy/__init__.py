"""Files of tremor 0.11 and before: YAML, with `.trickle` queries beside it. They become the same FlowConfig."""

from pathlib import Path
from typing import Final

from walflow.diagnostics import Diagnostic, Report, Source
from walflow.lang.config import Flow
from walflow.lang.legacy import document
from walflow.lang.legacy.artefacts import ArtefactReader, Artefacts
from walflow.lang.legacy.flows import flows
from walflow.lang.legacy.queries import Queries

__all__ = ["QUERY", "YAML", "Legacy"]

YAML: Final = (".yaml", ".yml")
QUERY: Final = ".trickle"


class Legacy:
    """All such files of one `run`, in any order."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._artefacts = Artefacts()
        self._queries = Queries(report)
        self._reader = ArtefactReader(self._artefacts, report)
        self.given = False

    @staticmethod
    def reads(path: Path) -> bool:
        return path.suffix in {*YAML, QUERY}

    def read(self, source: Source, path: Path) -> None:
        self.given = True
        if path.suffix == QUERY:
            self._queries.read(source, path)
            return
        content = document.read(source, self._report_of_yaml)
        if content is not None and content.value is not None:
            self._reader.read(content)

    def _report_of_yaml(self, diagnostic: Diagnostic) -> None:
        self._artefacts.whole = False
        self._report(diagnostic)

    def flows(self) -> list[Flow]:
        return flows(self._artefacts, self._queries, self._report) if self.given else []
